// Package preview finds out what an operation would do, without doing it.
package preview

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
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
	ActionLater     Action = "later"  // it cannot be compared before what comes first is there; of one object alone
)

// atOnce is how many objects are asked about at the same time.
const atOnce = 32

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
	// Fields is Diff field by field, of one object alone.
	Fields []Field `json:"-"`
}

// Real reports whether the change leaves the cluster other than it is. Hooks do
// not count: they run with every operation, whether it changes anything or not.
func (c Change) Real() bool {
	return c.Action == ActionCreate || c.Action == ActionChange || c.Action == ActionDelete
}

// Masked is the change with all text hidden that hide hides.
func (c Change) Masked(hide func(string) string) Change {
	c.Diff, c.Message = hide(c.Diff), hide(c.Message)
	fields := make([]Field, len(c.Fields))
	for n, f := range c.Fields {
		fields[n] = Field{hide(f.In), strings.Split(hide(strings.Join(f.Lines, "\n")), "\n")}
	}
	c.Fields = fields
	return c
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
	o.list()
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
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for n := range changes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c := &changes[n]
			errs[n] = c.refuse(o.preview(ctx, c, kinds[c.Phase]))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	refuseWhat(p.Refused, changes)
	return changes, nil
}

// refuseWhat marks the objects that the checks have refused.
func refuseWhat(refused []plan.Warning, changes []Change) {
	for _, w := range refused {
		for i := range changes {
			if c := &changes[i]; w.Object != nil && c.Object == *w.Object && c.Action != ActionHook {
				c.Action, c.Diff, c.Message = ActionRefuse, "", w.Message
			}
		}
	}
}

// preview fills in what would happen to an object in a phase.
func (o *outlook) preview(ctx context.Context, c *Change, kind event.PhaseKind) error {
	switch {
	case kind == event.PhaseNamespace:
		c.Action = ActionCreate
		return nil
	case kind == event.PhaseRemove:
		return o.previewRemoval(ctx, c)
	case o.isHook(c.Group, kind):
		c.Action = ActionHook
		return nil
	}
	i, change, err := o.brought(c.Object, kind)
	if err != nil {
		return err
	}
	return o.previewApply(ctx, c, i, change)
}

// previewApply compares what is in the cluster with what would be.
func (o *outlook) previewApply(ctx context.Context, c *Change, i *resource.Info, change bool) error {
	c.Action = ActionCreate
	f := o.builder.Fact(i)
	if f.Late || f.Generated {
		return nil
	}
	live, err := o.live(ctx, i)
	if apierrors.IsNotFound(err) {
		return o.previewCreation(ctx, c, i)
	}
	return o.compare(ctx, c, i, live, err, change)
}

// compare finds out what an apply would change in an object that is there. err is
// why it could not be looked at.
func (o *outlook) compare(ctx context.Context, c *Change, i *resource.Info, live *unstructured.Unstructured, err error, change bool) error {
	if diagnose.LacksRight(err) && o.deployed[c.Object] != nil {
		return o.compareManifests(c, i, mayNotTry)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", c.Object, err)
	}
	c.Action = ActionUnchanged
	if !change {
		c.Message = "exists; crds/ are never changed"
		return nil
	}
	live, next, err := o.tryOn(ctx, i, live)
	switch {
	case err == nil:
		return o.differ(c, i, live, next)
	case diagnose.LacksRight(err) && o.deployed[c.Object] != nil:
		return o.compareManifests(c, i, mayNotTry)
	case cannotTry(err) && o.deployed[c.Object] != nil:
		return o.compareManifests(c, i, tryless)
	case cannotTry(err):
		c.Action, c.Message = ActionChange, "changes unknown: "+tryless
		return nil
	}
	return c.refuse(err)
}

// Why an object is changed of which no field changes.
const (
	onlyMetadata = "no field changes, only metadata kept by the API server: field ownership and generation"
	isReplaced   = "failed; replaced"
)

