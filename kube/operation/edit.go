package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	chartcommon "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
)

// Edited is an edit of a running operation (R46): the next revision, rendered and
// planned. Nothing has been written.
type Edited struct {
	planned *Operation
	next    Upgrade
	before  *Operation
}

// Editable returns an error if the operation applies nothing and so cannot be edited. Others
// can be edited while they are paused or held.
func (op *Operation) Editable() error {
	if op.edit == nil {
		return fmt.Errorf("nothing to edit: %s takes neither values nor a chart", op.prepared.Info.Name)
	}
	return nil
}

// Values returns the user's values of the running revision; if all is set, merged with the
// chart defaults. Secret values are not masked.
func (op *Operation) Values(all bool) (map[string]any, error) {
	target := op.current().prepared.Target.Release
	if !all {
		return charts.CopyValues(target.Config), nil
	}
	values, err := chartcommon.CoalesceValues(target.Chart, charts.CopyValues(target.Config))
	if err != nil {
		return nil, fmt.Errorf("merge the values of chart %s: %w", target.Chart.Name(), err)
	}
	return values, nil
}

// Edit renders and plans another revision of the running operation with other values
// and, unless c is nil, another chart. An error changes nothing.
func (op *Operation) Edit(ctx context.Context, values map[string]any, c *charts.Chart) (*Edited, error) {
	if err := op.Editable(); err != nil {
		return nil, err
	}
	now := op.current()
	up := *now.edit
	up.Values, up.ResetValues, up.ReuseValues, up.ResetThenReuseValues = charts.CopyValues(values), true, false, false
	if c != nil {
		up.Chart = c
	}
	up.Step, up.BreakOn, up.OnStep, up.Common.Lease.OnWait = false, nil, nil, nil // the run is paused already, and reports elsewhere
	up.Edited = now.progress()
	planned, err := PrepareUpgrade(ctx, op.client, up)
	if err != nil {
		op.mask.AddValues(up.Values)
		return nil, op.mask.Error(err)
	}
	return &Edited{planned, up, now}, nil
}

// editFrom handles an edit from another process, whose values are merged over those of the
// run. It publishes a refusal if the edit is invalid.
func (op *Operation) editFrom(eng *run.Engine, c event.Command) {
	edited, err := op.editOver(eng.Requests(), c.Values)
	if err == nil {
		var empty bool
		if empty, err = edited.Empty(); empty { // it would only create another revision
			err = errors.New("the edit changes no object, so there is nothing to apply; retry or accept a failed group instead")
		}
	}
	if err != nil {
		eng.Publish(event.Event{Kind: event.KindCommand, Command: c.Name, Answers: c.ID, Status: event.Refused, Message: strings.Join(strings.Fields(err.Error()), " ")})
		return
	}
	c.Values, c.Edit = "", edited.Command().Edit
	eng.Command(c)
}

// editOver prepares an edit whose values, as YAML, are merged over those of the run.
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

// progress returns the Lease and the revision that the operation already has, for planning
// its next revision.
func (op *Operation) progress() *preflight.EditedRun {
	own := &preflight.EditedRun{Leased: op.holdsLease()}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.attempt != nil {
		own.Revision = op.attempt.driver.Written().Created
	}
	return own
}

// Command returns the command to continue with the edited revision. Only the operation that
// prepared the edit knows its id.
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

// Info names the operation that creates the edited revision.
func (e *Edited) Info() event.Operation { return e.planned.Info() }

// Phases returns the phases of the edited revision, in order.
func (e *Edited) Phases() []event.Phase { return e.planned.Phases() }

// Before returns the phases of the revision that the edit replaces.
func (e *Edited) Before() []event.Phase { return e.before.Phases() }

// Warnings returns the warnings about the edited chart and its plan.
func (e *Edited) Warnings() []plan.Warning { return e.planned.Warnings() }

