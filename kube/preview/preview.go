// Package preview finds out what an operation would do, without doing it.
package preview

import (
	"context"
	"errors"
	"fmt"
	"sync"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
)

// Action is what would happen to an object.
type Action string

const (
	ActionCreate    Action = "create"
	ActionChange    Action = "change"
	ActionUnchanged Action = "unchanged"
	ActionDelete    Action = "delete"
	ActionAbsent    Action = "absent" // to be deleted, and gone already
	ActionKeep      Action = "keep"   // to be deleted, but helm.sh/resource-policy or another release keeps it
	ActionHook      Action = "hook"
	ActionRefuse    Action = "refuse" // the API server would refuse the change, as things are now
)

// Change is what an operation would do to one object.
type Change struct {
	Phase  string      `json:"phase"`
	Group  string      `json:"group"`
	Object plan.Object `json:"object"`
	Action Action      `json:"action"`
	// Diff is what an ActionChange changes in the live object, as a unified
	// diff of YAML without file names. Values of Secrets are hidden.
	Diff string `json:"diff,omitempty"`
	// Message says why an object is kept, left alone or refused.
	Message string `json:"message,omitempty"`
}

// Real reports whether the change leaves the cluster other than it is. Hooks do
// not count: they run with every operation, whether it changes anything or not.
func (c Change) Real() bool {
	return c.Action == ActionCreate || c.Action == ActionChange || c.Action == ActionDelete
}