// differ fills in what comes of the apply of an object.
func (o *outlook) differ(c *Change, i *resource.Info, live, next *unstructured.Unstructured) error {
	if err := c.Differ(live, next); err != nil || c.Action == ActionChange {
		return err
	}
	switch {
	case o.prepared.Resumes && cluster.HasEnded(live, o.builder.Fact(i).Rule):
		c.Action, c.Message = ActionChange, isReplaced
	case o.appliesOnServer() && !isSameState(live, next):
		c.Action, c.Message = ActionChange, onlyMetadata
	}
	return nil
}

// isSameState compares two states of an object as the API server does, which stores nothing
// where only the times of managers differ.
func isSameState(live, next *unstructured.Unstructured) bool {
	timeless := func(u *unstructured.Unstructured) map[string]any {
		u = u.DeepCopy()
		unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion") // that of a dry run
		entries, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
		list, _ := entries.([]any)
		for _, e := range list {
			if m, ok := e.(map[string]any); ok {
				delete(m, "time")
			}
		}
		return u.Object
	}
	return reflect.DeepEqual(live.Object, next.Object) || reflect.DeepEqual(timeless(live), timeless(next))
}

// Differ fills in what differs between two states of the object, and that it
// changes where something does.
func (c *Change) Differ(live, next *unstructured.Unstructured) error {
	d, err := differenceOf(live, next)
	if err != nil {
		return fmt.Errorf("compare %s: %w", c.Object, err)
	}
	if c.Diff, c.Fields = d.text, d.fields; c.Diff != "" {
		c.Action = ActionChange
	}
	return nil
}

// Why an object is not tried.
const (
	mayNotTry = "this user may not do a dry run"
	tryless   = "its webhook does not support dry runs"
)

// cannotTry reports whether a dry run has come to nothing for a webhook that may not be
// asked about one, which says nothing of the object.
func cannotTry(err error) bool {
	return apierrors.IsBadRequest(err) && strings.HasSuffix(err.Error(), "does not support dry run")
}

// compareManifests compares an object that cannot be tried with the manifest that is
// deployed. What others have changed in the cluster since is not seen.
func (o *outlook) compareManifests(c *Change, i *resource.Info, why string) error {
	u, err := objectOf(i)
	if err != nil {
		return err
	}
	c.Action, c.Message = ActionUnchanged, "compared with the last manifest, because "+why
	return c.Differ(o.deployed[c.Object], u)
}

// previewCreation asks whether an object could be created. A refusal counts
// where it is about the object's own fields: its namespace, its kind, or what
// admission wants of others may come before it.
func (o *outlook) previewCreation(ctx context.Context, c *Change, i *resource.Info) error {
	if o.bringsKind(c.Object) {
		return nil // its fields may be other ones by then
	}
	_, err := o.try(ctx, i)
	if isMalformed(err) {
		return c.refuse(err)
	}
	return nil
}

// isMalformed reports whether an object was refused for what it is itself. For
// a field that its kind does not have, the API server's answer has no reason but
// in words.
func isMalformed(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) && !cannotTry(err) || err != nil && strings.HasPrefix(err.Error(), "failed to create typed patch object")
}

// refuse takes in an error: what the API server has answered is a finding about
// the object, such as that it, or a webhook, would refuse the change.
func (c *Change) refuse(err error) error {
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) {
		return err
	}
	c.Action, c.Message = ActionRefuse, diagnose.Explain(err).Error()
	return nil
}

// previewRemoval looks whether there is something to delete.
func (o *outlook) previewRemoval(ctx context.Context, c *Change) error {
	i, err := o.info(c.Object)
	if meta.IsNoMatchError(err) {
		c.Action = ActionAbsent
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", c.Object, err)
	}
	live, err := o.live(ctx, i)
	switch {
	case apierrors.IsNotFound(err):
		c.Action = ActionAbsent
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", c.Object, err)
	}
	c.Action = ActionDelete
	if o.prepared.Info.Name == "uninstall" { // what it keeps is not in the plan
		return nil
	}
	if c.Message = cluster.WhyKept(o.builder.Scope(), live); c.Message != "" {
		c.Action = ActionKeep
	}
	return nil
}
