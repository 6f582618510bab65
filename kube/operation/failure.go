package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/preview"
	"lockstep/kube/release"
)

// fail brings a failed or aborted operation to a final state (R34) and rolls it back if
// asked to (R33, R43). The attempt is nil if it never started. It starts over if a command
// that changes how the operation ends is accepted meanwhile (R48).
func (op *Operation) fail(as *attempts, a *attempt, err error) error {
	for {
		if ended, cause := op.endFailed(as, a, err); ended {
			return cause
		}
	}
}

// endFailed ends the operation according to the engine's current verdict and returns why it
// failed. ended is false if the verdict changed meanwhile.
func (op *Operation) endFailed(as *attempts, a *attempt, err error) (ended bool, cause error) {
	v := op.engine.Verdict()
	end := run.End{Status: event.Failed, Exit: 1, Cause: err.Error()} // the cause is used if no group failed
	if v.Abort != nil {
		end = run.End{Status: event.Aborted, Exit: 3}
	}
	wrote, lost, next := a != nil && op.wrote(a), op.lost(), op.edited(v.Abort)
	switch {
	case lost != nil && !wrote: // R51: the second run, which wrote nothing, is refused
		err = lost
		end = run.End{Status: event.Aborted, Exit: 2, Outcome: "nothing was written"}
	case lost != nil:
		err = lost
		end = run.End{Status: event.Aborted, Exit: 1, Message: lost.Error() + "; this run stopped and left the release to the other one"}
	case next != nil && as != nil:
		return as.replace(a, next)
	case wrote && lostRace(err):
		end.Exit, end.Outcome = notWritten(end.Exit), fmt.Sprintf("only namespace %s was created", op.prepared.Common.Namespace)
	case !wrote:
		end.Exit, end.Outcome = notWritten(end.Exit), "nothing was written"
	default:
		return as.endWritten(a, end, v, err)
	}
	if end.Message == "" {
		end.Message = end.Outcome + ": " + err.Error()
	}
	return op.engine.Finish(end) == nil, err
}

// endWritten ends an operation that wrote to the cluster: it makes the release final, and rolls
// it back if asked to.
func (as *attempts) endWritten(a *attempt, end run.End, v run.Verdict, err error) (ended bool, cause error) {
	op := as.op
	left, sweepErr := a.finalize(err)
	cleanupFailure := a.cleanupFailure()
	notes := []string{text(sweepErr), cleanupFailure}
	made := op.hasMade(a)
	rollback := ShouldRollBack(op.prepared.Common, v)
	if rollback && op.undo != nil && made {
		return as.rollBack(end, err, notes)
	}
	outlook := left.text(op.prepared.Info.Name, made)
	if rollback {
		outlook += ", and there is nothing to roll back to"
	}
	if cleanupFailure != "" || v.Abort != nil && v.Abort.Name == event.Stop {
		notes = append(notes, leftBehind(op.feed.Events()))
	}
	end.Release = left.status
	end.Message, end.Outcome = join(outlook, err.Error(), append(notes, text(left.err))...)
	return op.engine.Finish(end) == nil, err
}

// ShouldRollBack reports whether a run of an operation or a stack (S5) that did not succeed
// is rolled back.
//
// Rule R33: --rollback-on-failure decides for a failure, the command itself for an abort (R43)
func ShouldRollBack(c Common, v run.Verdict) bool {
	if v.Abort != nil {
		return v.Abort.Name == event.Rollback
	}
	return c.RollbackOnFailure
}

// hasMade reports whether the operation created a revision, even one that an edit replaced.
func (op *Operation) hasMade(a *attempt) bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.made || a.driver.Written().Created > 0
}

// wrote reports whether the operation wrote anything, or may have.
func (op *Operation) wrote(a *attempt) bool { return a.driver.Written().Any || op.writes.Any() }

// rollBack runs the rollback as part of the same run (R43) and closes the feed. It does not
// start, and ended is false, if a command that ends the run without a rollback was
// accepted (R48).
func (as *attempts) rollBack(end run.End, cause error, notes []string) (ended bool, err error) {
	info := as.op.undo.info
	as.op.noteRollback()
	if as.engine.BeginRollback(info, cause.Error()) != nil {
		return false, nil
	}
	back, err := as.runRollback()
	if err == nil {
		end.Release = rcommon.StatusDeployed.String()
		end.Message, end.Outcome = join(rolledBack(info), cause.Error(), notes...)
		if info.Name == "uninstall" {
			end.Release = event.NoRelease
		}
		as.engine.Close(end)
		return true, cause
	}
	if back != nil {
		left, sweepErr := back.finalize(err)
		end.Release = left.status
		notes = append(notes, text(sweepErr))
		if left.err != nil {
			notes = append(notes, left.text(info.Name, back.driver.Written().Created > 0), text(left.err))
		}
	}
	notes = append(notes, leftBehind(as.op.feed.Events()))
	if as.op.lost() != nil {
		end.Status, end.Exit = event.Aborted, 1
	}
	failed := "the rollback also failed"
	if as.engine.Verdict().Abort != nil {
		failed = "the rollback was stopped"
	}
	end.Message, end.Outcome = join(failed+": "+err.Error(), cause.Error(), notes...)
	if stage := (*run.StageError)(nil); errors.As(err, &stage) && len(stage.Failures) > 0 { // its groups show why
		_, end.Outcome = join(failed, cause.Error(), notes...)
	}
	as.engine.Close(end)
	return true, errors.Join(cause, err)
}

