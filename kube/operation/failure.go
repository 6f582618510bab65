package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// fail ends a failed or aborted operation: it makes the release final (R34), or rolls it back if asked to (R33, R43).
// The attempt is nil if it never started. If a command that changes how the operation ends is accepted meanwhile, fail
// starts over (R48).
func (op *Operation) fail(r *runner, a *attempt, err error) error {
	for {
		if ended, cause := op.endFailed(r, a, err); ended {
			return cause
		}
	}
}

// endFailed ends the operation and returns why it failed. If a command ends the run, that command decides how. ended is
// false if another command was accepted in the meantime.
func (op *Operation) endFailed(r *runner, a *attempt, err error) (ended bool, cause error) {
	ending := op.engine.EndingCommand()
	end := run.End{Status: event.Failed, Exit: event.ExitFailed, Cause: err.Error()} // the cause is used if no group failed
	if ending != nil {
		end = run.End{Status: event.Aborted, Exit: event.ExitAborted}
	}
	if ending != nil && ending.Name != event.Edit {
		err = Aborted(ending, err)
	}
	wrote, lost, edit := op.wrote(a), op.lost(), op.editOf(ending)
	newer := NewerRevision(cmp.Or(lost, err))
	op.mu.Lock()
	createdBeforeEdit := op.createdBeforeEdit
	op.mu.Unlock()
	switch {
	case lost != nil && !wrote: // refused, like a run that finds the release locked
		err = lost
		end = run.End{Status: event.Aborted, Exit: event.ExitNothingWritten, Outcome: phrase.NothingWritten, Code: event.NothingWritten}
	case lost != nil:
		err = lost
		end = run.End{Status: event.Aborted, Exit: event.ExitFailed}
		end.Message = "stopped, and will write nothing more: " + lost.Error()
	case edit != nil && r != nil:
		return r.startEditedRevision(a, edit)
	case wrote && lostRace(err) && !createdBeforeEdit:
		end.Exit = exitNothingDeployed(end.Exit)
		end.Outcome = fmt.Sprintf("only namespace %s was created", op.prepared.Common.Namespace)
	case !wrote:
		if err = op.explainUnwritten(err); end.Cause != "" {
			end.Cause = err.Error()
		}
		end.Exit = exitNothingDeployed(end.Exit)
		end.Outcome, end.Code = phrase.NothingWritten, event.NothingWritten
		if op.main.checksDeployed {
			end.Exit, end.Outcome, end.Code = event.ExitFailed, string(event.NotReady), ""
		} else if ending != nil {
			end.Message = phrase.Ended("aborted", ending.Origin()) + " before anything was written"
		}
	default:
		return r.endWritten(a, end, ending, err)
	}
	if end.Message == "" {
		end.Message = end.Outcome + ": " + err.Error()
	}
	if end.Newer = newer; newer != nil {
		end.Release = newer.Status
	}
	return op.engine.Finish(end) == nil, err
}

// explainUnwritten explains why the operation failed before it wrote anything.
func (op *Operation) explainUnwritten(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), finalizeTimeout)
	defer cancel()
	return preflight.ExplainMissingNamespace(ctx, op.client, op.prepared.Common, preflight.ExplainDenied(op.client, err))
}

// endWritten ends a failed operation that wrote to the cluster.
func (r *runner) endWritten(a *attempt, end run.End, ending *event.Command, err error) (ended bool, cause error) {
	op := r.op
	var notKept error
	if ending == nil {
		notKept = KeepFailure(op.engine, op.prepared.Common, err)
	}
	final, sweepErr := a.finalize(err)
	if op.lost() != nil { // as the last look at the records showed
		return false, nil
	}
	cleanupFailure := a.cleanupFailure()
	notes := []string{errorText(sweepErr), cleanupFailure}
	op.mu.Lock()
	revisionCreated := op.createdRevision(a)
	editLost := op.createdBeforeEdit && a.driver.WriteResult().Created == 0
	op.mu.Unlock()
	rollback, barred := ShouldRollBack(op.prepared.Common, ending), ""
	if rollback {
		barred = op.engine.NoReturn()
	}
	if rollback && barred == "" && notKept == nil && op.rollback != nil && revisionCreated {
		return r.rollBack(end, err, notes, a, final)
	}
	outcome := final.describe(op.prepared.Info.Name, revisionCreated)
	if editLost {
		notes = append(notes, "the edited revision was not started, and no record has its values")
	}
	switch {
	case barred != "" && op.prepared.Common.Stack != "": // the stack's outcome says what to do
		outcome += ", and not rolled back, because it is " + phrase.Barred(barred)
	case barred != "":
		outcome += ", and " + phrase.NotRolledBack(barred)
	case rollback && notKept != nil:
		notes = append(notes, notKept.Error())
	case rollback:
		outcome += ", and there is nothing to roll back to"
	}
	if cleanupFailure != "" || ending != nil && ending.Name == event.Stop {
		notes = append(notes, op.leftBehind())
	}
	end.Release = final.status
	end.Message, end.Outcome = ClosingTexts(outcome, err, append(notes, op.notUndone(), errorText(final.err))...)
	return op.engine.Finish(end) == nil, err
}

