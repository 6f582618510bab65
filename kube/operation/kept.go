package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/journal"
	"lockstep/kube/lease"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// A run in the cluster keeps what its next pod must know (S13): the state of the release when the run began, an accepted
// edit, and what commands and breakpoints have decided. The next pod plans from there, and ends the run if an earlier pod
// had begun to end it.

// keepTimeout limits one write of the journal. The run waits for it.
const keepTimeout = 20 * time.Second

// keepStart keeps the state of the release before the operation's first write to it, unless an earlier pod has.
func (op *Operation) keepStart(ctx context.Context) error {
	c := op.prepared.Common
	if c.Journal == nil || c.Journal.Before().Start != nil {
		return nil
	}
	start := journal.Start{Good: op.prepared.Info.PreviousRevision}
	if last := op.prepared.Last; last != nil {
		start.Last = last.Version
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	if err := c.Journal.Keep(ctx, func(k *journal.Kept) { k.Start = &start }); err != nil {
		return fmt.Errorf("keep the state of release %s for the pod that may replace this one: %w", c.Release, err)
	}
	return nil
}

// steeringKeeper returns the function that keeps the run's steering, nil outside a cluster.
func (op *Operation) steeringKeeper() func(run.Steering) {
	entry := op.prepared.Common.Journal
	if entry == nil {
		return nil
	}
	return func(s run.Steering) {
		ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
		defer cancel()
		edit, next := op.keptEdits(s)
		err := entry.Keep(ctx, func(k *journal.Kept) { k.Steering, k.Edit, k.Next = &s, edit, next })
		if err != nil {
			op.feed.Publish(event.Event{Kind: event.KindWarning, Rule: "S13", Message: fmt.Sprintf(
				"if this pod is replaced, the next one will not know the last command: %v", err)})
		}
	}
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
	text, err := charts.YAML(e.opts.Values)
	return &journal.Edit{Values: text}, err
}

// editContinued reports whether the run continues with an edit that an earlier pod accepted.
func (o *ChartOptions) editContinued(c Common) bool {
	return c.RunInProgress == nil && c.Journal.Before().Edit != nil
}

// continueEdit replaces the values with those of the edit that an earlier pod accepted.
func (o *ChartOptions) continueEdit(c Common) error {
	if !o.editContinued(c) {
		return nil
	}
	o.Values = nil
	if err := yaml.Unmarshal([]byte(c.Journal.Before().Edit.Values), &o.Values); err != nil {
		return fmt.Errorf("read the values of the edit that an earlier pod accepted: %w", err)
	}
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
func (r *releaseState) checkOwn(s *preflight.Session) error {
	c, last := s.Common, r.stored
	if r.start == nil || c.RunInProgress != nil || c.PlanOnly || last.Version <= r.start.Last || release.CreatedBy(last, c.Job) ||
		s.Lease.Status == lease.Unavailable { // revisions are signed only with a Lease
		return nil
	}
	return fmt.Errorf("release %s has revision %d (%s), which somebody else created after this run began (at revision %d): "+
		"this run writes nothing more; look at it with: lockstep history %[1]s -n %[5]s", c.Release, last.Version, last.Info.Status, r.start.Last, c.Namespace)
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

// ReleaseStatus returns the status of the release when the operation was prepared, event.NoRelease if there was none.
func (op *Operation) ReleaseStatus() string {
	if op.prepared.Last == nil {
		return event.NoRelease
	}
	return op.prepared.Last.Info.Status.String()
}

// continueEnding ends the run if an earlier pod had begun to: because of a command, or with a rollback.
func (r *runner) continueEnding() (ended bool, err error) {
	kept := r.op.prepared.Common.Journal.Before().Steering
	if kept == nil || kept.Ending == nil && kept.Rollback == nil {
		return false, nil
	}
	ending, cause := kept.Ending, errors.New("an earlier pod of this Job ended the operation")
	if kept.Rollback != nil {
		cause = errors.New(kept.Rollback.Cause)
		if ending == nil {
			ending = kept.Rollback.By
		}
	}
	a, status, err := r.takeOver()
	if err != nil {
		return true, r.op.fail(r, a, err)
	}
	end := run.End{Status: event.Failed, Exit: event.ExitFailed, Release: status}
	if ending != nil {
		c := ending.Command()
		r.engine.Command(c)
		end.Status, end.Exit, cause = event.Aborted, event.ExitAborted, Aborted(&c, cause)
	}
	return true, r.endAgain(end, cause, ending == nil || ending.Name == event.Rollback, kept.Rollback != nil)
}

// takeOver takes the Lease over from an earlier pod and marks the revision that it left. It returns the status of the
// release then.
func (r *runner) takeOver() (a *attempt, status string, err error) {
	if a, err = r.newAttempt(r.op.main); err != nil {
		return nil, "", err
	}
	status = event.NoRelease
	if r.op.prepared.Target.NewNamespace { // nothing can be in it
		return a, status, nil
	}
	last, err := a.acquireLockAndWriteMarks(r.op.prepared.Last)
	if err == nil && last != nil {
		status = last.Info.Status.String()
	}
	return a, status, err
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
		if ended, err := r.rollBack(end, cause, nil); ended {
			return err
		}
	}
	end.Message, end.Outcome = ClosingTexts(outcome, cause)
	r.engine.Close(end)
	return cause
}