// runRollback runs the rollback. The attempt is nil if it never started.
func (as *attempts) runRollback() (*attempt, error) {
	j, err := as.op.undo.task(as)
	if err != nil {
		return nil, err
	}
	as.op.mu.Lock()
	as.op.outlooks.rollback = preview.NewPreviewer(as.op.client, j.spec.preview)
	as.op.mu.Unlock()
	a, err := as.newAttempt(j.spec)
	if err != nil {
		return nil, err
	}
	_, _, err = a.perform(j, as.op.undo.info.Name)
	return a, err
}

func notWritten(exit int) int {
	if exit == 3 {
		return exit
	}
	return 2
}

// finalState is the state of the release after a failed operation: the status in its record,
// event.NoRelease if the release does not exist, or "" with an error if the status is
// unknown or not final.
type finalState struct {
	status string
	err    error
}

// text describes the state for the closing event. If the record could not be brought to a
// final state, it says how to fix that (R34). made is set if the operation created a revision.
func (r finalState) text(operation string, made bool) string {
	switch {
	case operation == "test":
		return "the release is unchanged"
	case r.err != nil:
		pending := "pending-" + operation
		if operation == "uninstall" {
			pending = "uninstalling"
		}
		return fmt.Sprintf("the release could not be marked failed, so its status may still be %s; run the same command again once the API server answers", pending)
	case r.status == event.NoRelease && operation == "uninstall":
		return "the release no longer exists"
	case r.status == event.NoRelease && made:
		return "the release was uninstalled by somebody else"
	case r.status == event.NoRelease:
		return "no release was created"
	case operation != "uninstall" && !made:
		return "the release is unchanged, " + r.status
	case r.status == rcommon.StatusFailed.String():
		return "the release is marked failed"
	}
	return "the release is " + r.status
}

// cleanupFailure returns why --cleanup-on-fail could not delete new objects, "" if it did.
// Helm returns only this error then, not the one that made the operation fail.
func (a *attempt) cleanupFailure() string {
	err := a.client.RemoveErr()
	if err == nil || a.op.prepared.Info.Name == "uninstall" {
		return ""
	}
	return fmt.Sprintf("some new objects could not be deleted: %v", err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func rolledBack(info event.Operation) string {
	if info.Name == "uninstall" {
		return "the release was uninstalled"
	}
	return fmt.Sprintf("the release is back at revision %d", info.ToRevision)
}

// join returns the outcome and notes as one line, with the cause and without it.
func join(outcome, cause string, notes ...string) (why, without string) {
	notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
	return strings.Join(append([]string{outcome + ": " + cause}, notes...), "; "), strings.Join(append([]string{outcome}, notes...), "; ")
}

// leftBehind names the objects that an operation created and its rollback did not
// delete (R43).
func leftBehind(events []event.Event) string {
	var left []string
	for _, e := range events {
		if e.Kind != event.KindObject || e.Object == nil {
			continue
		}
		switch name := e.Object.String(); {
		case e.Status == event.Gone || e.Change == event.Deleted:
			left = slices.DeleteFunc(left, func(s string) bool { return s == name })
		case e.Change == event.Created && !slices.Contains(left, name):
			left = append(left, name)
		}
	}
	switch n := len(left); {
	case n == 0:
		return ""
	case n > 10:
		return fmt.Sprintf("%d new objects remain: %s, …", n, strings.Join(left[:10], ", "))
	}
	return "new objects remain: " + strings.Join(left, ", ")
}

// finalizeTime limits the attempts to write the final record after an abort or timeout.
const finalizeTime = 20 * time.Second

// finalContext returns a context for writing the release record after the groups. It ends
// finalizeTime after the engine's requests do, or at once if the Lease is lost.
func (a *attempt) finalContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(a.op.lock.ctx)
	stop := context.AfterFunc(run.RetryContext(a.engine.Requests()), func() { time.AfterFunc(finalizeTime, cancel) })
	return ctx, func() { stop(); cancel() }
}

// finalize marks a release that is still pending or uninstalling as failed (R34) and
// deletes the object of an interrupted hook. It returns the state of the release, and
// the error of that deletion.
func (a *attempt) finalize(cause error) (left finalState, sweepErr error) {
	if lost := a.op.lost(); lost != nil {
		return finalState{err: lost}, nil
	}
	ctx, cancel := a.finalContext()
	defer cancel()
	releases, session, err := a.rebound(ctx)
	if err != nil {
		return finalState{err: err}, nil
	}
	sweepErr = a.client.Sweep(ctx, session)
	err = release.Retry(ctx, func() (err error) {
		left.status, err = release.Finalize(releases, a.op.prepared.Common.Release, a.driver.Written(), cause)
		return err
	})
	if err != nil {
		return finalState{err: fmt.Errorf("write the release record: %w", err)}, sweepErr
	}
	return left, sweepErr
}

// confirmRecord makes sure that the record of a successful operation has its final status
// (R34), and returns that status.
func (a *attempt) confirmRecord(operation string) (status string, err error) {
	if lost := a.op.lost(); lost != nil {
		return "", lost
	}
	w := a.driver.Written()
	if !w.Unsure() {
		return w.Status, nil
	}
	ctx, cancel := a.finalContext()
	defer cancel()
	releases, _, err := a.rebound(ctx)
	if err != nil {
		return "", err
	}
	err = release.Retry(ctx, func() (err error) {
		status, err = release.Complete(releases, a.op.prepared.Common.Release, operation, w)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("everything is deployed, but the release record could not be written: %w", err)
	}
	return status, nil
}
