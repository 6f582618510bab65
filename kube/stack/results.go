package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube/lease"
	"lockstep/kube/operation"
)

// facts are what is known about a release at the end of a run. resultOf turns them into its result.
type facts struct {
	remove  bool // the run was to remove it
	absent  bool // there was nothing to remove
	started bool // its operation has started, in this pod or in an earlier one of the Job that changed the release
	passed  bool // it was unchanged, and was not deployed again
	// notReady is set if a check found a passed or deployed release not ready, changed if it found objects that somebody else changed.
	notReady, changed bool
	idle              bool // its operation was aborted before it wrote anything, or another run had locked the release
	// record is the newest record, known whether it could be read. rolledBack is the revision that the rollback of the
	// stack created, 0 for none.
	record     operation.FinalRecord
	known      bool
	rolledBack int
	gone       bool // an earlier pod of the Job uninstalled it
}

// resultOf returns the result of a release. It depends on the record alone for every release that the run has written to.
func resultOf(f facts) event.Result {
	r := f.record
	untouched := event.NotDeployed
	if f.idle {
		untouched = event.NotStarted
	}
	switch {
	case f.absent && !f.started && r.Newer == nil:
		return event.NotInstalled
	case !f.started && !f.passed && !f.notReady && !f.changed && r.Newer == nil:
		return event.NotStarted
	case f.changed || r.Newer != nil:
		return event.ChangedByOthers
	case f.notReady && !(f.started && f.known && r.Status != string(rcommon.StatusDeployed)): // else its rollback has failed since
		return event.NotReady
	case !f.known:
		return event.UnknownResult
	case !f.started:
		return event.PassedUnchanged
	case r.Status == event.NoRelease && (f.remove || f.gone || r.Created > 0):
		return event.Uninstalled
	case r.Status == string(rcommon.StatusUninstalled) && f.remove:
		return event.Uninstalled
	case r.Status == string(rcommon.StatusUninstalling), rcommon.Status(r.Status).IsPending():
		return event.Unfinished
	case r.Status != string(rcommon.StatusDeployed):
		return untouched
	case r.Revision > 0 && (r.Revision == f.rolledBack || r.Revision == r.RolledBack):
		return event.RolledBack
	case r.Revision > 0 && r.Revision == r.Created:
		return event.Deployed
	}
	return untouched
}

// changedBy reports whether the run has changed the release: it created a revision or removed it.
func (f facts) changedBy() bool {
	return f.started && (f.record.Created > 0 || (f.remove || f.gone) && f.known && f.record.Newer == nil && resultOf(f) == event.Uninstalled)
}

// succeeded reports whether a result is what the run was to achieve.
func succeeded(r event.Result, remove bool) bool {
	switch r {
	case event.Deployed, event.PassedUnchanged:
		return !remove
	case event.Uninstalled, event.NotInstalled:
		return remove
	}
	return false
}

const (
	// recordTimeout limits the reads of the release records after a failure.
	recordTimeout = 10 * time.Second
	// defaultRecordTimeout limits them while the run continues, if there is no --timeout.
	defaultRecordTimeout = 5 * time.Minute
)

// recordContext returns the context of reads of the records while the run continues: an outage is waited out until a timeout
// or a command ends the run (R53).
func (s *Stack) recordContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.engine.RequestContext(), cmp.Or(s.opts.Common.Timeout, defaultRecordTimeout))
}

// finalResults returns the results of all releases after a failure.
func (s *Stack) finalResults() []event.ReleaseResult {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	return s.results(ctx)
}

// results reads the newest records and returns the results of all releases.
func (s *Stack) results(ctx context.Context) []event.ReleaseResult {
	all := make([]event.ReleaseResult, len(s.members))
	var reads sync.WaitGroup
	for n, m := range s.members {
		reads.Go(func() { all[n] = s.result(ctx, m) })
	}
	reads.Wait()
	return all
}

// result returns the result of a release.
func (s *Stack) result(ctx context.Context, m *member) event.ReleaseResult {
	s.mu.Lock()
	_, locked := errors.AsType[*lease.LockedError](m.result)
	earlier := false
	if m.op != nil {
		earlier, _ = m.op.ChangedEarlier()
	}
	gone := s.goneEarlier(m)
	f := facts{
		remove: m.remove, absent: m.remove && m.op == nil && m.err == nil, started: m.started || earlier || gone, passed: m.skipped, gone: gone,
		notReady: m.notReady, changed: len(m.changed) > 0,
		idle: m.started && !earlier && (m.state.Status == event.Aborted && m.state.Code == event.NothingWritten || locked),
	}
	op, rollback, why, outcome := m.op, m.rollback, m.why, m.result
	if s.rollingBack && why == "" && rollback == nil && m.result != nil && m.state.HasRollback() && m.state.RollbackFailed() {
		why = "its own rollback failed"
	}
	s.mu.Unlock()
	if gone && op == nil {
		f.record.Status, f.known = event.NoRelease, true
	}
	if last := cmp.Or(rollback, op); last != nil && why == "" {
		why = last.KeptAtEnd()
	}
	if op != nil && (f.started || f.passed || f.notReady) {
		record, err := op.ReadRecord(ctx)
		f.record, f.known = record, err == nil
		if untouched := record.Created == 0 && record.RolledBack == 0; untouched && f.record.Newer == nil && !earlier {
			f.record.Newer = operation.NewerRevision(outcome)
		}
		if rollback != nil {
			inRollback, _ := rollback.ReadRecord(ctx) // the ledger is the same
			f.rolledBack = inRollback.Created
		}
	}
	if f.absent && !f.started { // a failed read leaves what planning has seen
		f.record.Newer, _ = operation.Newest(ctx, m.client, s.common(m))
	}
	return event.ReleaseResult{
		Release: m.id, Result: resultOf(f), Revision: f.record.Revision, Status: f.record.Status, Newer: f.record.Newer, Changed: f.changedBy(), Reason: why,
	}
}

