// Package preview computes the changes that an operation would make, with dry runs: for the whole
// operation (Changes) or for one object at a time (Previewer). Package kube/operation imports it.
package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/session"
	"lockstep/kube/status"
)

// maxConcurrent limits how many objects are previewed at a time.
const maxConcurrent = 32

// change is a change while it is computed.
type change struct {
	inspect.Change
	kind    event.PhaseKind // of its phase
	refused error           // by the API server, unless that is about the object alone
	intends inspect.Action  // the action if the refusal passes
	// live and next are the compared states, nil if nothing was compared.
	live, next *unstructured.Unstructured
}

// Changes previews all objects of an operation in the order of the plan: by phase, by group, and in
// apply order. It writes nothing: it sends the requests of the operation as dry runs.
//
// Missing objects get a dry run, too, but a refusal counts only if the object itself is invalid:
// it may need objects of earlier groups. Refusals are part of the Change; an error means that the
// cluster could not be read.
func Changes(ctx context.Context, c *connect.Client, p *session.Prepared) ([]inspect.Change, error) {
	ctx, cancel := p.Common.WithTimeout(ctx)
	defer cancel()
	s, err := newObjects(ctx, c, p)
	if err != nil {
		return nil, err
	}
	changes, err := s.changes(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]inspect.Change, len(changes))
	for n, c := range changes {
		out[n] = c.Change
	}
	return out, nil
}

// changes previews all objects.
func (s *objects) changes(ctx context.Context) ([]change, error) {
	s.useLists()
	p := s.prepared
	var changes []change
	created := event.NewNamespace(p.Phases)
	for g, obj := range event.Objects(p.Phases) {
		if obj == created && g.Phase.Kind != event.PhaseNamespace { // its group finds it as it is
			continue
		}
		changes = append(changes, change{Change: inspect.Change{Phase: g.Phase.Name, Group: g.ID, Object: obj}, kind: g.Phase.Kind})
	}
	var previews errgroup.Group
	previews.SetLimit(maxConcurrent)
	for n := range changes {
		previews.Go(func() error {
			c := &changes[n]
			return c.refuse(s.preview(ctx, c, nil))
		})
	}
	if err := previews.Wait(); err != nil {
		return nil, err
	}
	writes := map[plan.Object]bool{}
	for _, c := range changes {
		writes[c.Object] = writes[c.Object] || c.Modifies()
	}
	if err := s.judge(ctx, changes, func(o plan.Object) bool { return writes[o] }); err != nil {
		return nil, err
	}
	markRefused(p.Conflicts, changes)
	return changes, nil
}

// judge turns refusals that may pass when the operation sends the object into changes. writes reports whether the
// operation writes an object.
func (s *objects) judge(ctx context.Context, changes []change, writes func(plan.Object) bool) error {
	var refusals *preflight.Refusals
	for n := range changes {
		c := &changes[n]
		if c.refused == nil {
			continue
		}
		if refusals == nil {
			var err error
			if refusals, err = preflight.NewRefusals(ctx, s.client, s.prepared, preflight.Incoming{Builder: s.builder, List: s.list}, writes); err != nil {
				return err
			}
		}
		if why := refusals.MayPass(c.Object, c.refused); why != "" {
			c.Action, c.Message = c.intends, why
		}
	}
	return nil
}

// markRefused marks the objects that the preflight checks refused.
func markRefused(refused []plan.Warning, changes []change) {
	reasons := map[plan.Object][]string{}
	for _, w := range refused {
		if w.Object != nil {
			reasons[*w.Object] = append(reasons[*w.Object], w.Message)
		}
	}
	for i := range changes {
		c := &changes[i]
		why := reasons[c.Object]
		if len(why) == 0 || c.Action == inspect.Hook {
			continue
		}
		c.Action, c.Diff, c.Fields, c.Message = inspect.Refuse, "", nil, why[0]
		if n := len(why) - 1; n > 0 {
			c.Message += fmt.Sprintf(" (and %d more)", n)
		}
	}
}

