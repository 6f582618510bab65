package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	chartcommon "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/documents"
	"lockstep/kube/journal"
	"lockstep/kube/preview"
	"lockstep/kube/session"
)

// Edit is an edit of a running operation (R46): the next revision, rendered, planned and checked. Nothing has been written.
type Edit struct {
	operation *Operation    // creates the edited revision
	opts      Deploy        // of operation, to prepare it again
	replaced  *Operation    // whose running revision the edit replaces
	kept      *journal.Edit // to be kept with the run; nil outside a cluster
}

// CheckEditable returns an error if the operation has no chart and values to edit. Other operations can be edited while
// they are paused or held.
func (op *Operation) CheckEditable() error {
	if op.editOptions == nil {
		return fmt.Errorf("nothing to edit: %s takes neither values nor a chart", op.prepared.Info.Name)
	}
	if op.prepared.Common.SavedPlan != nil {
		return errors.New("the run follows a saved plan (R55), so its values cannot be edited")
	}
	return nil
}

// Values returns the user's values of the running revision or, if all is set, those values merged over the chart's
// defaults. Secret values are not masked.
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

// Defaults returns the defaults of the chart as comments.
func (op *Operation) Defaults() string {
	return charts.Defaults(op.current().prepared.Target.Release.Chart)
}

// Edit prepares another revision of the running operation, with other values and, unless c is nil, another chart. If
// it returns an error, nothing has changed.
func (op *Operation) Edit(ctx context.Context, values map[string]any, c *charts.Chart) (*Edit, error) {
	if err := op.CheckEditable(); err != nil {
		return nil, err
	}
	running := op.current()
	up := *running.editOptions
	up.setValues(charts.CopyValues(values))
	if c != nil {
		up.Chart = c
	}
	up.Step = false // the run is already paused
	up.BreakOn, up.Approve = nil, nil
	up.OnStep = nil
	up.Common.Lease.OnWait = nil
	up.RunInProgress, up.HoldsLease = running.progress(), running.HoldsLease()
	edited, err := PrepareUpgrade(ctx, op.client, up)
	if err != nil {
		op.Mask().AddValues(up.Values) // the error may contain them
		return nil, op.Mask().Error(err)
	}
	if err := running.checkBase(edited); err != nil {
		return nil, err
	}
	edited.prepared.Info.EditedValues = running.Info().EditedValues || !sameValues(values, running.prepared.Target.Release.Config)
	return &Edit{operation: edited, opts: up, replaced: running}, nil
}

// checkBase returns a *changedError if the edited revision would follow another one than that of the run or, if that is not created
// yet, the one that the run started from: somebody else has deployed it in the meantime (R51b).
func (op *Operation) checkBase(edited *Operation) error {
	p, base := edited.prepared, op.prepared.Last
	if own := p.Common.RunInProgress.Revision; own > 0 {
		if p.Last != nil && p.Last.Version == own {
			return nil
		}
		base = &rel1.Release{Version: own}
	}
	return changedSince(p.Common.Release, base, p.Last)
}

// remoteEdit handles an edit command from another process. It publishes a refusal if the edit is invalid.
func (op *Operation) remoteEdit(eng *run.Engine, c event.Command) {
	edit, err := op.editWithOverrides(eng.RequestContext(), c.Values)
	if err != nil {
		refuse(eng, c, err)
		return
	}
	c.Values = ""
	c.Edit = edit.Command().Edit
	op.mu.Lock()
	defer op.mu.Unlock()
	op.commandEdit(c, edit)
}

// refuse publishes that a command is refused.
func refuse(eng *run.Engine, c event.Command, why error) {
	eng.Publish(event.Event{
		Kind: event.KindCommand, Command: c.Name, By: c.By, Answers: c.ID, Status: event.Refused, Message: text.CollapseSpace(why.Error()),
	})
}

// editWithOverrides prepares an edit that merges encoded values over those of the run. It returns an error if the
// edited revision would be the same.
func (op *Operation) editWithOverrides(ctx context.Context, encoded string) (*Edit, error) {
	if err := op.CheckEditable(); err != nil {
		return nil, err
	}
	overrides, err := documents.DecodeExact(encoded)
	if err != nil {
		return nil, fmt.Errorf("read the edited values: %w", err)
	}
	values, err := op.Values(false)
	if err != nil {
		return nil, err
	}
	edit, err := op.Edit(ctx, chartcommon.CoalesceTables(overrides, values), nil)
	if err != nil {
		return nil, err
	}
	empty, err := edit.Empty()
	if err != nil {
		return nil, err
	}
	if empty {
		return nil, errors.New("the edit changes no object, so there is nothing to apply")
	}
	return edit, nil
}

