package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

// fail brings a failed or aborted operation to a final state (R34), rolls back
// where that was asked for (R33, R43), and tells. A command that is accepted
// meanwhile changes how it ends, so that this is decided anew until it stands (R48).
func (op *Operation) fail(p *pass, eng *run.Engine, watcher *status.Watcher, err error) error {
	for {
		if cause, ended := op.conclude(p, eng, watcher, err); ended {
			return cause
		}
	}
}

// conclude ends the operation by the verdict as it is now. It returns why the
// operation failed, or that the verdict has changed.
func (op *Operation) conclude(p *pass, eng *run.Engine, watcher *status.Watcher, err error) (cause error, ended bool) {
	v := eng.Verdict()
	outcome, exit := event.Failed, 1
	if v.Abort != nil {
		outcome, exit = event.Aborted, 3
	}
	if p == nil || !op.wrote(p) {
		end := run.End{Status: outcome, Message: "nothing was written: " + err.Error(), Exit: notWritten(exit)}
		return err, eng.Finish(end) == nil
	}
	left, swept := op.mend(p, err)
	notCleaned := op.notCleaned(p)
	notes := []string{text(swept), notCleaned}
	rollback := v.Abort == nil && op.common.RollbackOnFailure || v.Abort != nil && v.Abort.Name == event.Rollback
	if !rollback || op.undo == nil || p.rec.made == 0 {
		fate := left.fate(op.info.Name, p.rec.made > 0)
		if rollback {
			fate += ", and there is nothing to roll back to"
		}
		if notCleaned != "" || v.Abort != nil && v.Abort.Name == event.Stop {
			notes = append(notes, leftBehind(op.feed.Events()))
		}
		message := join(fate, err.Error(), append(notes, text(left.err))...)
		return err, eng.Finish(run.End{Status: outcome, Message: message, Exit: exit, Release: left.status}) == nil
	}
	return op.rollBack(eng, watcher, run.End{Status: outcome, Exit: exit}, err, notes)
}

// wrote reports whether anything was written, or may have been.
func (op *Operation) wrote(p *pass) bool { return p.rec.wrote || op.client.getter.bound.wrote.Load() }

// rollBack undoes the operation, in view (R33, R43). Only what this run has made
// itself is undone: another revision may be somebody else's who is at work. It does
// not begin where a command was accepted that ends the run without it (R48).
func (op *Operation) rollBack(eng *run.Engine, watcher *status.Watcher, end run.End, cause error, notes []string) (error, bool) {
	info, undo := op.undo()
	if eng.BeginRollback(info, cause.Error()) != nil {
		return nil, false
	}
	back, err := op.newPass(event.RollbackPrefix, eng, watcher)
	if err == nil {
		op.client.getter.bound.set(eng.Requests())
		err = undo(back)
	}
	if err == nil {
		end.Message, end.Release = join(rolledBack(info), cause.Error(), notes...), rcommon.StatusDeployed.String()
		if info.Name == "uninstall" {
			end.Release = event.NoRelease
		}
		finish(eng, end)
		return cause, true
	}
	if back != nil {
		left, swept := op.mend(back, err)
		end.Release = left.status
		notes = append(notes, text(swept))
		if left.err != nil {
			notes = append(notes, left.fate(info.Name, back.rec.made > 0), text(left.err))
		}
	}
	notes = append(notes, leftBehind(op.feed.Events()))
	failed := "the rollback failed too: "
	if eng.Verdict().Abort != nil {
		failed = "the rollback was stopped: "
	}
	end.Message = join(failed+err.Error(), cause.Error(), notes...)
	finish(eng, end)
	return errors.Join(cause, err), true
}

// finish ends the run; as aborted where a command has ended it that was accepted
// meanwhile (R48).
func finish(eng *run.Engine, end run.End) {
	if eng.Finish(end) != nil {
		end.Status, end.Exit = event.Aborted, 3
		_ = eng.Finish(end) // an end that says so is never refused
	}
}

// notWritten is the exit code of an operation that wrote nothing.
func notWritten(exit int) int {
	if exit == 3 {
		return exit
	}
	return 2
}

// remains is what an operation that failed has left of the release: what its
// record says, engine.NoRelease where there is none, or "" and why that could not be
// found out or brought to a final state.
type remains struct {
	status string
	err    error
}