// createdRevision reports whether the operation created a revision, even one that an edit replaced, or that an earlier pod
// of its Job created and did not roll back. a may be nil. The caller holds op.mu.
func (op *Operation) createdRevision(a *attempt) bool {
	changed, rolledBack := op.ChangedEarlier()
	return changed && !rolledBack || op.createdBeforeEdit || a != nil && a.driver.WriteResult().Created > 0
}

// wrote reports whether the operation wrote anything, or may have. Without an attempt (nil), it has not. What an earlier pod
// of its Job wrote counts once this one has its lock.
func (op *Operation) wrote(a *attempt) bool {
	earlier, _ := op.ChangedEarlier()
	return a != nil && (earlier && op.HoldsLease() || a.driver.WriteResult().Stored || op.writes.Any())
}

// exitNothingDeployed returns the exit code of an operation that wrote nothing, except perhaps the namespace:
// ExitNothingWritten. An abort keeps its exit code, by which scripts recognise it.
func exitNothingDeployed(exit int) int {
	if exit == event.ExitAborted {
		return exit
	}
	return event.ExitNothingWritten
}

// finalState is the state of the release after a failed operation: the status in its record, event.NoRelease if the
// release does not exist, or an error if the status is unknown or not final.
type finalState struct {
	status string
	err    error
	left   rcommon.Status // which the record may still have after an error, "" for pending
}

// describe describes the state for the closing event, and how to fix it if it is not final (R34).
func (s finalState) describe(operation string, revisionCreated bool) string {
	switch {
	case operation == "test":
		return "the release is unchanged"
	case operation == "repair" && s.err == nil:
		return "the record of the release is unchanged (" + s.status + ")"
	case s.err != nil:
		pending := "pending-" + operation
		switch {
		case s.left != "":
			pending = s.left.String()
		case operation == "uninstall":
			pending = "uninstalling"
		}
		return fmt.Sprintf("the release could not be marked failed, so its status may still be %s; "+
			"fix the cause and run the same command again", pending)
	case s.status == event.NoRelease && operation == "uninstall":
		return "the release no longer exists"
	case s.status == event.NoRelease && revisionCreated:
		return "the release was uninstalled by somebody else"
	case s.status == event.NoRelease:
		return "no release was created"
	case operation != "uninstall" && !revisionCreated:
		return "the release is unchanged (" + s.status + ")"
	case s.status == rcommon.StatusFailed.String():
		return "the release is marked failed"
	}
	return "the release is " + s.status
}

// cleanupFailure returns why --cleanup-on-fail could not delete all new objects, "" if it could.
func (a *attempt) cleanupFailure() string {
	err := a.client.RemoveErr()
	if err == nil || a.op.prepared.Info.Name == "uninstall" {
		return ""
	}
	return fmt.Sprintf("some new objects could not be deleted: %v", err)
}

// errorText returns the text of an error, "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ClosingTexts returns two texts for the closing event, each one line with the outcome and the notes: a message with the
// cause, and an outcome without it. In the message, an abort comes before the outcome, a failure after it.
func ClosingTexts(outcome string, cause error, notes ...string) (message, withoutCause string) {
	withoutCause = text.Join("; ", append([]string{outcome}, notes...)...)
	if aborted := (*abortedError)(nil); errors.As(cause, &aborted) {
		return aborted.phrase + "; " + withoutCause, withoutCause
	}
	return text.Join("; ", append([]string{outcome + ": " + cause.Error()}, notes...)...), withoutCause
}

// abortedError says in one phrase who aborted the operation. The wrapped error says how its parts ended.
type abortedError struct {
	phrase string
	error
}

func (a *abortedError) Error() string { return a.phrase }
func (a *abortedError) Unwrap() error { return a.error }

// Aborted returns the error of an operation that failed with err because of a command.
func Aborted(by *event.Command, err error) error {
	o := by.Origin()
	if stage := (*run.StageError)(nil); errors.As(err, &stage) {
		o.Cancelled = stage.Cancelled
	}
	return &abortedError{phrase.Aborted(o), err}
}

// finalizeTimeout limits the attempts to make the release record final.
const finalizeTimeout = 20 * time.Second