// progress reports which revision the run has created, for planning its next revision.
func (op *Operation) progress() *session.RunProgress {
	progress := &session.RunProgress{}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.attempt != nil {
		progress.Revision = op.attempt.driver.WriteResult().Created
	}
	return progress
}

// Command returns the command that makes the operation continue with the edited revision. The id in it is valid only in
// this run.
func (e *Edit) Command() event.Command {
	e.replaced.mu.Lock()
	defer e.replaced.mu.Unlock()
	id := slices.Index(e.replaced.edits, e) + 1
	if id == 0 {
		e.replaced.edits = append(e.replaced.edits, e)
		id = len(e.replaced.edits)
	}
	return event.Command{Name: event.Edit, Edit: event.EditID(id)}
}

// Info describes the operation that creates the edited revision.
func (e *Edit) Info() event.Operation { return e.operation.Info() }

// Phases returns the phases of the edited revision, in order.
func (e *Edit) Phases() []event.Phase { return e.operation.Phases() }

// PhasesBefore returns the phases of the revision that the edit replaces.
func (e *Edit) PhasesBefore() []event.Phase { return e.replaced.Phases() }

// Warnings returns the warnings about the edited chart and its plan.
func (e *Edit) Warnings() []plan.Warning { return e.operation.Warnings() }

// Changes returns the objects whose manifests differ from the replaced revision's, in the
// order of the new plan, followed by deleted objects. Secret values are masked.
func (e *Edit) Changes() ([]inspect.Change, error) {
	before := maps.Collect(e.replaced.objects(e.replaced.prepared.Target.Release))
	after := maps.Collect(e.operation.objects(e.operation.prepared.Target.Release))
	var changes []inspect.Change
	for _, c := range e.operation.inPlanOrder(after) {
		old, existed := before[c.Object]
		delete(before, c.Object)
		c.Action = inspect.Create
		if existed {
			if err := preview.Compare(&c, old, after[c.Object]); err != nil {
				return nil, err
			}
			if r, replaced := e.operation.prepared.Replaces()[c.Object]; replaced {
				c.Action, c.Message = inspect.Replace, r.Message
			}
		}
		if !existed || c.Diff != "" {
			changes = append(changes, c.Masked(e.operation.Mask().Diff))
		}
	}
	for _, c := range e.replaced.inPlanOrder(before) {
		c.Action = inspect.Delete
		changes = append(changes, c)
	}
	return changes, nil
}

// Empty reports whether the edited revision applies the same objects and crds/ in the same order as the revision that it
// would replace.
func (e *Edit) Empty() (bool, error) {
	changes, err := e.Changes()
	if err != nil || len(changes) > 0 || !reflect.DeepEqual(waitsByUnit(e.PhasesBefore()), waitsByUnit(e.Phases())) {
		return false, err
	}
	before, after := e.replaced.prepared.Target.Release.Chart, e.operation.prepared.Target.Release.Chart
	sameFile := func(a, b chart.CRD) bool { return bytes.Equal(a.File.Data, b.File.Data) }
	return before == after || slices.EqualFunc(before.CRDObjects(), after.CRDObjects(), sameFile), nil
}

// waitsByUnit returns, for each group that is applied, the groups that it waits for. It omits
// the namespace, which may have been created since the first plan.
func waitsByUnit(phases []event.Phase) map[event.Unit][]string {
	waits := map[event.Unit][]string{}
	for g := range event.Groups(phases) {
		if g.Phase.Kind != event.PhaseRemove && g.Phase.Kind != event.PhaseNamespace {
			waits[g.Unit()] = append([]string{}, g.After...)
		}
	}
	return waits
}

// inPlanOrder returns objects with their phase and group, in the order of the operation's plan.
func (op *Operation) inPlanOrder(objects map[plan.Object]*unstructured.Unstructured) (out []inspect.Change) {
	seen := map[plan.Object]bool{}
	for g, o := range event.Objects(op.prepared.Phases) {
		if objects[o] != nil && !seen[o] && g.Phase.Kind != event.PhaseRemove {
			seen[o] = true
			out = append(out, inspect.Change{Phase: g.Phase.Name, Group: g.ID, Object: o})
		}
	}
	return out
}

