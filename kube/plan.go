package kube

import (
	"context"
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

// Changes says what Run would do, in order: by phase, group, and within a group
// in the order of apply. It writes nothing: what would change is found out by
// server-side apply as a dry run, under Helm's field manager. A release that is
// applied on the client is compared in the same way, so that fields that the
// chart no longer has may be missing from a diff.
//
// Objects that are not there are tried in the same way, but only what is wrong
// with themselves counts: they may need what comes before them. The error says
// that the cluster could not be asked.
func (op *Operation) Changes(ctx context.Context) ([]Change, error) {
	o, err := op.newOutlook()
	if err != nil {
		return nil, err
	}
	op.client.getter.bound.set(ctx)
	var changes []Change
	for _, phase := range op.phases {
		for _, g := range phase.Groups {
			for _, obj := range g.Objects {
				changes = append(changes, Change{Phase: phase.Name, Group: g.ID, Object: obj})
			}
		}
	}
	kinds := map[string]event.PhaseKind{}
	for _, p := range op.phases {
		kinds[p.Name] = p.Kind
	}
	errs := make([]error, len(changes))
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for n := range changes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[n] = o.foresee(&changes[n], kinds[changes[n].Phase])
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

// outlook is what is needed to foresee changes.
type outlook struct {
	op     *Operation
	pass   *pass
	mapper meta.RESTMapper
	crds   map[plan.Object]*resource.Info
	target map[plan.Object]*resource.Info // what is to be applied
	// deployed is what the present revision's manifest has.
	deployed map[plan.Object]runtime.Object
	hooks    map[string]bool // ids of the groups that are hooks

	mu sync.Mutex // over the builder
}

func (op *Operation) newOutlook() (*outlook, error) {
	p, err := op.client.newPass(op.common.Namespace, op.root)
	if err != nil {
		return nil, err
	}
	p.ord.self = owner(op.common.Release, op.common.Namespace)
	o := &outlook{op: op, pass: p, crds: map[plan.Object]*resource.Info{}, target: map[plan.Object]*resource.Info{}, hooks: map[string]bool{}, deployed: map[plan.Object]runtime.Object{}}
	for _, h := range op.preview.Hooks {
		for _, e := range h.Events {
			o.hooks[charts.HookGroup(op.preview, h, e, nil).ID] = true
		}
	}
	if o.mapper, err = op.client.getter.ToRESTMapper(); err != nil {
		return nil, err
	}
	crds, err := p.buildCRDs(op.crds)
	if err != nil {
		return nil, err
	}
	for _, i := range crds {
		o.crds[p.ord.builder.fact(i).resource.Object] = i
	}
	list, _, err := p.ord.builder.build(op.preview.Manifest)
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		o.target[p.ord.builder.fact(i).resource.Object] = i
	}
	if list, _, err = p.ord.builder.build(op.before); err != nil {
		return nil, err
	}
	for _, i := range list {
		o.mark(i)
		o.deployed[p.ord.builder.fact(i).resource.Object] = i.Object
	}
	return o, nil
}

// foresee fills in what would happen to an object in a phase.
func (o *outlook) foresee(c *Change, kind event.PhaseKind) error {
	switch kind {
	case event.PhaseNamespace:
		c.Action = ActionCreate
		return nil
	case event.PhaseHooks:
		c.Action = ActionHook
		return nil
	case event.PhaseRemove:
		return o.foreseeRemoval(c)
	case event.PhaseCRDs:
		return o.foreseeApply(c, o.crds[c.Object], o.op.crds.upgrade)
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
	o.mark(i)
	return o.foreseeApply(c, i, true)
}

// mark gives an object the marks that Helm gives to what belongs to a release.
func (o *outlook) mark(i *resource.Info) {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[managedByKey] = "Helm"
	annotations[ownerNameKey], annotations[ownerNamespaceKey] = o.op.common.Release, o.op.common.Namespace
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
}

// foreseeApply compares what is in the cluster with what would be.
func (o *outlook) foreseeApply(c *Change, i *resource.Info, change bool) error {
	c.Action = ActionCreate
	f := o.pass.ord.builder.fact(i)
	if f.late || f.generate {
		return nil
	}
	helper := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(fieldManager).WithFieldValidation("Strict")
	live, err := helper.Get(i.Namespace, i.Name)
	if apierrors.IsNotFound(err) {
		return o.foreseeCreation(c, i, helper)
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
		return o.foreseeByManifest(c, i)
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

// foreseeByManifest compares an object with the manifest that is deployed, for a
// user who may not apply it, not even as a dry run. What others have changed in
// the cluster since is not seen.
func (o *outlook) foreseeByManifest(c *Change, i *resource.Info) (err error) {
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
	force := o.op.force || o.op.preview.ApplyMethod != string(rel1.ApplyMethodServerSideApply)
	return helper.DryRun(true).Patch(i.Namespace, i.Name, types.ApplyPatchType, data, &metav1.PatchOptions{Force: &force})
}

// foreseeCreation asks whether an object could be created. A refusal counts
// where it is about the object's own fields: its namespace, its kind, or what
// admission wants of others may come before it.
func (o *outlook) foreseeCreation(c *Change, i *resource.Info, helper *resource.Helper) error {
	kind := plan.GroupKind{Group: c.Object.Group, Kind: c.Object.Kind}
	for _, brought := range []map[plan.Object]*resource.Info{o.crds, o.target} {
		for _, crd := range brought {
			if o.pass.ord.builder.fact(crd).resource.Defines == kind {
				return nil // its fields may be other ones by then
			}
		}
	}
	_, err := o.try(i, helper)
	if isMalformed(err) {
		return c.refuse(err)
	}
	return nil
}

// refuse takes in an API server's answer to a dry run: that it would refuse the
// change is a finding, anything else an error.
func (c *Change) refuse(err error) error {
	if !isMalformed(err) && !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("dry run of %s: %w", c.Object, err)
	}
	c.Action, c.Message = ActionRefuse, explain(err).Error()
	return nil
}

// foreseeRemoval looks whether there is something to delete.
func (o *outlook) foreseeRemoval(c *Change) error {
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
	if o.op.info.Name == "uninstall" { // what it keeps is not in the plan
		return nil
	}
	if c.Message, err = o.pass.ord.whyKept(i); c.Message != "" {
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
	o.mu.Lock()
	defer o.mu.Unlock()
	client, err := o.pass.ord.builder.restClient(mapping)
	return &resource.Info{Client: client, Mapping: mapping, Namespace: obj.Namespace, Name: obj.Name}, err
}
