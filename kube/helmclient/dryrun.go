package helmclient

import (
	"context"
	"errors"
	"io"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// DryRun wraps Helm's client for an action that writes nothing. It builds objects like Client, keeps
// those of the last manifest, and refuses writes.
type DryRun struct {
	helmReader
	ctx         context.Context
	inner       *helmkube.Client
	builder     *manifest.Builder
	waitForAPIs waitForAPIs
	snapshot    manifest.Snapshot

	mu           sync.Mutex
	built        helmkube.ResourceList
	warnings     []plan.Warning
	deferredAPIs []schema.GroupVersion
}

// helmReader has the methods of Helm's client that write nothing.
type helmReader interface {
	Get(list helmkube.ResourceList, related bool) (map[string][]runtime.Object, error)
	IsReachable() error
	GetPodList(namespace string, opts metav1.ListOptions) (*corev1.PodList, error)
	OutputContainerLogsForPodList(pods *corev1.PodList, namespace string, to func(namespace, pod, container string) io.Writer) error
	BuildTable(r io.Reader, validate bool) (helmkube.ResourceList, error)
}

var (
	_ helmkube.Interface            = (*DryRun)(nil)
	_ helmkube.InterfaceWaitOptions = (*DryRun)(nil)
)

// waitForAPIs waits until the APIs of a list are served. It returns those that it waited for, and
// those that it did not wait for (deferred), because the list itself provides them.
type waitForAPIs func(helmkube.ResourceList) (waited, deferred []schema.GroupVersion, err error)

// errDryRun is the error for a write. Helm's dry runs send none.
var errDryRun = errors.New("a dry run writes nothing")

// NewDryRun returns a DryRun whose requests end with ctx.
func NewDryRun(ctx context.Context, inner *helmkube.Client, b *manifest.Builder, wait waitForAPIs) *DryRun {
	return &DryRun{helmReader: inner, ctx: ctx, inner: inner, builder: b, waitForAPIs: wait}
}

// Built returns the objects of the last manifest, the unavailable APIs that it provides, and
// the warnings about all manifests.
func (d *DryRun) Built() (list helmkube.ResourceList, deferredAPIs []schema.GroupVersion, warnings []plan.Warning) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.built, d.deferredAPIs, d.warnings
}

// Build returns the Infos of a manifest.
func (d *DryRun) Build(r io.Reader, _ bool) (helmkube.ResourceList, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	list, warnings, err := d.builder.BuildTarget(string(raw))
	if err != nil {
		return nil, err
	}
	waited, deferredAPIs, err := d.waitForAPIs(list)
	if err == nil && len(waited) > 0 { // their kinds were unknown
		list, warnings, err = d.builder.RebuildTarget(string(raw))
		if err == nil {
			_, deferredAPIs, err = d.waitForAPIs(list)
		}
	}
	if err != nil {
		return nil, err
	}
	d.builder.MarkUnreadable(list, deferredAPIs)
	d.builder.Prefetch(d.ctx, list, &d.snapshot)
	d.builder.AssumeAbsent(list)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.built, d.warnings, d.deferredAPIs = list, append(d.warnings, warnings...), deferredAPIs
	return list, nil
}

// Create refuses to write, as do Update and Delete.
func (d *DryRun) Create(helmkube.ResourceList, ...helmkube.ClientCreateOption) (*helmkube.Result, error) {
	return nil, errDryRun
}

func (d *DryRun) Update(_, _ helmkube.ResourceList, _ ...helmkube.ClientUpdateOption) (*helmkube.Result, error) {
	return &helmkube.Result{}, errDryRun
}

func (d *DryRun) Delete(helmkube.ResourceList, metav1.DeletionPropagation) (*helmkube.Result, []error) {
	return nil, []error{errDryRun}
}

func (d *DryRun) GetWaiter(ws helmkube.WaitStrategy) (helmkube.Waiter, error) {
	return d.GetWaiterWithOptions(ws)
}

// GetWaiterWithOptions returns Helm's waiter for a strategy, or for watcher if that is WaitOrdered.
func (d *DryRun) GetWaiterWithOptions(ws helmkube.WaitStrategy, opts ...helmkube.WaitOption) (helmkube.Waiter, error) {
	return d.inner.GetWaiterWithOptions(helmStrategy(ws), opts...)
}