// Changes says what an operation would do, in order: by phase, group, and within
// a group in the order of apply. It writes nothing: what would change is found
// out by server-side apply as a dry run, under Helm's field manager. A release
// that is applied on the client is compared in the same way, so that fields that
// the chart no longer has may be missing from a diff.
//
// Objects that are not there are tried in the same way, but only what is wrong
// with themselves counts: they may need what comes before them. What the API
// server answers to the question of one object stands with that object; the error
// says that the cluster could not be asked.
func Changes(ctx context.Context, c *connect.Client, p *preflight.Prepared) ([]Change, error) {
	ctx, cancel := p.Common.Within(ctx)
	defer cancel()
	o, err := newOutlook(ctx, c, p)
	if err != nil {
		return nil, err
	}
	var changes []Change
	kinds := map[string]event.PhaseKind{}
	for _, phase := range p.Phases {
		kinds[phase.Name] = phase.Kind
		for _, g := range phase.Groups {
			for _, obj := range g.Objects {
				changes = append(changes, Change{Phase: phase.Name, Group: g.ID, Object: obj})
			}
		}
	}
	errs := make([]error, len(changes))
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for n := range changes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c := &changes[n]
			errs[n] = c.refuse(o.preview(c, kinds[c.Phase]))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// outlook is what changes are found out with.
type outlook struct {
	prepared *preflight.Prepared
	builder  *manifest.Builder
	mapper   meta.RESTMapper
	crds     map[plan.Object]*resource.Info
	target   map[plan.Object]*resource.Info // what is to be applied
	// deployed is what the present revision's manifest has.
	deployed map[plan.Object]runtime.Object
	hooks    map[string]bool // ids of the groups that are hooks
}

func newOutlook(ctx context.Context, c *connect.Client, p *preflight.Prepared) (*outlook, error) {
	s, err := preflight.NewSession(connect.WithPatience(ctx, preflight.CheckPatience), c, p.Common, &connect.Writes{})
	if err != nil {
		return nil, err
	}
	o := &outlook{
		prepared: p, builder: s.Builder(p.Target.Root()),
		crds: map[plan.Object]*resource.Info{}, target: map[plan.Object]*resource.Info{}, hooks: map[string]bool{}, deployed: map[plan.Object]runtime.Object{},
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
	if list, _, err = o.builder.Build(p.Target.Release.Manifest); err != nil {
		return nil, err
	}
	for _, i := range list {
		o.target[o.builder.Fact(i).Resource.Object] = i
	}
	if list, _, err = o.builder.Build(p.Old.Manifest()); err != nil {
		return nil, err
	}
	for _, i := range list {
		o.builder.Scope().Mark(i)
		o.deployed[o.builder.Fact(i).Resource.Object] = i.Object
	}
	return o, nil
}

// preview fills in what would happen to an object in a phase.
func (o *outlook) preview(c *Change, kind event.PhaseKind) error {
	switch kind {
	case event.PhaseNamespace:
		c.Action = ActionCreate
		return nil
	case event.PhaseHooks:
		c.Action = ActionHook
		return nil
	case event.PhaseRemove:
		return o.previewRemoval(c)
	case event.PhaseCRDs:
		return o.previewApply(c, o.crds[c.Object], o.prepared.Target.CRDs.Upgrade)
	}
	i := o.target[c.Object]
	switch {
	case i != nil:
	case o.hooks[c.Group]: // of a subchart (lockstep/hook-scope)
		c.Action = ActionHook
		return nil
	default:
		return fmt.Errorf("plan %s: it is not in the manifest of the release", c.Object)
	}
	o.builder.Scope().Mark(i)
	return o.previewApply(c, i, true)
}

// previewApply compares what is in the cluster with what would be.
func (o *outlook) previewApply(c *Change, i *resource.Info, change bool) error {
	c.Action = ActionCreate
	f := o.builder.Fact(i)
	if f.Late || f.Generated {
		return nil
	}
	helper := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(connect.FieldManager).WithFieldValidation("Strict")
	live, err := helper.Get(i.Namespace, i.Name)
	if apierrors.IsNotFound(err) {
		return o.previewCreation(c, i, helper)
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", c.Object, err)
	}
	c.Action = ActionUnchanged
	if !change {
		c.Message = "it is there, and crds/ are left as they are"
		return nil
	}
	next, err := o.try(i, helper)
	if apierrors.IsForbidden(err) && o.deployed[c.Object] != nil {
		return o.compareManifests(c, i)
	}
	if err != nil {
		return c.refuse(err)
	}
	if c.Diff, err = diffObjects(live, next); err != nil {
		return fmt.Errorf("compare %s: %w", c.Object, err)
	}
	if c.Diff != "" {
		c.Action = ActionChange
	}
	return nil
}

// compareManifests compares an object with the manifest that is deployed, for a
// user who may not apply it, not even as a dry run. What others have changed in
// the cluster since is not seen.
func (o *outlook) compareManifests(c *Change, i *resource.Info) (err error) {
	c.Message = "compared with the last manifest, since this user may not try it"
	if c.Diff, err = diffObjects(o.deployed[c.Object], i.Object); c.Diff != "" {
		c.Action = ActionChange
	}
	return err
}

// try applies an object as a dry run.
func (o *outlook) try(i *resource.Info, helper *resource.Helper) (runtime.Object, error) {
	data, err := i.Object.(*unstructured.Unstructured).MarshalJSON()
	if err != nil {
		return nil, err
	}
	force := o.prepared.Target.Force || o.prepared.Target.Release.ApplyMethod != string(rel1.ApplyMethodServerSideApply)
	return helper.DryRun(true).Patch(i.Namespace, i.Name, types.ApplyPatchType, data, &metav1.PatchOptions{Force: &force})
}

// previewCreation asks whether an object could be created. A refusal counts
// where it is about the object's own fields: its namespace, its kind, or what
// admission wants of others may come before it.
func (o *outlook) previewCreation(c *Change, i *resource.Info, helper *resource.Helper) error {
	kind := plan.GroupKind{Group: c.Object.Group, Kind: c.Object.Kind}
	for _, brought := range []map[plan.Object]*resource.Info{o.crds, o.target} {
		for _, crd := range brought {
			if o.builder.Fact(crd).Resource.Defines == kind {
				return nil // its fields may be other ones by then
			}
		}
	}
	_, err := o.try(i, helper)
	if cluster.IsMalformed(err) {
		return c.refuse(err)
	}
	return nil
}

// refuse takes in an error: what the API server has answered is a finding about
// the object, such as that it, or a webhook, would refuse the change.
func (c *Change) refuse(err error) error {
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) {
		return err
	}
	c.Action, c.Message = ActionRefuse, cluster.Explain(err).Error()
	return nil
}

// previewRemoval looks whether there is something to delete.
func (o *outlook) previewRemoval(c *Change) error {
	i, err := o.info(c.Object)
	if meta.IsNoMatchError(err) {
		c.Action = ActionAbsent
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", c.Object, err)
	}
	_, err = resource.NewHelper(i.Client, i.Mapping).Get(i.Namespace, i.Name)
	switch {
	case apierrors.IsNotFound(err):
		c.Action = ActionAbsent
		return nil
	case err != nil:
		return fmt.Errorf("look at %s: %w", c.Object, err)
	}
	c.Action = ActionDelete
	if o.prepared.Info.Name == "uninstall" { // what it keeps is not in the plan
		return nil
	}
	if c.Message, err = cluster.WhyKept(o.builder.Scope(), i); c.Message != "" {
		c.Action = ActionKeep
	}
	return err
}

// info is what it takes to ask for an object of which only the name is known.
func (o *outlook) info(obj plan.Object) (*resource.Info, error) {
	mapping, err := o.mapper.RESTMapping(schema.GroupKind{Group: obj.Group, Kind: obj.Kind})
	if err != nil {
		return nil, err
	}
	client, err := o.builder.RESTClient(mapping)
	return &resource.Info{Client: client, Mapping: mapping, Namespace: obj.Namespace, Name: obj.Name}, err
}
