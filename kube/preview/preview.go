// Package preview computes the changes that an operation would make, with dry runs: for the whole
// operation (Changes) or for one object at a time (Previewer). Package kube/operation imports it.
package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/helmclient"
	"lockstep/kube/preflight"
	"lockstep/kube/session"
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
			reasons[*w.Object] = append(reasons[*w.Object], cmp.Or(w.Why, w.Message))
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
		if c.Action = inspect.Create; v != nil { // the run may have created it
			if _, err := s.client.Clientset.CoreV1().Namespaces().Get(ctx, c.Object.Name, metav1.GetOptions{}); err == nil {
				c.Action = inspect.Unchanged
			}
		}
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
		return s.previewCreation(ctx, c, i)
	case apierrors.IsNotFound(err):
		return s.previewCreationNow(ctx, c, i)
	case diagnose.LacksPermission(err) && s.deployed[c.Object] != nil:
		return s.compareManifests(c, i, noReads)
	case err != nil:
		return fmt.Errorf("read %s: %w", c.Object, err)
	case !updates:
		c.Action, c.Message = inspect.Unchanged, "exists, and is not applied"
		if why := s.prepared.Target.CRDs.Existing[c.Object.Name].Stays; why != "" {
			c.Message = "stays as it is: " + why
		}
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

// previewCreation checks whether an object could be created. A refusal counts only if it is
// about the object's own fields: earlier groups may create its namespace or kind.
func (s *objects) previewCreation(ctx context.Context, c *change, i *resource.Info) error {
	if s.definesKind(c.Object) {
		return nil // the operation may change its schema first
	}
	_, err := s.dryRun(ctx, c.kind, c.Object, i, nil)
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