// fate says what became of the release. Where its record could not be brought to
// a final state (R34), it says what goes on from there. made tells that the
// operation has made a revision.
func (r remains) fate(operation string, made bool) string {
	switch {
	case operation == "test":
		return "the release is as it was"
	case r.err != nil:
		says, next := "pending-"+operation, "roll it back"
		switch operation {
		case "install":
			next = "uninstall it"
		case "uninstall":
			says, next = "uninstalling", "uninstall it again"
		}
		return fmt.Sprintf("the release could not be marked failed, so it may still say %s; %s once the API server answers", says, next)
	case r.status == event.NoRelease && operation == "uninstall":
		return "the release is gone"
	case r.status == event.NoRelease && made:
		return "the release is gone, somebody else has uninstalled it"
	case r.status == event.NoRelease:
		return "no release was made"
	case operation != "uninstall" && !made:
		return "the release is as it was, " + r.status
	case r.status == rcommon.StatusFailed.String():
		return "the release is marked failed"
	}
	return "the release is " + r.status
}

// notCleaned says what --cleanup-on-fail has left, since Helm's error of it is
// not what made the operation fail: after the timeout, or an abort, nothing more
// is started.
func (op *Operation) notCleaned(p *pass) string {
	if p.ord.removeErr == nil || op.info.Name == "uninstall" {
		return ""
	}
	return fmt.Sprintf("not all that was created could be deleted again: %v", p.ord.removeErr)
}

// text is that of an error, "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func rolledBack(info event.Operation) string {
	if info.Name == "uninstall" {
		return "the release has been uninstalled"
	}
	return fmt.Sprintf("the release is back at revision %d", info.ToRevision)
}

// join puts what became of the release before why.
func join(fate, cause string, notes ...string) string {
	return strings.Join(append([]string{fate + ": " + cause}, slices.DeleteFunc(notes, func(s string) bool { return s == "" })...), "; ")
}

// leftBehind names the objects that an operation has brought to the cluster and
// its rollback has not taken away (R43).
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
		return fmt.Sprintf("%d new objects are left behind: %s, …", n, strings.Join(left[:10], ", "))
	default:
		return "new objects are left behind: " + strings.Join(left, ", ")
	}
}

// mendTime is how long to try to bring a release to a final state.
const mendTime = 20 * time.Second

// mend brings what an action left half done to a final state: a release that
// is still pending or uninstalling is marked failed (R34), and the object of a
// hook that was cut short is deleted. It returns what is left of the release,
// and why that object could not be deleted.
func (op *Operation) mend(p *pass, cause error) (left remains, swept error) {
	ctx, cancel := context.WithTimeout(context.Background(), mendTime)
	defer cancel()
	op.client.getter.bound.set(ctx)
	swept = p.ord.sweepHook(ctx)
	err := insist(ctx, func() (err error) {
		left.status, err = op.finalise(p, cause)
		return err
	})
	if err != nil {
		return remains{err: fmt.Errorf("write the release record: %w", err)}, swept
	}
	return left, swept
}

// insist does something until it comes to an end without an error, or ctx ends.
func insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// settle makes sure that the record of an operation that succeeded says so: that
// Helm could not write it is no error to Helm, but the release would stay
// pending (R34).
func (op *Operation) settle(p *pass) error {
	if p.rec.made == 0 || p.rec.failed == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), mendTime)
	defer cancel()
	op.client.getter.bound.set(ctx)
	err := insist(ctx, func() error {
		rel, err := op.touched(p)
		if err == nil && rel.Info.Status.IsPending() {
			rel.SetStatus(rcommon.StatusDeployed, strings.ToUpper(op.info.Name[:1])+op.info.Name[1:]+" complete")
			err = p.cfg.Releases.Update(rel)
		}
		if err == nil {
			p.rec.failed, p.rec.status = nil, rel.Info.Status.String()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("all is deployed, but the release record could not be written: %w", err)
	}
	return nil
}

// finalise marks the revision that a pass has made, or was about to uninstall,
// as failed where Helm left it in between. It returns what the record says then.
// Revisions of others are left alone: somebody may be at work on them.
func (op *Operation) finalise(p *pass, cause error) (string, error) {
	rel, err := op.touched(p)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return event.NoRelease, nil
	}
	if err != nil {
		return "", err
	}
	status := rel.Info.Status
	ours := p.rec.made == rel.Version && status.IsPending() || p.rec.uninstalling && status == rcommon.StatusUninstalling
	if !ours {
		return status.String(), nil
	}
	rel.SetStatus(rcommon.StatusFailed, fmt.Sprintf("Release %q failed: %v", rel.Name, cause))
	return rel.Info.Status.String(), p.cfg.Releases.Update(rel)
}

// touched is the revision that a pass has made, or else the latest.
func (op *Operation) touched(p *pass) (*rel1.Release, error) {
	if p.rec.made > 0 {
		x, err := p.cfg.Releases.Get(op.common.Release, p.rec.made)
		if err != nil {
			return nil, err
		}
		return asV1(x)
	}
	x, err := p.cfg.Releases.Last(op.common.Release)
	if err != nil {
		return nil, err
	}
	return asV1(x)
}
