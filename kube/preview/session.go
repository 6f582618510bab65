package preview

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// session holds the objects of an operation for previews. Previewer.resolve completes objects whose
// kinds are defined later.
type session struct {
	prepared *preflight.Prepared
	builder  *manifest.Builder
	dynamic  dynamic.Interface
	mapper   meta.RESTMapper
	crds     map[plan.Object]*resource.Info // of crds/
	target   map[plan.Object]*resource.Info // of the manifest, as the operation sends them
	// deployed are the objects in the manifest of the deployed revision.
	deployed map[plan.Object]*unstructured.Unstructured
	hooks    map[string]bool // ids of the groups that are hooks
	// listed reads live objects with lists; nil unless all objects are previewed.
	listed *liveLists
}

// newSession builds the planned and the deployed objects. The requests of the session end with ctx.
func newSession(ctx context.Context, c *connect.Client, p *preflight.Prepared) (*session, error) {
	ctx = connect.WithRetryTimeout(ctx, preflight.CheckRetryTimeout)
	checks, err := preflight.NewSession(ctx, c, p.Common, &connect.Writes{}, release.NewLedger(p.Common.Namespace, p.Common.Release, nil))
	if err != nil {
		return nil, err
	}
	s := &session{
		prepared: p,
		builder:  checks.Builder(p.Target.Root()),
		dynamic:  checks.Client.Dynamic,
		crds:     map[plan.Object]*resource.Info{},
		target:   map[plan.Object]*resource.Info{},
		deployed: map[plan.Object]*unstructured.Unstructured{},
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
	if list, _, err = s.builder.BuildTarget(p.Target.Release.Manifest); err != nil {
		return nil, err
	}
	for _, i := range list {
		s.builder.Scope().Mark(i)
		s.target[s.builder.Fact(i).Resource.Object] = i
	}
	if list, _, err = s.builder.BuildTarget(p.Old.Manifest()); err != nil {
		return nil, err
	}
	for _, i := range list {
		s.builder.Scope().Mark(i)
		if u, err := asUnstructured(i); err == nil {
			s.deployed[s.builder.Fact(i).Resource.Object] = u
		}
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
func (s *session) isHook(group string, kind event.PhaseKind) bool {
	return kind == event.PhaseHooks || s.hooks[group]
}

// planned returns an object as the operation sends it in a phase. updates is false if the operation
// leaves an existing object unchanged.
func (s *session) planned(obj plan.Object, kind event.PhaseKind) (i *resource.Info, updates bool, err error) {
	i, updates = s.target[obj], true
	if kind == event.PhaseCRDs {
		i, updates = s.crds[obj], s.prepared.Target.CRDs.Upgrade
	}
	if i == nil {
		return nil, false, fmt.Errorf("preview %s: not in the manifest of the release", obj)
	}
	return i, updates, nil
}

// definesKind reports whether a CRD of the operation defines the kind of an object.
func (s *session) definesKind(obj plan.Object) bool {
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
func (s *session) live(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	if live := s.listed.get(ctx, collection{i.Mapping.Resource, i.Namespace}, i.Name); live != nil {
		return live, nil
	}
	return s.read(ctx, i)
}

func (s *session) read(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	return s.dynamic.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
}

// useLists makes live read objects with lists.
func (s *session) useLists() {
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

// dryRunOn applies an object as a dry run. It returns the states before and after. The one before is
// live unless the object has changed since it was read.
func (s *session) dryRunOn(ctx context.Context, i *resource.Info, live *unstructured.Unstructured) (before, next *unstructured.Unstructured, err error) {
	next, err = s.dryRun(ctx, i)
	for n := 0; err == nil && next.GetResourceVersion() != live.GetResourceVersion() && n < maxReads; n++ {
		if live, err = s.read(ctx, i); err == nil {
			next, err = s.dryRun(ctx, i)
		}
	}
	return live, next, err
}

// dryRun applies an object as a dry run, and returns the result.
func (s *session) dryRun(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	u, err := asUnstructured(i)
	if err != nil {
		return nil, err
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	force := s.prepared.Target.Force || s.prepared.Target.ClientSide // a client-side apply has no conflicts
	return s.dynamic.Resource(i.Mapping.Resource).Namespace(i.Namespace).Patch(ctx, i.Name, types.ApplyPatchType, data, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, Force: &force, FieldManager: connect.FieldManager, FieldValidation: metav1.FieldValidationStrict,
	})
}

// info returns an Info with which an object can be read by name.
func (s *session) info(obj plan.Object) (*resource.Info, error) {
	mapping, err := s.mapper.RESTMapping(schema.GroupKind{Group: obj.Group, Kind: obj.Kind})
	if err != nil {
		return nil, err
	}
	return &resource.Info{Mapping: mapping, Namespace: obj.Namespace, Name: obj.Name}, nil
}