// Changes returns the objects whose manifests differ from the replaced revision's, in the
// order of the new plan, followed by deleted objects. Secret values are masked.
func (e *Edited) Changes() ([]preview.Change, error) {
	was := maps.Collect(e.before.planned(e.before.prepared.Target.Release))
	is := maps.Collect(e.planned.planned(e.planned.prepared.Target.Release))
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

// Empty reports whether the edited revision applies the same objects in the same order as
// the one that it would replace.
func (e *Edited) Empty() (bool, error) {
	changes, err := e.Changes()
	if err != nil || len(changes) > 0 || !reflect.DeepEqual(gates(e.Before()), gates(e.Phases())) {
		return false, err
	}
	was, is := e.before.prepared.Target.Release.Chart, e.planned.prepared.Target.Release.Chart
	sameFile := func(a, b chart.CRD) bool { return bytes.Equal(a.File.Data, b.File.Data) }
	return was == is || slices.EqualFunc(was.CRDObjects(), is.CRDObjects(), sameFile), nil
}

// gates returns the groups that are applied, each with the groups that it waits for, without
// the namespace: it exists by the time of an edit.
func gates(phases []event.Phase) map[event.Unit][]string {
	after := map[event.Unit][]string{}
	for _, p := range phases {
		if p.Kind == event.PhaseRemove || p.Kind == event.PhaseNamespace {
			continue
		}
		for _, g := range p.Groups {
			after[event.Unit{Phase: p.Name, Group: g.ID}] = append([]string{}, g.After...)
		}
	}
	return after
}

// inPlanOrder returns objects with their phase and group, in the order of the operation's plan.
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

// replace finalizes the revision that was edited and runs the edited one in its place
// (R46). ended is false if a command was accepted that overrides the edit (R48).
func (as *attempts) replace(a *attempt, with *Edited) (ended bool, cause error) {
	op := as.op
	var left finalState
	if a != nil && op.wrote(a) {
		left, _ = a.finalize(run.ErrReplaced)
	}
	op.mu.Lock()
	op.revisions = append(op.revisions, with.planned) // before its event is published
	op.mu.Unlock()
	if op.engine.BeginNext(with.Info(), replacedMessage(op.prepared.Info, left.status), with.planned.phasesWithUsual()...) != nil {
		op.mu.Lock()
		op.revisions = op.revisions[:len(op.revisions)-1]
		op.mu.Unlock()
		return false, nil
	}
	next, err := as.prepareNext(a, with, left.err)
	if err != nil {
		return true, op.fail(as, a, fmt.Errorf("continue with the edited revision: %w", err))
	}
	return true, next.runToEnd(&attempts{op: next, engine: as.engine, runWatcher: as.runWatcher, stopWatching: as.stopWatching})
}

// prepareNext prepares the edited revision again on the objects that the replaced one left,
// and makes it the running revision.
func (as *attempts) prepareNext(a *attempt, with *Edited, failed error) (*Operation, error) {
	if failed != nil {
		return nil, failed
	}
	op, up := as.op, with.next
	up.Edited = op.progress()
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
	op.made = op.made || a != nil && a.driver.Written().Created > 0
	op.mu.Unlock()
	if !reflect.DeepEqual(next.prepared.Phases, with.planned.prepared.Phases) {
		as.engine.Announce(next.phasesWithUsual()...)
	}
	for _, w := range next.prepared.Warnings {
		if !known[w.Message] {
			as.engine.Publish(event.WarningEvent(w))
		}
	}
	return next, nil
}

// replacedMessage returns the message for replacing the revision of was. status is the one
// in its record, "" if the revision was never created.
func replacedMessage(was event.Operation, status string) string {
	if status == "" || status == event.NoRelease {
		return fmt.Sprintf("revision %d was edited before it was created", was.Revision)
	}
	return fmt.Sprintf("revision %d was edited and stays %s; the edited revision replaces it", was.Revision, status)
}

// edited returns the edit that a command continues with, nil for other commands.
func (op *Operation) edited(c *event.Command) *Edited {
	op.mu.Lock()
	defer op.mu.Unlock()
	if c == nil || c.Name != event.Edit || c.Edit < 1 || int(c.Edit) > len(op.edits) {
		return nil
	}
	return op.edits[c.Edit-1]
}