// preview sets the action, diff and message of a change. v is nil if all objects are
// previewed. For a single object, preview also looks up a kind that was missing, and the message says
// what the object needs first.
func (s *objects) preview(ctx context.Context, c *change, v *Previewer) error {
	switch {
	case c.kind == event.PhaseNamespace && s.target[c.Object] == nil:
		c.Action = inspect.Create
		return nil
	case c.kind == event.PhaseRemove:
		return s.previewRemoval(ctx, c)
	case s.isHook(c.Group, c.kind):
		if c.Action = inspect.Hook; v != nil {
			c.Message = s.hookMessage(c.Object)
		}
		return nil
	}
	i, updates, err := s.planned(c.Object, c.kind)
	if err != nil {
		return err
	}
	c.Action = inspect.Create
	switch f := s.builder.Fact(i); {
	case v == nil && f.Late:
		return s.previewLate(ctx, c)
	case v == nil && f.Generated:
		return nil
	case f.Generated:
		c.Message = "gets a new name each time"
		return nil
	case v != nil:
		if later, err := v.resolve(s, i); later || err != nil {
			c.Action, c.Message = inspect.Later, fmt.Sprintf("the cluster has no kind %s yet", c.Object.Kind)
			return err
		}
	}
	live, err := s.live(ctx, i)
	if apierrors.IsNotFound(err) && s.hasRun(c.Object, i) {
		c.HasRun, c.Message = true, "was deleted by ttlSecondsAfterFinished; runs again"
		return nil
	}
	switch {
	case apierrors.IsNotFound(err) && v == nil:
		return s.previewCreation(c, i)
	case apierrors.IsNotFound(err):
		return s.previewCreationNow(c, i)
	case diagnose.LacksPermission(err) && s.deployed[c.Object] != nil:
		return s.compareManifests(c, i, noReads)
	case err != nil:
		return fmt.Errorf("read %s: %w", c.Object, err)
	case !updates:
		c.Action, c.Message = inspect.Unchanged, "exists; objects in crds/ are never changed"
		return nil
	case live.GetDeletionTimestamp() != nil:
		c.Message = creationAfter(live)
		return nil
	case s.removedEarlier(c.Object, live):
		c.Message = "the release that has it now deletes it first"
		return nil
	}
	return s.previewUpdate(ctx, c, i, live)
}

// keepsChanges reports whether an unchanged object is a custom resource in which client-side apply keeps what others have changed in
// fields of the chart, as Helm does: it compares only the manifests.
func (s *objects) keepsChanges(c *change, i *resource.Info, live *unstructured.Unstructured) bool {
	m := s.prepared.Target.Method
	if c.kind != event.PhaseApply || !m.ClientSide || m.Replace || m.MergeCustom || scheme.Scheme.Recognizes(i.Mapping.GroupVersionKind) {
		return false
	}
	m.MergeCustom = true
	merged, err := m.DryRun(s.helm, live, s.deployed[c.Object], i)
	if err != nil {
		return false
	}
	would := inspect.Change{Object: c.Object}
	return Compare(&would, live, merged) == nil && would.Action == inspect.Modify
}

// creationAfter says when the operation creates an object that is being deleted.
func creationAfter(live *unstructured.Unstructured) string {
	if f := live.GetFinalizers(); len(f) > 0 {
		return "is being deleted; waits for " + text.Named("finalizer", f) + ", then is created"
	}
	return "is being deleted; is created as soon as it is gone"
}

// hasRun reports whether a missing object is a Job that the deployed revision has run, see Change.HasRun.
func (s *objects) hasRun(o plan.Object, i *resource.Info) bool {
	last, old := s.prepared.Last, s.deployed[o]
	if last == nil || !cluster.HasRun(last.Info.Status) || !cluster.Expires(i) || old == nil {
		return false
	}
	return reflect.DeepEqual(s.builder.Scope().Marked(old).Object, i.Object)
}