// countedResults are the results in the order in which they are counted.
var countedResults = []event.Result{
	event.Deployed, event.RolledBack, event.Uninstalled, event.PassedUnchanged, event.NotDeployed, event.NotReady, event.Unfinished,
	event.ChangedByOthers, event.UnknownResult, event.NotInstalled, event.NotStarted,
}

// outcomeOf counts the releases by their results and says what to do about those that are not final:
// "releases: 2 deployed, 1 failed".
func outcomeOf(results []event.ReleaseResult) string {
	counts := map[event.Result]int{}
	for _, r := range results {
		counts[r.Result]++
	}
	var parts []string
	for _, result := range countedResults {
		if n := counts[result]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, result))
		}
	}
	return strings.Join(append([]string{"releases: " + strings.Join(parts, ", ")}, notes(results, false)...), "; ")
}

// rollbackOutcomeOf counts the releases that the run changed, and those of them that are rolled back: by the rollback of the
// stack, or by their own operation. It names each of the others.
func rollbackOutcomeOf(results []event.ReleaseResult) string {
	total, done, uninstalled := 0, 0, 0
	for _, r := range results {
		if !r.Changed {
			continue
		}
		total++
		if r.Result == event.Uninstalled {
			uninstalled++
		}
		if undone(r) {
			done++
		}
	}
	outcome := ""
	switch {
	case done == total && uninstalled == total && total > 0:
		outcome = "rolled back; " + text.Count(done, "release") + " uninstalled"
	case done == total:
		outcome = "rolled back " + text.Count(done, "release")
	default:
		outcome = fmt.Sprintf("rolled back %d of %d changed releases", done, total)
	}
	return strings.Join(append([]string{outcome}, notes(results, true)...), "; ")
}

// undone reports whether a release that the run has changed is as it was.
func undone(r event.ReleaseResult) bool {
	return r.Result == event.Uninstalled || r.Result == event.RolledBack
}

// namedError is an error about releases that the outcome names with the same reasons.
type namedError struct{ error }

func namedInOutcome(err error) error {
	if err == nil {
		return nil
	}
	return namedError{err}
}

// messageOf returns the message of the closing event. It does not repeat what the outcome says.
func messageOf(outcome string, cause error) string {
	if _, named := cause.(namedError); named {
		return outcome
	}
	message, _ := operation.ClosingTexts(outcome, cause)
	return message
}

// notes returns the notes about all releases, see noteOf.
func notes(results []event.ReleaseResult, rollback bool) (out []string) {
	for _, r := range results {
		if note := noteOf(r, rollback && r.Changed && !undone(r)); note != "" {
			out = append(out, note)
		}
	}
	return out
}

// noteOf names a release that somebody else has changed, one whose record is not final, with what to do, and one that was not
// rolled back (kept); it returns "" for any other. It says all about the release at once, so that nothing is said twice.
func noteOf(r event.ReleaseResult, kept bool) string {
	why := ""
	if r.Reason != "" {
		why = ": " + r.Reason
	}
	switch {
	case r.Result == event.ChangedByOthers && r.Newer != nil && kept:
		return r.Release + " " + newerText(*r.Newer) + ": not rolled back"
	case r.Result == event.ChangedByOthers && r.Newer != nil:
		return r.Release + " " + newerText(*r.Newer)
	case r.Result == event.UnknownResult:
		const unread, advice = "cannot be read", "; run the same command again once the cluster answers"
		may := ""
		if r.Status != event.NoRelease {
			may = " and may still be " + r.Status
		}
		if kept {
			return fmt.Sprintf("%s may not be rolled back: its record %s%s%s", r.Release, unread, may, advice)
		}
		return fmt.Sprintf("the record of %s %s%s%s", r.Release, unread, may, advice)
	case r.Result == event.Unfinished && kept && why != "":
		return fmt.Sprintf("%s was not rolled back%s; it is still %s; run the same command again", r.Release, why, r.Status)
	case r.Result == event.Unfinished && kept:
		return fmt.Sprintf("%s was not rolled back and is still %s; run the same command again", r.Release, r.Status)
	case r.Result == event.Unfinished:
		return fmt.Sprintf("%s is still %s; run the same command again", r.Release, r.Status)
	case kept:
		return r.Release + " was not rolled back" + why
	case undone(r) && why != "":
		return r.Release + why
	case r.Result == event.NotReady && why != "":
		return r.Release + " is not ready" + why
	case r.Result == event.ChangedByOthers && why != "":
		return r.Release + why
	}
	return ""
}

// newerText describes a newer revision: "has a newer revision 3 by helm".
func newerText(n event.NewerRevision) string {
	switch {
	case n.Revision == 0 || n.Status == rcommon.StatusUninstalled.String():
		return "was uninstalled by somebody else"
	case n.Author == "": // of a changed status, too
		return fmt.Sprintf("has revision %d, which somebody else wrote or changed to %s", n.Revision, n.Status)
	}
	return "has a newer " + n.String()
}

// unsuccessful returns the results that are not what the run was to achieve.
func (s *Stack) unsuccessful(results []event.ReleaseResult) []event.ReleaseResult {
	return slices.DeleteFunc(slices.Clone(results), func(r event.ReleaseResult) bool { return succeeded(r.Result, s.byID[r.Release].remove) })
}
