package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/parallel"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/preview"
	"lockstep/kube/release"
)

// ShouldRollBack reports whether to roll back a run of an operation or a stack (S5) that did not succeed. ending is the
// command that ends the run, or nil.
//
// Rule R33: --rollback-on-failure decides after a failure, the command itself after an abort (R43).
func ShouldRollBack(c Common, ending *event.Command) bool {
	if ending != nil {
		return ending.Name == event.Rollback
	}
	return c.RollbackOnFailure
}

// rollBack runs the rollback as part of the same run (R43) and closes the feed. ended is false if a command that ends the
// run without a rollback was accepted before it could start (R48). failed is the attempt that is rolled back, nil if it was an
// earlier pod's, and marked how its revision was marked.
func (r *runner) rollBack(end run.End, cause error, notes []string, failed *attempt, marked finalState) (ended bool, err error) {
	info := r.op.rollback.info
	if r.engine.StartRollback(info, cause.Error()) != nil {
		return false, nil
	}
	r.op.mu.Lock()
	r.op.rollbackStarted = true
	r.op.mu.Unlock()
	a, err := r.runRollback()
	if err == nil {
		end.Release = rcommon.StatusDeployed.String()
		switch {
		case info.Name == "uninstall":
			end.Release = event.NoRelease
			notes = append(notes, r.op.leftBehind()) // such as its namespace and CRDs
		case failed != nil && marked.err != nil:
			if again := failed.finalizeAgain(cause); again.err != nil {
				notes = append(notes, fmt.Sprintf("revision %d could not be marked failed: %v", failed.driver.WriteResult().Created, again.err))
			}
		}
		notes = append(notes, r.op.notUndone(), r.op.Kept())
		end.Message, end.Outcome = ClosingTexts(rolledBack(info), cause, notes...)
		r.engine.Close(end)
		return true, cause
	}
	if a != nil {
		final, sweepErr := a.finalize(err)
		end.Release = final.status
		notes = slices.Concat([]string{final.describe(info.Name, true)}, notes, []string{errorText(sweepErr), errorText(final.err)})
	}
	notes = append(notes, r.op.leftBehind(), r.op.notUndone(), r.op.Kept())
	r.closeFailedRollback(end, cause, err, notes)
	return true, errors.Join(cause, err)
}

// closeFailedRollback closes the feed after a rollback that ended with err. The message has the cause first: it is why the
// operation failed, not why the rollback did. If groups failed, they show the error, so the outcome does not repeat it.
func (r *runner) closeFailedRollback(end run.End, cause, err error, notes []string) {
	if lost := r.op.lost(); lost != nil {
		end.Status = event.Aborted
		end.Exit = event.ExitFailed
		end.Newer = NewerRevision(lost)
	}
	result := "the rollback also failed"
	resultWithError := result + ": " + err.Error()
	if stopped := r.engine.EndingCommand(); stopped != nil {
		result = "the rollback was stopped"
		if r.op.lost() == nil { // else the notes say why
			result = "the rollback was " + phrase.Ended("stopped", stopped.Origin())
		}
		resultWithError = result
	}
	_, end.Outcome = ClosingTexts(resultWithError, cause, notes...)
	end.Message = cause.Error() + "; " + end.Outcome
	if stage := (*run.StageError)(nil); errors.As(err, &stage) && len(stage.Failures) > 0 {
		_, end.Outcome = ClosingTexts(result, cause, notes...)
	}
	r.engine.Close(end)
}

// runRollback runs the rollback. The attempt is nil if it never started.
func (r *runner) runRollback() (*attempt, error) {
	t, err := r.op.rollback.prepare(r)
	if err != nil {
		return nil, err
	}
	r.op.mu.Lock()
	r.op.previewers.rollback = preview.NewPreviewer(r.op.client, t.prepared)
	r.op.mu.Unlock()
	a, err := r.newAttempt(t)
	if err != nil {
		return nil, err
	}
	_, _, err = a.runAction(r.op.rollback.info.Name)
	return a, err
}

func rolledBack(info event.Operation) string {
	if info.Name == "uninstall" {
		return "the release was uninstalled"
	}
	return fmt.Sprintf("the release was rolled back to revision %d", info.ToRevision)
}

// lookTimeout limits the reads of the objects that a run leaves.
const lookTimeout = 10 * time.Second

func (op *Operation) attemptsSoFar() []*attempt {
	op.mu.Lock()
	defer op.mu.Unlock()
	return slices.Clone(op.attempts)
}

// leftBehind names the objects that the run created and that still exist (R43), "" for none.
func (op *Operation) leftBehind() string {
	x := effectsOf(op.feed.Events())
	deleting, left := x.deleting, x.left
	attempts := op.attemptsSoFar()
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	others := make([]bool, len(left))
	parallel.Each(len(left), func(i int) {
		for _, a := range slices.Backward(attempts) {
			if uid := a.session.Applied.UID(left[i]); uid != "" {
				others[i] = !cluster.Exists(ctx, op.client, left[i], uid)
				return
			}
		}
	})
	var own []plan.Object
	for i, o := range left {
		if !others[i] {
			own = append(own, o)
		}
	}
	var notes []string
	if len(deleting) > 0 {
		notes = append(notes, "still being deleted: "+firstTen(deleting))
	}
	if len(own) > 0 {
		notes = append(notes, "created by this run and not deleted: "+firstTen(own))
	}
	return strings.Join(notes, "; ")
}