// startEditedRevision makes the replaced revision final and runs the edited one to the end (R46). ended is false if a
// command was accepted that overrides the edit (R48).
func (r *runner) startEditedRevision(a *attempt, edit *Edit) (ended bool, cause error) {
	op := r.op
	var replaced finalState
	created := a != nil && a.driver.WriteResult().Created > 0
	if op.wrote(a) {
		var sweepErr error
		replaced, sweepErr = a.finalize(run.ErrReplaced)
		if sweepErr != nil {
			r.engine.Publish(event.Event{Kind: event.KindWarning, Message: sweepErr.Error()})
		}
		if op.lost() != nil { // as the last look at the records showed: there will be no edited revision
			return false, nil
		}
	}
	op.mu.Lock()
	op.revisions = append(op.revisions, edit.operation) // before its event is published
	op.mu.Unlock()
	message := replacedMessage(op.prepared.Info.Revision, created, replaced)
	if op.engine.StartEditedRevision(edit.Info(), message, edit.operation.phasesWithDurations()...) != nil {
		op.mu.Lock()
		op.revisions = op.revisions[:len(op.revisions)-1]
		op.mu.Unlock()
		return false, nil
	}
	if replaced.err != nil {
		return true, op.fail(r, a, fmt.Errorf("continue with the edited revision: %w", replaced.err))
	}
	next, err := r.prepareNext(a, edit)
	if err != nil {
		return true, op.fail(r, a, fmt.Errorf("continue with the edited revision: %w", err))
	}
	nextRunner := *r
	nextRunner.op = next
	return true, next.runToEnd(&nextRunner)
}

// prepareNext prepares the edited revision again, because the replaced one has changed the cluster since, and makes it
// the running revision.
func (r *runner) prepareNext(a *attempt, edit *Edit) (*Operation, error) {
	op, up := r.op, edit.opts
	up.RunInProgress, up.HoldsLease = op.progress(), op.HoldsLease()
	edited, err := PrepareUpgrade(r.engine.RequestContext(), op.client, up)
	if err == nil {
		err = op.checkBase(edited)
	}
	if err != nil {
		return nil, err
	}
	edited.prepared.Info.EditedValues = edit.Info().EditedValues
	next := &Operation{
		client: op.client, prepared: edited.prepared, main: edited.main, rollback: edited.rollback, editOptions: edited.editOptions,
		shared: op.shared,
	}
	op.mu.Lock()
	op.running = next
	op.attempt = nil
	op.previewers = previewers{}
	op.createdBeforeEdit = op.createdRevision(a)
	op.shown = nil
	op.mu.Unlock()
	if len(next.Approvals()) > 0 {
		next.LookAtChanges(r.engine.RequestContext())
	}
	if !reflect.DeepEqual(next.prepared.Phases, edit.operation.prepared.Phases) {
		r.engine.Announce(next.phasesWithDurations()...)
	}
	next.publishWarnings(r.engine)
	return next, nil
}

// replacedMessage returns the message for replacing a revision. created is false if it has no release record yet.
func replacedMessage(revision int, created bool, final finalState) string {
	switch {
	case !created:
		return fmt.Sprintf("revision %d had not been created yet; the run starts over with the edit", revision)
	case final.err != nil:
		return fmt.Sprintf("revision %d was edited, but it could not be marked failed", revision)
	}
	return fmt.Sprintf("revision %d is now %s; the edited revision replaces it", revision, final.status)
}

// editOf returns the edit of a command, nil if it is not an edit.
func (op *Operation) editOf(c *event.Command) *Edit {
	op.mu.Lock()
	defer op.mu.Unlock()
	if c == nil || c.Name != event.Edit || c.Edit < 1 || int(c.Edit) > len(op.edits) {
		return nil
	}
	return op.edits[c.Edit-1]
}

// Command sends a command to the run, or queues it until the run starts.
func (op *Operation) Command(c event.Command) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if c.Edit < 0 || int(c.Edit) > len(op.edits) { // an id from another process
		c.Edit = 0
	}
	if op.engine == nil {
		op.pendingCommands = append(op.pendingCommands, c)
		return
	}
	switch {
	case c.Name == event.Edit && c.Edit == 0 && c.Values != "":
		go op.remoteEdit(op.engine, c) // it sends requests
	case c.Name == event.Edit && c.Edit > 0:
		op.commandEdit(c, op.edits[c.Edit-1])
	default:
		op.engine.Command(c)
	}
}
