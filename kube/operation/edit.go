package operation

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	chartcommon "helm.sh/helm/v4/pkg/chart/common/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
)

// Edited is another revision for an operation under way, rendered and planned: what
// an edit goes on with (R46). Making it has written nothing.
type Edited struct {
	planned *Operation
	next    Upgrade
	before  *Operation
}

// Editable says why an operation cannot be edited, nil where it can while it is
// paused or held.
func (op *Operation) Editable() error {
	if op.edit == nil {
		return fmt.Errorf("nothing to edit: %s takes neither values nor a chart", op.prepared.Info.Name)
	}
	return nil
}

// Values are those of the revision under way: what the user gave, or with all also
// what the charts have by themselves. They are not masked: they are the user's own.
func (op *Operation) Values(all bool) (map[string]any, error) {
	target := op.present().prepared.Target.Release
	if !all {
		return charts.CopyValues(target.Config), nil
	}
	values, err := chartcommon.CoalesceValues(target.Chart, charts.CopyValues(target.Config))
	if err != nil {
		return nil, fmt.Errorf("merge the values of chart %s: %w", target.Chart.Name(), err)
	}
	return values, nil
}

// Edit renders and plans another revision of the operation under way: with these
// values in place of those that the user gave, and another chart where one is given.
// An error means that it would not come to anything, and has changed nothing.
func (op *Operation) Edit(ctx context.Context, values map[string]any, c *charts.Chart) (*Edited, error) {
	if err := op.Editable(); err != nil {
		return nil, err
	}
	now := op.present()
	up := *now.edit
	up.Values, up.ResetValues, up.ReuseValues, up.ResetThenReuseValues = charts.CopyValues(values), true, false, false
	if c != nil {
		up.Chart = c
	}
	up.Step, up.BreakOn, up.Doing, up.Common.Lease.Waits = false, nil, nil, nil // it has been stopped, and is shown elsewhere
	up.Own = now.progress()
	planned, err := PrepareUpgrade(ctx, op.client, up)
	if err != nil {
		op.mask.Values(up.Values)
		return nil, op.mask.Error(err)
	}
	return &Edited{planned, up, now}, nil
}

// editFrom is an edit of another process's: it has only values, which are laid over
// those of the run. What comes to nothing is refused.
func (op *Operation) editFrom(eng *run.Engine, c event.Command) {
	edited, err := op.editOver(eng.Requests(), c.Values)
	if err != nil {
		eng.Publish(event.Event{Kind: event.KindCommand, Command: c.Name, Answers: c.ID, Status: event.Refused, Message: strings.Join(strings.Fields(err.Error()), " ")})
		return
	}
	c.Values, c.Edit = "", edited.Command().Edit
	eng.Command(c)
}

func (op *Operation) editOver(ctx context.Context, text string) (*Edited, error) {
	if err := op.Editable(); err != nil {
		return nil, err
	}
	var over map[string]any
	if err := yaml.Unmarshal([]byte(text), &over); err != nil {
		return nil, fmt.Errorf("read the edited values: %w", err)
	}
	values, err := op.Values(false)
	if err != nil {
		return nil, err
	}
	return op.Edit(ctx, chartcommon.CoalesceTables(over, values), nil)
}

// own is what the operation has done so far, for those who plan what it is to do
// next.
func (op *Operation) progress() *preflight.Own {
	own := &preflight.Own{Leased: op.holdsLease()}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.attempt != nil {
		own.Revision = op.attempt.driver.Written().Made
	}
	return own
}

// Command is the order to go on with the edited revision. Only the operation that
// prepared it knows the number in the order.
func (e *Edited) Command() event.Command {
	e.before.mu.Lock()
	defer e.before.mu.Unlock()
	id := slices.Index(e.before.edits, e) + 1
	if id == 0 {
		e.before.edits = append(e.before.edits, e)
		id = len(e.before.edits)
	}
	return event.Command{Name: event.Edit, Edit: event.EditID(id)}
}

// Info names the operation that makes the edited revision.
func (e *Edited) Info() event.Operation { return e.planned.Info() }

// Phases are what would run, in order.
func (e *Edited) Phases() []event.Phase { return e.planned.Phases() }

// Before is what the revision that is replaced has planned.
func (e *Edited) Before() []event.Phase { return e.before.Phases() }

// Warnings are about the edited chart and its plan.
func (e *Edited) Warnings() []plan.Warning { return e.planned.Warnings() }