// effects are what a run has done to the cluster, by its events.
type effects struct {
	revision int                  // the first that it was to create
	deleted  map[plan.Object]bool // those that it has changed, true if it has deleted them since
	// left are the objects that it created and has not seen gone, without those that are being deleted. Those that it found are
	// none, also if it deleted them and its rollback created them again.
	left, deleting []plan.Object
}

func effectsOf(events []event.Event) effects {
	x, existed := effects{deleted: map[plan.Object]bool{}}, map[plan.Object]bool{}
	for _, e := range events {
		if e.Operation != nil && x.revision == 0 { // an edit creates more revisions
			x.revision = e.Operation.Revision
		}
		if e.Kind != event.KindObject || e.Object == nil {
			continue
		}
		if e.Change != "" {
			if _, seen := x.deleted[*e.Object]; !seen {
				existed[*e.Object] = e.Change != event.Created && e.Change != event.Absent
			}
			x.deleted[*e.Object] = e.Change == event.Deleted
		}
		is := func(o plan.Object) bool { return o == *e.Object }
		switch created := slices.ContainsFunc(x.left, is); {
		case e.Status == event.Gone || e.Change == event.Deleted && e.Status != event.Deleting:
			x.left, x.deleting = slices.DeleteFunc(x.left, is), slices.DeleteFunc(x.deleting, is)
		case e.Change == event.Deleted && created:
			x.left, x.deleting = slices.DeleteFunc(x.left, is), append(x.deleting, *e.Object)
		case e.Change == event.Created && !created && !existed[*e.Object]:
			x.left, x.deleting = append(x.left, *e.Object), slices.DeleteFunc(x.deleting, is)
		}
	}
	return x
}

// untouched returns whether nobody has applied or deleted an object for the release since the target was deployed. It returns nil
// if that is not known, because of a revision that failed before this run, or of what earlier pods of its Job did.
func (op *Operation) untouched(revs *release.Revisions, target *rel1.Release) func(plan.Object) bool {
	first := effectsOf(op.feed.Events()).revision
	earlier := func(rel *rel1.Release) bool { return rel.Version > target.Version && rel.Version < first }
	if op.prepared.Common.Journal.Before().Start != nil || slices.ContainsFunc(slices.Concat(revs.All, revs.Pruned()), earlier) {
		return nil
	}
	attempts := op.attemptsSoFar()
	return func(o plan.Object) bool {
		return !slices.ContainsFunc(attempts, func(a *attempt) bool { return a.session.Applied.Touched(o) })
	}
}

// setApplied sets the UIDs of those of the objects that the operation has applied to what they were then.
func (op *Operation) setApplied(planned map[plan.Object]types.UID) {
	for _, a := range op.attemptsSoFar() {
		for o := range planned {
			planned[o] = cmp.Or(a.session.Applied.UID(o), planned[o])
		}
	}
}

// Kept names what the removals of the run have kept: the claims of the StatefulSets that it has deleted, and the objects of others
// that it had taken over; "" for nothing.
func (op *Operation) Kept() string {
	deleted := effectsOf(op.feed.Events()).deleted
	attempts := op.attemptsSoFar()
	var removed helmkube.ResourceList
	for _, a := range attempts {
		removed = append(removed, a.task.prepared.Old.List.Filter(func(i *resource.Info) bool {
			o := cluster.ObjectOf(i)
			once := deleted[o]
			delete(deleted, o)
			return once
		})...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	claims, _ := cluster.ClaimsOfSets(ctx, op.client.Clientset, removed)
	kept := text.Join("; ", append(claims, op.taken.Kept())...)
	op.mu.Lock()
	op.kept = &kept
	op.mu.Unlock()
	return kept
}

// notUndone names the objects that a rollback or a cleanup after a failure was to write or delete and has kept, with the reasons
// (R31a); "" for none. Plans and warnings name those of other operations.
func (op *Operation) notUndone() string {
	kept := map[plan.Object]string{}
	for _, e := range op.feed.Events() {
		switch {
		case e.Kind != event.KindObject || e.Change == "":
		case e.Change == event.Kept:
			kept[*e.Object] = fmt.Sprintf("%s is %s", e.Object, e.Message)
		default:
			delete(kept, *e.Object)
		}
	}
	var notes []string
	for _, o := range slices.SortedFunc(maps.Keys(kept), plan.Object.Compare) {
		notes = append(notes, kept[o])
	}
	return firstTen(notes)
}

// KeptAtEnd is what Kept has found at the end of Run.
func (op *Operation) KeptAtEnd() string {
	op.mu.Lock()
	kept := op.kept
	op.mu.Unlock()
	if kept == nil { // such as of a failed uninstall
		return op.Kept()
	}
	return *kept
}

// firstTen lists the texts of at most ten elements, and counts the others.
func firstTen[T any](list []T) string {
	var names []string
	for _, v := range list {
		names = append(names, fmt.Sprint(v))
	}
	if n := len(names); n > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:10], ", "), n-10)
	}
	return strings.Join(names, ", ")
}
