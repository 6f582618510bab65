package preview

import (
	"context"
	"fmt"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
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

// session has the data of an operation for previews. Previewer.resolve completes objects whose
// kinds the cluster gets later.
type session struct {
	prepared *preflight.Prepared
	builder  *manifest.Builder
	dynamic  dynamic.Interface
	mapper   meta.RESTMapper
	crds     map[plan.Object]*resource.Info
	target   map[plan.Object]*resource.Info // as the operation sends them
	// deployed is the manifest of the deployed revision.
	deployed map[plan.Object]*unstructured.Unstructured
	hooks    map[string]bool // ids of the groups that are hooks
	// listed reads live objects with lists if all changes are previewed; else nil.
	listed *liveLists
}

// newSession builds the planned and the deployed manifest. Requests of the session end with
// ctx.
func newSession(ctx context.Context, c *connect.Client, p *preflight.Prepared) (*session, error) {
	s, err := preflight.NewSession(connect.WithRetryTimeout(ctx, preflight.CheckRetryTimeout), c, p.Common, &connect.Writes{}, release.NewLedger(p.Common.Namespace, p.Common.Release, nil))
	if err != nil {
		return nil, err
	}
	o := &session{
		prepared: p, builder: s.Builder(p.Target.Root()), dynamic: s.Client.Dynamic,
		crds: map[plan.Object]*resource.Info{}, target: map[plan.Object]*resource.Info{}, hooks: map[string]bool{}, deployed: map[plan.Object]*unstructured.Unstructured{},
	}
	for _, h := range p.Target.Release.Hooks {
		for _, e := range h.Events {
			o.hooks[charts.HookGroup(p.Target.Release, h, e, nil).ID] = true
		}
	}
	if o.mapper, err = s.Client.Getter.ToRESTMapper(); err != nil {
		return nil, err
	}
	list, err := p.Target.CRDs.Build(o.builder)
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		o.crds[o.builder.Fact(i).Resource.Object] = i
	}
	if list, _, err = o.builder.BuildTarget(p.Target.Release.Manifest); err != nil {
		return nil, err
	}
	for _, i := range list {
		o.builder.Scope().Mark(i)
		o.target[o.builder.Fact(i).Resource.Object] = i
	}
	if list, _, err = o.builder.BuildTarget(p.Old.Manifest()); err != nil {
		return nil, err
	}
	for _, i := range list {
		o.builder.Scope().Mark(i)
		if u, err := content(i); err == nil {
			o.deployed[o.builder.Fact(i).Resource.Object] = u
		}
	}
	return o, nil
}

func content(i *resource.Info) (*unstructured.Unstructured, error) {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: unexpected type %T", i.ObjectName(), i.Object)
	}
	return u, nil
}

// isHook reports whether a group is a hook, possibly one among the groups of its subchart
// (lockstep/hook-scope).
func (o *session) isHook(group string, kind event.PhaseKind) bool {
	return kind == event.PhaseHooks || o.hooks[group]
}

// planned returns an object as the operation sends it in a phase. change is false if the
// operation never changes an existing object.
func (o *session) planned(obj plan.Object, kind event.PhaseKind) (i *resource.Info, change bool, err error) {
	i, change = o.target[obj], true
	if kind == event.PhaseCRDs {
		i, change = o.crds[obj], o.prepared.Target.CRDs.Upgrade
	}
	if i == nil {
		return nil, false, fmt.Errorf("preview %s: not in the manifest of the release", obj)
	}
	return i, change, nil
}

func (o *session) definesKind(obj plan.Object) bool {
	kind := plan.GroupKind{Group: obj.Group, Kind: obj.Kind}
	for _, objects := range []map[plan.Object]*resource.Info{o.crds, o.target} {
		for _, crd := range objects {
			if o.builder.Fact(crd).Resource.Defines == kind {
				return true
			}
		}
	}
	return false
}

// live reads an object from the cluster, or from a list of several.
func (o *session) live(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	if live := o.listed.get(ctx, place{i.Mapping.Resource, i.Namespace}, i.Name); live != nil {
		return live, nil
	}
	return o.read(ctx, i)
}

func (o *session) read(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	return o.dynamic.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
}

// list makes live read objects with list requests.
func (o *session) list() {
	o.listed = &liveLists{client: o.dynamic, shared: o.prepared.Common.Provided != nil, wanted: map[place]int{}, lists: map[place]func() map[string]*unstructured.Unstructured{}}
	for _, i := range o.target {
		if i.Mapping != nil {
			o.listed.wanted[place{i.Mapping.Resource, i.Namespace}]++
		}
	}
}

// appliesOnServer reports whether the operation sends server-side applies.
func (o *session) appliesOnServer() bool {
	return o.prepared.Target.Release.ApplyMethod == string(rel1.ApplyMethodServerSideApply)
}

// maxReads is how often an object is read again if it changes during a preview.
const maxReads = 3

// dryRunOn applies an object as a dry run. It returns the state before, which is live unless
// the object has changed since, and the state after.
func (o *session) dryRunOn(ctx context.Context, i *resource.Info, live *unstructured.Unstructured) (before, next *unstructured.Unstructured, err error) {
	next, err = o.dryRun(ctx, i)
	for n := 0; err == nil && next.GetResourceVersion() != live.GetResourceVersion() && n < maxReads; n++ {
		if live, err = o.read(ctx, i); err == nil {
			next, err = o.dryRun(ctx, i)
		}
	}
	return live, next, err
}

// dryRun applies an object as a dry run, and returns the result.
func (o *session) dryRun(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	u, err := content(i)
	if err != nil {
		return nil, err
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	force := o.prepared.Target.Force || !o.appliesOnServer()
	return o.dynamic.Resource(i.Mapping.Resource).Namespace(i.Namespace).Patch(ctx, i.Name, types.ApplyPatchType, data, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, Force: &force, FieldManager: connect.FieldManager, FieldValidation: metav1.FieldValidationStrict,
	})
}

// info returns the resource of an object, to read it by name.
func (o *session) info(obj plan.Object) (*resource.Info, error) {
	mapping, err := o.mapper.RESTMapping(schema.GroupKind{Group: obj.Group, Kind: obj.Kind})
	if err != nil {
		return nil, err
	}
	return &resource.Info{Mapping: mapping, Namespace: obj.Namespace, Name: obj.Name}, nil
}