// Changes are the objects that are other ones in the edited revision than in the one
// that is replaced, by their manifests: in the order of the new plan, then what is
// gone. Secret values are hidden.
func (e *Edited) Changes() ([]preview.Change, error) {
	was, is := e.before.targets(), e.planned.targets()
	var changes []preview.Change
	for _, c := range e.planned.inPlanOrder(is) {
		old, there := was[c.Object]
		delete(was, c.Object)
		if c.Action = preview.ActionCreate; there {
			if err := c.Differ(old, is[c.Object]); err != nil {
				return nil, err
			}
		}
		if !there || c.Diff != "" {
			changes = append(changes, c.Masked(e.before.Mask().Text).Masked(e.planned.Mask().Text))
		}
	}
	for _, c := range e.before.inPlanOrder(was) {
		c.Action = preview.ActionDelete
		changes = append(changes, c)
	}
	return changes, nil
}

// targets are the objects that an operation brings, hooks among them.
func (op *Operation) targets() map[plan.Object]*unstructured.Unstructured {
	return maps.Collect(op.planned(op.prepared.Target.Release))
}

// placed are objects where they stand in the operation's plan, in its order.
func (op *Operation) inPlanOrder(objects map[plan.Object]*unstructured.Unstructured) (out []preview.Change) {
	seen := map[plan.Object]bool{}
	for _, p := range op.prepared.Phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if objects[o] != nil && !seen[o] && p.Kind != event.PhaseRemove {
					seen[o] = true
					out = append(out, preview.Change{Phase: p.Name, Group: g.ID, Object: o})
				}
			}
		}
	}
	return out
}

// replace brings what an operation that was edited has left to a final state, and
// begins the edited revision, which is the operation from then on (R46). It has not
// ended where a command was accepted that takes the place of the edit (R48).
func (as *attempts) replace(a *attempt, with *Edited) (ended bool, cause error) {
	op := as.op
	var left finalState
	if a != nil && op.wrote(a) {
		left, _ = a.finalize(run.ErrReplaced)
	}
	op.setNextRevision(with.planned) // before the event that tells of it
	if op.engine.BeginNext(with.Info(), replacedMessage(op.prepared.Info, left.status), with.planned.phasesWithUsual()...) != nil {
		op.setNextRevision(nil)
		return false, nil
	}
	next, err := as.prepareNext(a, with, left.err)
	if err != nil {
		return true, op.fail(as, a, fmt.Errorf("continue with the edited revision: %w", err))
	}
	return true, next.runToEnd(&attempts{op: next, engine: as.engine, runWatcher: as.runWatcher, stopWatching: as.stopWatching})
}

// bring adds what an edit has made of an operation, or where that is nil takes away
// the last one.
func (op *Operation) setNextRevision(next *Operation) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if next == nil {
		op.revisions = op.revisions[:len(op.revisions)-1]
		return
	}
	op.revisions = append(op.revisions, next)
}

// next prepares the edited revision again, now that it is known what the one before
// has left, and makes it the operation's.
func (as *attempts) prepareNext(a *attempt, with *Edited, failed error) (*Operation, error) {
	if failed != nil {
		return nil, failed
	}
	op, up := as.op, with.next
	up.Own = op.progress()
	planned, err := PrepareUpgrade(as.engine.Requests(), op.client, up)
	if err != nil {
		return nil, err
	}
	next := &Operation{client: op.client, prepared: planned.prepared, method: planned.method, shared: op.shared}
	known := map[string]bool{}
	for _, w := range op.prepared.Warnings {
		known[w.Message] = true
	}
	next.Mask()
	op.mu.Lock()
	op.now, op.attempt, op.outlooks = next, nil, outlooks{}
	op.made = op.made || a != nil && a.driver.Written().Made > 0
	op.mu.Unlock()
	if !reflect.DeepEqual(next.prepared.Phases, with.planned.prepared.Phases) {
		as.engine.Announce(next.phasesWithUsual()...)
	}
	for _, w := range next.prepared.Warnings {
		if !known[w.Message] {
			as.engine.Publish(event.OfWarning(w))
		}
	}
	return next, nil
}

// replaced says of a revision that an edited one takes its place. status is what its
// record says, "" where it was never made.
func replacedMessage(was event.Operation, status string) string {
	if status == "" || status == event.NoRelease {
		return fmt.Sprintf("revision %d was edited before it was created", was.Revision)
	}
	return fmt.Sprintf("revision %d was edited and stays %s; the edited revision replaces it", was.Revision, status)
}

// edited is what a command goes on with, nil where it is no edit.
func (op *Operation) edited(c *event.Command) *Edited {
	op.mu.Lock()
	defer op.mu.Unlock()
	if c == nil || c.Name != event.Edit || c.Edit < 1 || int(c.Edit) > len(op.edits) {
		return nil
	}
	return op.edits[c.Edit-1]
}
