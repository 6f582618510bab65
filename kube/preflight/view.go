package preflight

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/session"
)

// clusterView reads the cluster for the checks. A check skips what it cannot read; unchecked lists
// the failed reads in one warning.
type clusterView struct {
	*session.Session
	mapper       meta.RESTMapper
	newNamespace string // a namespace that does not exist yet

	mu         sync.Mutex
	unreadable []string
}

// recordFailure reports whether a read request failed, and records the resource that could not be read for unchecked.
// namespace is "" for cluster scope.
func (v *clusterView) recordFailure(err error, resource, namespace string) bool {
	if err == nil {
		return false
	}
	if namespace != "" {
		resource += " in namespace " + namespace
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.Context.Err() == nil && !slices.Contains(v.unreadable, resource) {
		v.unreadable = append(v.unreadable, resource)
	}
	return true
}

// unchecked returns a warning about all failed reads, nil if there were none.
func (v *clusterView) unchecked() (warnings []plan.Warning) {
	if len(v.unreadable) == 0 {
		return nil
	}
	slices.Sort(v.unreadable)
	return []plan.Warning{{Message: "not checked, because reading failed or is not permitted: " + strings.Join(v.unreadable, ", ")}}
}

// maxConcurrent limits how many calls run concurrently.
const maxConcurrent = 16

// concurrently calls do(0) to do(n-1), at most maxConcurrent at a time, and waits for them.
func concurrently(n int, do func(i int)) {
	var calls errgroup.Group
	calls.SetLimit(maxConcurrent)
	for i := range n {
		calls.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = calls.Wait()
}

// checkAll checks the items concurrently and returns the warnings in their order.
func checkAll[T any](items []T, check func(T) []plan.Warning) []plan.Warning {
	found := make([][]plan.Warning, len(items))
	concurrently(len(items), func(i int) { found[i] = check(items[i]) })
	return slices.Concat(found...)
}

// listThreshold is the number of names from which one list costs less than a get for each.
const listThreshold = 4

// kindInNamespace is a kind in a namespace, which is "" for cluster scope.
type kindInNamespace struct {
	plan.GroupKind
	namespace string
}

func kindOf(o plan.Object) kindInNamespace {
	return kindInNamespace{plan.GroupKind{Group: o.Group, Kind: o.Kind}, o.Namespace}
}

// existing returns which of the named objects of a kind exist. known is false if a request fails or
// the cluster does not have the kind.
func (v *clusterView) existing(kind kindInNamespace, names []string) (exists map[string]bool, known bool) {
	if kind.namespace != "" && kind.namespace == v.newNamespace {
		return nil, true
	}
	mapping, err := v.mapper.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind})
	if err != nil {
		return nil, false // CheckKinds reports it unless an earlier group defines the kind
	}
	client := v.Client.Metadata.Resource(mapping.Resource).Namespace(kind.namespace)
	if len(names) >= listThreshold {
		exists, err = v.list(client)
	}
	if len(names) < listThreshold || apierrors.IsForbidden(err) { // a Role may permit get for these names only
		exists, err = v.get(client, names)
	}
	return exists, !v.recordFailure(err, mapping.Resource.GroupResource().String(), kind.namespace)
}

func (v *clusterView) list(client metadata.ResourceInterface) (exists map[string]bool, err error) {
	exists = map[string]bool{}
	err = connect.EachObject(v.Context, client, "", func(o *metav1.PartialObjectMetadata) { exists[o.Name] = true })
	return exists, err
}

// get returns which of the named objects exist. It stops at the first error.
func (v *clusterView) get(client metadata.ResourceInterface, names []string) (exists map[string]bool, err error) {
	exists = map[string]bool{}
	for _, n := range names {
		_, err := client.Get(v.Context, n, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		exists[n] = err == nil
	}
	return exists, nil
}

// namespace reads a namespace. It returns nil if the namespace does not exist; known is false if the
// request fails.
func (v *clusterView) namespace(name string) (ns *corev1.Namespace, known bool) {
	if name == v.newNamespace {
		return nil, true
	}
	ns, err := v.Client.Clientset.CoreV1().Namespaces().Get(v.Context, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, true
	}
	if v.recordFailure(err, "namespace "+name, "") {
		return nil, false
	}
	return ns, true
}