// previewUpdate previews the apply of an existing object.
func (s *objects) previewUpdate(ctx context.Context, c *change, i *resource.Info, live *unstructured.Unstructured) error {
	c.Action = inspect.Unchanged
	live, next, err := s.dryRunOn(ctx, c.kind, c.Object, i, live)
	refusal := preflight.RefusalOf(err)
	if diagnose.LacksPermission(err) || preflight.IsNoDryRun(err) || diagnose.NamesNoField(err) {
		if known := preflight.KnownRefusal(c.Object, s.deployed[c.Object], i); known != nil {
			err, refusal = known, known
		}
	}
	switch {
	case err == nil:
		err := s.compare(c, i, live, next)
		if isCRD := c.Object.GroupKind() == (plan.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}); isCRD && c.Action == inspect.Modify {
			c.Message = text.Join("; ", c.Message, preflight.CRDLosses(live, next))
		}
		if err == nil && c.Action == inspect.Unchanged && s.keepsChanges(c, i, live) {
			c.Message = text.Join("; ", c.Message, "somebody has changed fields that client-side apply keeps in custom resources; lockstep drift shows them")
		}
		return err
	case diagnose.LacksPermission(err) && s.deployed[c.Object] != nil:
		return s.compareManifests(c, i, noPatches)
	case preflight.IsNoDryRun(err) && s.deployed[c.Object] != nil:
		return s.compareManifests(c, i, webhookNoDryRun)
	case preflight.IsNoDryRun(err):
		c.Action, c.Message = inspect.Modify, "changes unknown: "+webhookNoDryRun
		return nil
	}
	if s.prepared.Resumes && len(diagnose.Immutable(err)) > 0 && status.HasFailed(live, s.builder.Fact(i).Rule) {
		c.Action, c.Message = inspect.Replace, preflight.FailedReplaced
		return nil
	}
	planned, named, why, readErr := preflight.Replacer{Client: s.client, Helm: s.helm, Prepared: s.prepared}.Plan(ctx, c.Object, i, err)
	switch {
	case readErr != nil:
		return readErr
	case why != "":
		c.Action, c.Message = inspect.Refuse, why
		return nil
	case named:
		return s.previewReplacement(c, i, planned)
	}
	if err = c.refuse(err); err == nil {
		c.refused, c.intends = refusal, inspect.Modify
	}
	return err
}

// previewReplacement sets the change of an object that is replaced. Its fields are compared with the deployed manifest: no dry run
// has the new object.
func (s *objects) previewReplacement(c *change, i *resource.Info, planned cluster.Replacement) (err error) {
	if s.deployed[c.Object] != nil {
		err = s.compareRevisions(c, i)
	}
	c.Action, c.Message = inspect.Replace, planned.Message
	return err
}

// compare sets the change from the result of a dry run.
func (s *objects) compare(c *change, i *resource.Info, live, next *unstructured.Unstructured) error {
	c.live, c.next = live, next
	if err := Compare(&c.Change, live, next); err != nil || c.Action == inspect.Modify {
		return err
	}
	switch { // an object may change although no field differs
	case s.prepared.Resumes && status.HasFailed(live, s.builder.Fact(i).Rule):
		c.Action, c.Message = inspect.Replace, preflight.FailedReplaced
	case !isSameState(live, next):
		c.Action, c.Message = inspect.Modify, "only the owners of its fields change"
	}
	return nil
}

// isSameState reports whether two states of an object differ at most in the generation, and in the times and the order of their field
// managers. The API server counts a generation, too, when it stores another form of the same, such as an empty list that its answers
// leave out, and orders the managers by their times.
func isSameState(live, next *unstructured.Unstructured) bool {
	return reflect.DeepEqual(live.Object, next.Object) || reflect.DeepEqual(timeless(live), timeless(next))
}

// timeless returns a copy of an object without what isSameState ignores.
func timeless(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion") // set by the dry run
	unstructured.RemoveNestedField(u.Object, "metadata", "generation")
	entries := u.GetManagedFields()
	for n := range entries {
		entries[n].Time = nil
	}
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	u.SetManagedFields(entries)
	return u.Object
}

// Compare sets Diff and Fields of a change to the differences between two states of the object, and Action
// to Modify if there are any.
func Compare(c *inspect.Change, live, next *unstructured.Unstructured) (err error) {
	if c.Diff, c.Fields, err = compareObjects(live, next); err != nil {
		return fmt.Errorf("compare %s: %w", c.Object, err)
	}
	if c.Diff != "" {
		c.Action = inspect.Modify
	}
	return nil
}

