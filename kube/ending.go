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

	"lockstep/engine"
	"lockstep/kube/status"
)

// fail brings a failed or aborted operation to a final state (R34), rolls back
// where that was asked for (R33, R43), and tells.
func (op *Operation) fail(p *pass, eng *engine.Engine, watcher *status.Watcher, err error) error {
	v := eng.Verdict()
	outcome, exit := engine.Failed, 1
	if v.Abort != nil {
		outcome, exit = engine.Aborted, 3
	}
	if p == nil || !p.wrote {
		eng.Finish(outcome, "nothing was written: "+err.Error(), notWritten(exit))
		return err
	}
	swept, marked := op.mend(p, err)
	notCleaned := op.notCleaned(p)
	notes := []string{text(swept), notCleaned}
	rollback := v.Abort == nil && op.common.RollbackOnFailure || v.Abort != nil && v.Abort.Name == engine.Rollback
	if !rollback || op.undo == nil {
		fate := fateOf(op.info.Name, marked)
		if rollback {
			fate += ", and there is nothing to roll back to"
		}
		if notCleaned != "" || v.Abort != nil && v.Abort.Name == engine.Stop {
			notes = append(notes, leftBehind(op.feed.Events()))
		}
		eng.Finish(outcome, join(fate, err.Error(), append(notes, text(marked))...), exit)
		return err
	}
	info, undo := op.undo()
	eng.BeginRollback(info, err.Error())
	back, undoErr := op.newPass(rollbackPrefix, eng, watcher)
	if undoErr == nil {
		op.client.getter.bound.set(eng.Requests())
		undoErr = undo(back)
	}
	if undoErr != nil {
		if back != nil {
			swept, marked = op.mend(back, undoErr)
			notes = append(notes, text(swept))
		}
		if marked != nil {
			notes = append(notes, fateOf(info.Name, marked), text(marked))
		}
		notes = append(notes, leftBehind(op.feed.Events()))
		eng.Finish(outcome, join("the rollback failed too: "+undoErr.Error(), err.Error(), notes...), exit)
		return errors.Join(err, undoErr)
	}
	eng.Finish(outcome, join(rolledBack(info), err.Error(), notes...), exit)
	return err
}

// notWritten is the exit code of an operation that wrote nothing.
func notWritten(exit int) int {
	if exit == 3 {
		return exit
	}
	return 2
}

// fateOf is what became of the release after an operation that failed. Where
// its record could not be brought to a final state (R34), it says what goes on
// from there.
func fateOf(operation string, marked error) string {
	says, next := "pending-"+operation, "roll it back"
	switch {
	case operation == "test":
		return "the release is as it was"
	case marked == nil:
		return "the release is marked failed"
	case operation == "install":
		next = "uninstall it"
	case operation == "uninstall":
		says, next = "uninstalling", "uninstall it again"
	}
	return fmt.Sprintf("the release could not be marked failed, so it may still say %s; %s once the API server answers", says, next)
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

func rolledBack(info engine.Operation) string {
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
func leftBehind(events []engine.Event) string {
	var left []string
	for _, e := range events {
		if e.Kind != engine.KindObject || e.Object == nil {
			continue
		}
		switch name := e.Object.String(); {
		case e.Status == engine.Gone || e.Change == engine.Deleted:
			left = slices.DeleteFunc(left, func(s string) bool { return s == name })
		case e.Change == engine.Created && !slices.Contains(left, name):
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
// hook that was cut short is deleted. It returns why either could not be done.
func (op *Operation) mend(p *pass, cause error) (swept, marked error) {
	ctx, cancel := context.WithTimeout(context.Background(), mendTime)
	defer cancel()
	op.client.getter.bound.set(ctx)
	swept = p.ord.sweepHook(ctx)
	for {
		err := op.finalise(p, cause)
		if err == nil {
			return swept, nil
		}
		select {
		case <-ctx.Done():
			return swept, fmt.Errorf("write the release record: %w", err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// finalise marks the last revision as failed where Helm left it in between.
func (op *Operation) finalise(p *pass, cause error) error {
	last, err := p.cfg.Releases.Last(op.common.Release)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	rel, ok := last.(*rel1.Release)
	if !ok || !rel.Info.Status.IsPending() && rel.Info.Status != rcommon.StatusUninstalling {
		return nil
	}
	rel.SetStatus(rcommon.StatusFailed, fmt.Sprintf("Release %q failed: %v", rel.Name, cause))
	return p.cfg.Releases.Update(rel)
}