// finalContext returns a context for making the release record final. It ends finalizeTimeout after the engine stops
// retrying requests, or at once if the Lease is lost.
func (a *attempt) finalContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(a.op.lock.ctx)
	stop := context.AfterFunc(run.RetryContext(a.engine.RequestContext()), func() { time.AfterFunc(finalizeTimeout, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// finalize marks a release that is still pending or uninstalling as failed (R34), after it has deleted objects of hooks
// (see helmclient.Client.Sweep). sweepErr is the error of that deletion.
func (a *attempt) finalize(cause error) (final finalState, sweepErr error) {
	if lost := a.op.lost(); lost != nil {
		return finalState{err: lost}, nil
	}
	ctx, cancel := a.finalContext()
	defer cancel()
	releases, session, err := a.withContext(ctx)
	if err != nil {
		return finalState{err: err}, nil
	}
	sweepErr = a.client.Sweep(ctx, session)
	return a.markFailed(ctx, releases, cause), sweepErr
}

// finalizeAgain is finalize for a revision that could not be marked failed before its rollback.
func (a *attempt) finalizeAgain(cause error) finalState {
	ctx, cancel := a.finalContext()
	defer cancel()
	releases, _, err := a.withContext(ctx)
	if err != nil {
		return finalState{err: err}
	}
	return a.markFailed(ctx, releases, cause)
}

// markFailed marks a release that is still pending or uninstalling as failed (R34).
func (a *attempt) markFailed(ctx context.Context, releases *storage.Storage, cause error) (final finalState) {
	if a.untested > 0 {
		a.op.ledger.AllowFailed(a.untested)
		final.left = rcommon.StatusDeployed
	}
	err := release.Retry(ctx, func() (err error) {
		final.status, err = release.Finalize(releases, a.op.prepared.Common.Release, a.driver.WriteResult(), a.untested, cause)
		return err
	})
	if err != nil {
		final.status, final.err = "", fmt.Errorf("write the release record: %w", err)
	}
	return final
}

// confirmRecord makes sure that the record of a successful operation has its final status (R34), and returns that
// status.
func (a *attempt) confirmRecord(operation string) (status string, err error) {
	if lost := a.op.lost(); lost != nil {
		return "", lost
	}
	w := a.driver.WriteResult()
	if !w.Unsure() {
		return w.Status, nil
	}
	ctx, cancel := a.finalContext()
	defer cancel()
	releases, _, err := a.withContext(ctx)
	if err != nil {
		return "", err
	}
	err = release.Retry(ctx, func() (err error) {
		status, err = release.Complete(releases, a.op.prepared.Common.Release, operation, w)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("the %s has finished, but the release record could not be written: %w", operation, err)
	}
	return status, nil
}

// FinalRecord is the newest record of a release after an operation.
type FinalRecord struct {
	Revision int    // 0 if there is none
	Status   string // event.NoRelease if there is none
	// Newer is the newest revision if another writer created it.
	Newer *event.NewerRevision
	// Created is the revision that the operation created, RolledBack the one of its rollback on failure; 0 for none. It may
	// have created them in an earlier pod of the run's Job (S13).
	Created, RolledBack int
}

// ReadRecord reads the newest record of the release after Run. If it cannot be read, the result has the status that this
// run knows last, and the error says why.
func (op *Operation) ReadRecord(ctx context.Context) (r FinalRecord, err error) {
	switch changed, rolledBack := op.ChangedEarlier(); {
	case rolledBack:
		r.RolledBack = op.prepared.Last.Version
	case changed:
		r.Created = op.prepared.Last.Version
	}
	op.mu.Lock()
	for _, a := range op.attempts {
		switch created := a.driver.WriteResult().Created; {
		case created == 0:
		case a.task.rollbackOnFailure:
			r.RolledBack = created
		default:
			r.Created = created
		}
	}
	op.mu.Unlock()
	s, err := session.New(ctx, op.client, op.prepared.Common, &connect.Writes{}, op.ledger)
	if err == nil {
		err = op.ledger.Look(ctx, s.Records())
	}
	revision, status := op.ledger.Latest()
	r.Revision, r.Status = revision, string(status)
	if revision == 0 {
		r.Status = event.NoRelease
	}
	if newer := NewerRevision(err); newer != nil {
		r.Newer = newer
		r.Revision, r.Status = newer.Revision, newer.Status
		return r, nil
	}
	if created := max(r.Created, r.RolledBack); err != nil && created > revision { // the answer to its creation was lost
		r.Revision, r.Status = created, "pending-"+op.prepared.Info.Name
	}
	return r, err
}
