package preview

import (
	"context"
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// objects holds the objects of an operation for previews. Previewer.resolve completes objects whose
// kinds are defined later.
type objects struct {
	prepared *session.Prepared
	builder  *manifest.Builder
	client   *connect.Client
	dynamic  dynamic.Interface
	mapper   meta.RESTMapper
	crds     map[plan.Object]*resource.Info // of crds/
	target   map[plan.Object]*resource.Info // of the manifest, as the operation sends them
	list     helmkube.ResourceList          // the objects of target
	// deployed are the objects in the manifest of the deployed revision.
	deployed map[plan.Object]*resource.Info
	helm     *helmkube.Client
	hooks    map[string]bool // ids of the groups that are hooks
	// listed reads live objects with lists; nil unless all objects are previewed.
	listed *liveLists
}

// newObjects builds the planned and the deployed objects. The requests of the session end with ctx.
func newObjects(ctx context.Context, c *connect.Client, p *session.Prepared) (*objects, error) {
	ctx = connect.WithRetryTimeout(ctx, session.CheckRetryTimeout)
	checks, err := session.New(ctx, c, p.Common, &connect.Writes{}, release.NewLedger(p.Common.Namespace, p.Common.Release))
	if err != nil {
		return nil, err
	}
	s := &objects{
		prepared: p,
		builder:  checks.Builder(p.Target.Root()),
		client:   checks.Client,
		dynamic:  checks.Client.Dynamic,
		crds:     map[plan.Object]*resource.Info{},
		target:   map[plan.Object]*resource.Info{},
		deployed: map[plan.Object]*resource.Info{},
		helm:     checks.Helm.Client,
		hooks:    map[string]bool{},
	}
	for _, h := range p.Target.Release.Hooks {
		for _, e := range h.Events {
			s.hooks[charts.HookGroup(p.Target.Release, h, e, nil).ID] = true
		}
	}
	if s.mapper, err = checks.Client.Getter.ToRESTMapper(); err != nil {
		return nil, err
	}
	list, err := p.Target.CRDs.Build(s.builder)
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		s.crds[s.builder.Fact(i).Resource.Object] = i
	}
	if list, _, err = p.Target.Build(s.builder); err != nil {
		return nil, err
	}
	for _, i := range list {
		s.list = append(s.list, i)
		s.builder.Scope().Mark(i)
		s.target[s.builder.Fact(i).Resource.Object] = i
	}
	if list, _, err = s.builder.BuildStored(p.Old.Manifest()); err != nil {
		return nil, err
	}
	for _, i := range list {
		s.deployed[s.builder.Fact(i).Resource.Object] = i
	}
	return s, nil
}

func asUnstructured(i *resource.Info) (*unstructured.Unstructured, error) {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: unexpected type %T", i.ObjectName(), i.Object)
	}
	return u, nil
}

// isHook reports whether a group of a phase is a hook. With lockstep/hook-scope, a hook can be among
// the groups of its subchart.
func (s *objects) isHook(group string, kind event.PhaseKind) bool {
	return kind == event.PhaseHooks || s.hooks[group]
}

// planned returns an object as the operation sends it in a phase. updates is false if the operation
// leaves an existing object unchanged.
func (s *objects) planned(obj plan.Object, kind event.PhaseKind) (i *resource.Info, updates bool, err error) {
	i, updates = s.target[obj], true
	if kind == event.PhaseCRDs {
		i, updates = s.crds[obj], s.prepared.Target.CRDs.Applies(obj)
	}
	if i == nil {
		return nil, false, fmt.Errorf("preview %s: not in the manifest of the release", obj)
	}
	return i, updates, nil
}

// definesKind reports whether a CRD of the operation defines the kind of an object.
func (s *objects) definesKind(obj plan.Object) bool {
	kind := plan.GroupKind{Group: obj.Group, Kind: obj.Kind}
	for _, objects := range []map[plan.Object]*resource.Info{s.crds, s.target} {
		for _, crd := range objects {
			if s.builder.Fact(crd).Resource.Defines == kind {
				return true
			}
		}
	}
	return false
}

// live reads an object from the cluster, if possible from a list.
func (s *objects) live(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	if live := s.listed.get(ctx, collection{i.Mapping.Resource, i.Namespace}, i.Name); live != nil {
		return live, nil
	}
	return s.read(ctx, i)
}

func (s *objects) read(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	return s.dynamic.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
}

// removedEarlier reports whether an earlier release of the run deletes an object of its own.
func (s *objects) removedEarlier(o plan.Object, live *unstructured.Unstructured) bool {
	return s.prepared.Common.Provided.Removes(o, manifest.FactOf(o, live).Seen())
}

// useLists makes live read objects with lists.
func (s *objects) useLists() {
	s.listed = &liveLists{
		client: s.dynamic, shared: s.prepared.Common.Provided != nil,
		wanted: map[collection]int{}, lists: map[collection]func() map[string]*unstructured.Unstructured{},
	}
	for _, i := range s.target {
		if i.Mapping != nil {
			s.listed.wanted[collection{i.Mapping.Resource, i.Namespace}]++
		}
	}
}

// maxReads limits how often an object is read again because it changed during its preview.
const maxReads = 3

// dryRunOn updates an object of a phase as a dry run. It returns the states before and after. The one before is
// live unless the object has changed since it was read.
func (s *objects) dryRunOn(ctx context.Context, kind event.PhaseKind, o plan.Object, i *resource.Info, live *unstructured.Unstructured) (before, next *unstructured.Unstructured, err error) {
	next, err = s.dryRun(ctx, kind, o, i, live)
	for n := 0; err == nil && next.GetResourceVersion() != live.GetResourceVersion() && n < maxReads; n++ {
		if live, err = s.read(ctx, i); err == nil {
			next, err = s.dryRun(ctx, kind, o, i, live)
		}
	}
	return live, next, err
}

// dryRun sends an object of a phase as a dry run, as the operation will send it. live is nil if the object does not exist.
func (s *objects) dryRun(ctx context.Context, kind event.PhaseKind, o plan.Object, i *resource.Info, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if kind == event.PhaseCRDs {
		return s.prepared.Target.CRDs.Method().DryRun(ctx, s.helm, live, nil, i)
	}
	return s.prepared.Target.DryRun(ctx, s.helm, live, s.deployed[o], i)
}

// info returns an Info with which an object can be read by name.
func (s *objects) info(obj plan.Object) (*resource.Info, error) {
	mapping, err := s.mapper.RESTMapping(schema.GroupKind{Group: obj.Group, Kind: obj.Kind})
	if err != nil {
		return nil, err
	}
	return &resource.Info{Mapping: mapping, Namespace: obj.Namespace, Name: obj.Name}, nil
}

// previewLate previews an object whose kind the cluster does not serve yet in its version. In another version the object may
// exist.
func (s *objects) previewLate(ctx context.Context, c *change) error {
	i, err := s.info(c.Object)
	if err != nil {
		return nil // the kind is new
	}
	switch live, err := s.live(ctx, i); {
	case err == nil:
		c.Action = inspect.Modify
		c.Message = fmt.Sprintf("exists as %s; the cluster does not serve the new version yet, so the changes are unknown", live.GetAPIVersion())
		return nil
	case apierrors.IsNotFound(err), diagnose.LacksPermission(err):
		return nil
	default:
		return fmt.Errorf("read %s: %w", c.Object, err)
	}
}
