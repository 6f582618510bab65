package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/documents"
	"lockstep/kube/journal"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// A run in the cluster keeps what its next pod must know (S13): the state of the release when the run began, an accepted
// edit, and what commands and breakpoints have decided. The next pod plans from there, and ends the run if an earlier pod
// had begun to end it.

// checkStart returns the error of check, unless it is nil, and why this pod cannot keep anything. A stack looks at the latter itself.
func checkStart(common Common, check func() error) (err error) {
	if check != nil {
		err = check()
	}
	if common.Stack == "" {
		err = errors.Join(err, common.Journal.Err())
	}
	return err
}

// findStart replaces a lost journal: if the latest revision is that of an earlier pod of this Job, the run has begun, and why it cannot
// continue is returned, unless the release is one of a stack, which looks at all of them. Else it has not, and keeps nothing.
func findStart(s *session.Session) (entry *journal.Entry, err error) {
	c := s.Common
	revs, found, err := release.Read(s.Releases(), c.Release)
	if err != nil || !found || !release.CreatedBy(revs.Last, c.Job) {
		return nil, err
	}
	start := journal.Start{Good: revs.LastGood(), Records: s.Ledger.UIDs()}
	for _, rel := range revs.All {
		if !release.CreatedBy(rel, c.Job) {
			start.Last = max(start.Last, rel.Version)
		}
	}
	if entry = c.Journal.Begin(start); c.Stack == "" {
		err = entry.Err()
	}
	return entry, err
}

// Start returns the state of the release when the Job's run began in an earlier pod, nil if it did not.
func (op *Operation) Start() *journal.Start { return op.prepared.Common.Journal.Before().Start }

// keepStart keeps the state of the release before the operation's first write to it, unless an earlier pod has.
func (op *Operation) keepStart(ctx context.Context) error {
	c := op.prepared.Common
	if c.Journal == nil || c.Journal.Before().Start != nil {
		return nil
	}
	return keepStart(ctx, c, func(ctx context.Context) error {
		return c.Journal.Keep(ctx, func(k *journal.Kept) { k.Start = op.startState() })
	})
}

// startState returns the state of the release in the form in which it is kept.
func (op *Operation) startState() *journal.Start {
	start := &journal.Start{Good: op.prepared.Info.PreviousRevision, Records: op.ledger.UIDs()}
	if last := op.prepared.Last; last != nil {
		start.Last = last.Version
	}
	return start
}

// KeepStarts keeps the states of the releases of a stack, by ID, unless an earlier pod has: the next pod then finds what
// somebody else deploys in the meantime, also of a release that has not started. common is that of the stack.
func KeepStarts(ctx context.Context, j *journal.Journal, common Common, operations map[string]*Operation) error {
	if j == nil {
		return nil
	}
	return keepStart(ctx, common, func(ctx context.Context) error {
		return j.Keep(ctx, func(entries map[string]journal.Kept) {
			for id, op := range operations {
				if kept := entries[id]; kept.Start == nil {
					kept.Start = op.startState()
					entries[id] = kept
				}
			}
		})
	})
}

// keepStart tries to keep a state until the timeout (R53).
func keepStart(ctx context.Context, c Common, keep func(context.Context) error) error {
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	if err := release.Retry(ctx, func() error { return keep(ctx) }); err != nil {
		return fmt.Errorf("keep the state before the run for the pod that may replace this one: %w", err)
	}
	return nil
}

// keepSteering keeps, with the steering, its edits and what was shown to those who have approved something.
func (op *Operation) keepSteering(k *journal.Kept, s run.Steering) {
	if k.Edit, k.Next = op.keptEdits(s); len(s.Approved) > 0 {
		k.Shown = op.Shown()
	}
}

// KeepFailure keeps that a run fails, before that has any effect: the next pod ends it in the same way. It tries again until
// the timeout (R53). common is that of the operation or the stack.
func KeepFailure(eng *run.Engine, common Common, cause error) error {
	ctx, cancel := common.WithTimeout(run.RetryContext(eng.RequestContext()))
	defer cancel()
	err := release.Retry(ctx, func() error { return eng.Fail(cause.Error()) })
	if err != nil {
		return fmt.Errorf("not rolled back, because the failure could not be kept for the pod that may replace this one: %w", err)
	}
	return nil
}