// Why a preview does not compare the live object with a dry run.
const (
	noReads         = "this user may not read it"
	noPatches       = "this user may not patch it, which a dry run requires"
	noCreations     = "this user may not both create and patch it, which a dry run requires"
	webhookNoDryRun = "its webhook does not support dry runs"
)

// compareManifests compares an object with the deployed manifest instead of a dry run. It
// misses changes that were made in the cluster.
func (s *objects) compareManifests(c *change, i *resource.Info, why string) error {
	c.Action, c.Message = inspect.Unchanged, "compared with the last manifest, because "+why
	return s.compareRevisions(c, i)
}

// compareRevisions is Compare for the deployed manifest and the operation's.
func (s *objects) compareRevisions(c *change, i *resource.Info) error {
	before, err := asUnstructured(s.builder.Scope().Marked(s.deployed[c.Object]))
	if err != nil {
		return err
	}
	after, err := asUnstructured(i)
	if err != nil {
		return err
	}
	c.live, c.next = before, after
	return Compare(&c.Change, before, after)
}

// addRevisionFields sets the Fields of an object that is as the operation sends it to those that the operation changes, so
// that they can still be seen once it has applied the object.
func (s *objects) addRevisionFields(c *inspect.Change, kind event.PhaseKind) error {
	i := s.target[c.Object]
	if c.Action != inspect.Unchanged || kind != event.PhaseApply || i == nil || s.deployed[c.Object] == nil {
		return nil
	}
	compared := change{Change: inspect.Change{Object: c.Object}}
	err := s.compareRevisions(&compared, i)
	c.Fields = compared.Fields
	return err
}

// previewCreation checks whether an object could be created. A refusal counts only if it is
// about the object's own fields: earlier groups may create its namespace or kind.
func (s *objects) previewCreation(c *change, i *resource.Info) error {
	if s.definesKind(c.Object) {
		return nil // the operation may change its schema first
	}
	_, err := s.dryRun(c.kind, c.Object, i, nil)
	if !isMalformed(err) {
		return nil
	}
	if policy, webhook := diagnose.DeniedBy(err); policy+webhook != "" {
		c.refused, c.intends = err, inspect.Create
	}
	return c.refuse(err)
}

// isMalformed reports whether an object was refused because it is invalid itself. Some errors about
// a field can only be recognised by their text.
func isMalformed(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) && !preflight.IsNoDryRun(err) || err != nil && connect.Mistyped(err.Error())
}

// refuse turns an error of the API server, or about the request to it, into a refusal of the object. It returns other errors.
func (c *change) refuse(err error) error {
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) && !helmclient.IsPatchError(err) {
		return err
	}
	c.Action, c.Message, c.Conflict = inspect.Refuse, diagnose.Explain(err).Error(), diagnose.IsFieldConflict(err)
	return nil
}

// previewRemoval checks whether the object exists and may be deleted.
func (s *objects) previewRemoval(ctx context.Context, c *change) error {
	i, err := s.info(c.Object)
	if meta.IsNoMatchError(err) {
		c.Action = inspect.Absent
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", c.Object, err)
	}
	live, err := s.live(ctx, i)
	switch {
	case apierrors.IsNotFound(err):
		c.Action = inspect.Absent
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", c.Object, err)
	}
	c.Action = inspect.Delete
	removal := cluster.Removal{Keep: s.prepared.Info.Name != "uninstall"}
	if left, found := s.prepared.Leftovers.Of(c.Phase); found {
		removal = left.Removal()
	}
	removal.Taken = cluster.NewTakenOver(s.prepared.Taken)
	c.Message = removal.WhyKept(s.builder.Scope(), s.prepared.Target.Claims, manifest.FactOf(c.Object, live))
	if c.Message == "" {
		c.Message, err = cluster.WhyInUse(ctx, s.client, s.builder.Scope(), s.prepared.Target.Claims, c.Object)
	}
	if c.Message == "" && s.prepared.Info.Name == "uninstall" && s.prepared.Common.Provided.TakesOver(c.Object) {
		c.Message = "another release of this run takes it over first"
	}
	if c.Message != "" {
		c.Action = inspect.Keep
	}
	return err
}