// keptEdits returns the edit whose revision runs, and the one that the steering has accepted; nil for none.
func (op *Operation) keptEdits(s run.Steering) (running, next *journal.Edit) {
	op.mu.Lock()
	defer op.mu.Unlock()
	running = op.prepared.Common.Journal.Before().Edit
	if i := slices.IndexFunc(op.edits, func(e *Edit) bool { return e.operation == op.revisions[len(op.revisions)-1] }); i >= 0 {
		running = op.edits[i].kept
	}
	if e := s.Ending; e != nil && e.Edit > 0 && int(e.Edit) <= len(op.edits) {
		next = op.edits[e.Edit-1].kept
	}
	return running, next
}

// commandEdit sends the command of a prepared edit to the engine. It refuses an edit that cannot be kept. The caller
// holds op.mu.
func (op *Operation) commandEdit(c event.Command, e *Edit) {
	if entry := op.prepared.Common.Journal; entry != nil && e.kept == nil {
		kept, err := e.keep()
		if err == nil {
			err = entry.Fits(func(k *journal.Kept) { k.Next = kept })
		}
		if err != nil {
			refuse(op.engine, c, fmt.Errorf("the edit is not accepted: %w", err))
			return
		}
		e.kept = kept
	}
	op.engine.Command(c)
}

// keep returns the edit in the form in which it is kept.
func (e *Edit) keep() (*journal.Edit, error) {
	if e.opts.Chart != e.replaced.editOptions.Chart {
		return nil, errors.New("a run in the cluster keeps no charts; abort the run, then upgrade with the new chart")
	}
	text, err := documents.EncodeExact(e.opts.Values)
	return &journal.Edit{Values: text}, err
}

// continueEdit replaces the values with those of the edit that an earlier pod accepted, if any.
func (d *Deploy) continueEdit() error {
	if d.RunInProgress != nil || d.Journal.Before().Edit == nil {
		return nil
	}
	values, err := documents.DecodeExact(d.Journal.Before().Edit.Values)
	if err != nil {
		return fmt.Errorf("read the values of the edit that an earlier pod accepted: %w", err)
	}
	d.setValues(values)
	return nil
}

// goodRevision returns the revision to roll back to, 0 for none: where the Job's run began, in whichever pod.
func (r *releaseState) goodRevision() int {
	if r.start != nil {
		return r.start.Good
	}
	return r.LastGood()
}

// checkOwn returns an error if somebody else has created the latest revision since the Job's run began.
func (r *releaseState) checkOwn(s *session.Session) error {
	c, last := s.Common, r.stored
	if r.start == nil || c.RunInProgress != nil || c.PlanOnly || release.CreatedBy(last, c.Job) {
		return nil
	}
	if uid := s.Ledger.UIDs()[last.Version]; uid != "" && uid == r.start.Records[last.Version] {
		return nil // an uninstall may have deleted newer records
	}
	return fmt.Errorf("release %s has revision %d (%s), which somebody else created after this run began (at revision %d): "+
		"this run writes nothing more; look at it with: "+text.Program+" history %[1]s -n %[5]s", c.Release, last.Version, last.Info.Status, r.start.Last, c.Namespace)
}

// ChangedEarlier reports whether an earlier pod of the Job has created revisions of the release, and whether it has
// rolled them back.
func (op *Operation) ChangedEarlier() (changed, rolledBack bool) {
	last, c := op.prepared.Last, op.prepared.Common
	start := c.Journal.Before().Start
	if last == nil || start == nil || last.Version <= start.Last {
		return false, false
	}
	rollback := last.Info.RollbackRevision > 0 && release.DeployedBy(last, c.Job)
	return true, rollback || release.RolledBackBy(last, c.Job)
}

// LatestRevision returns the latest revision when the operation was prepared, 0 if there was none.
func (op *Operation) LatestRevision() int {
	if op.prepared.Last == nil {
		return 0
	}
	return op.prepared.Last.Version
}

// ReleaseStatus returns the status of the release when the operation was prepared, event.NoRelease if there was none.
func (op *Operation) ReleaseStatus() string {
	if op.prepared.Last == nil {
		return event.NoRelease
	}
	return op.prepared.Last.Info.Status.String()
}

// ending is how an operation ends if an earlier pod of its Job began it and this one cannot plan it. The zero value leaves it
// as it is. rollback returns its rollback, nil for none.
type ending struct {
	operation string
	rollback  func(*session.Prepared, *releaseState) *rollbackPlan
}

// unplanned returns an operation that ends the run, nil if no earlier pod has changed the release. cause is why it cannot be
// planned.
func (e ending) unplanned(s *session.Session, c *connect.Client, cause error) *Operation {
	common := s.Common
	start := common.Journal.Before().Start
	if e.operation == "" || start == nil || common.PlanOnly || common.RunInProgress != nil || common.Continues != nil {
		return nil
	}
	stored, err := session.New(s.Context, c, common, &connect.Writes{}, s.Ledger) // planning shows marks as if written
	if err != nil {
		return nil
	}
	stored.Lease = s.Lease
	state, found, err := loadRelease(stored, e.operation)
	if err != nil || !found || state.Last.Version <= start.Last && len(state.marks) == 0 {
		return nil
	}
	p := &session.Prepared{
		Common: common, Info: stored.Info(e.operation, state.Last), Target: session.Target{Release: state.Last},
		Basis: state.basis(stored, 0),
	}
	p.Info.PreviousRevision, p.NoReturn = state.goodRevision(), state.passedNoReturn()
	op := newOperation(c, task{prepared: p})
	op.unplanned = cause
	if e.rollback != nil {
		op.rollback = e.rollback(p, state)
	}
	return op
}

// Unplanned returns why this pod of a Job cannot plan the run that an earlier one began, nil if it can.
func (op *Operation) Unplanned() error { return op.unplanned }

// continueEnding ends the run if an earlier pod had begun to: because of a command or a failure, or with a rollback. It also
// ends a run that this pod cannot plan.
func (r *runner) continueEnding() (ended bool, err error) {
	begun := r.op.prepared.Common.Journal.Before().Ending()
	var notKept error
	switch {
	case begun != nil:
	case r.op.unplanned != nil:
		begun = &journal.Ending{Cause: r.op.unplanned}
		notKept = KeepFailure(r.engine, r.op.prepared.Common, begun.Cause)
	default:
		return false, nil
	}
	a, status, err := r.takeOver(begun.Cause)
	if err != nil {
		return true, r.op.fail(r, a, err)
	}
	end, cause := run.End{Status: event.Failed, Exit: event.ExitFailed, Release: status}, begun.Cause
	if c := begun.Command; c != nil {
		r.engine.Command(*c)
		end.Status, end.Exit, cause = event.Aborted, event.ExitAborted, Aborted(c, cause)
	}
	rollBack := ShouldRollBack(r.op.prepared.Common, begun.Command)
	if reason := r.engine.NoReturn(); rollBack && reason != "" && !begun.RollingBack {
		rollBack, cause = false, fmt.Errorf("%w; %s", cause, phrase.NotRolledBack(reason))
	}
	if rollBack && notKept != nil {
		rollBack, cause = false, fmt.Errorf("%w; %w", cause, notKept)
	}
	return true, r.endAgain(end, cause, rollBack, begun.RollingBack)
}

// takeOver takes the Lease over from an earlier pod and marks the revision that it left. It returns the status of the
// release then. It ends a deployed revision whose tests have not passed as failed (S11), because of cause.
func (r *runner) takeOver(cause error) (a *attempt, status string, err error) {
	if a, err = r.newAttempt(r.op.main); err != nil {
		return nil, "", err
	}
	status = event.NoRelease
	if r.op.prepared.Target.NewNamespace { // nothing can be in it
		return a, status, nil
	}
	last, err := a.acquireLockAndWriteMarks(r.op.prepared.Last)
	if err != nil || last == nil {
		return a, status, err
	}
	if testsLeft(r.op.prepared.Common, last) {
		a.untested = last.Version
		final, _ := a.finalize(cause)
		return a, final.status, final.err
	}
	return a, last.Info.Status.String(), nil
}

// endAgain ends the run as an earlier pod was about to, with a rollback unless that is complete. started is set if it has
// started.
func (r *runner) endAgain(end run.End, cause error, rollBack, started bool) error {
	op := r.op
	last, start, job := op.prepared.Last, op.prepared.Common.Journal.Before().Start, op.prepared.Common.Job
	created := last != nil && start != nil && last.Version > start.Last
	outcome := finalState{status: end.Release}.describe(op.prepared.Info.Name, created)
	switch {
	case !rollBack || op.rollback == nil:
	case created && release.RolledBackBy(last, job), !created && started && op.rollback.info.Name == "uninstall":
		outcome = rolledBack(op.rollback.info)
	case created:
		if ended, err := r.rollBack(end, cause, nil, nil, finalState{}); ended {
			return err
		}
	}
	end.Message, end.Outcome = ClosingTexts(outcome, cause)
	r.engine.Close(end)
	return cause
}
