package phrase

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// Failure describes why an object made its group fail: "image cannot be pulled; gave up after 10s (--readiness-timeout)". The
// timeout is nil if none expired.
func Failure(cause string, t *event.Timeout) string {
	if t == nil {
		return cause
	}
	return cause + "; " + GaveUp(*t)
}

// GaveUp says which timeout expired: "gave up after 10s (--timeout)".
func GaveUp(t event.Timeout) string {
	said := fmt.Sprintf("gave up after %s (%s)", text.Duration(t.After), t.Flag)
	if t.Away > 0 {
		said += "; " + Outage(t.Away, t.AwayWhy)
	}
	return said
}

// RunOver says what to do about a run that ended without a closing event.
func RunOver(o event.Operation, why string) string {
	if o.IsStack() {
		return why + " before the run ended, so its releases may be pending: run the command again"
	}
	return fmt.Sprintf("%s before the run ended, so release %s may be pending: see what it left with: "+text.Program+" recover %s -n %s; then run the command again",
		why, o.Release, text.ShellWord(o.Release), o.Namespace)
}

// Outage says how long the API server has been unreachable.
func Outage(d time.Duration, why string) string {
	return fmt.Sprintf("the API server has been unreachable for %s (%s)", d.Round(time.Second), why)
}

// Root describes a failure in one sentence: "Deployment/api: container api exited with code 3; gave up after 12s
// (--readiness-timeout)".
func Root(r event.Root) string {
	if r.Object == nil {
		return Why(r)
	}
	return r.Object.Object.String() + ": " + Why(r)
}

// RootInGroup is Root without the object if the name of the group has it, as for hooks.
func RootInGroup(r event.Root) string {
	if r.Object != nil && NamesObject(r.Group, r.Object.Object) {
		return Why(r)
	}
	return Root(r)
}

// NamesObject reports whether the name of a group is that of its object, as for hooks.
func NamesObject(g *event.GroupState, o plan.Object) bool { return g != nil && g.Name == o.String() }

// CauseIn is CauseAt for a group of a run. If that is a release of a stack, release is its state, and the cause that of the object of
// the release that is to blame, without the group in front of it: a screen names the release, and has the group on its next line or
// one key away.
func CauseIn(release *event.State, g *event.GroupState, o *event.ObjectState, now time.Time) string {
	var r event.Root
	if release != nil {
		r = release.Blamed()
	}
	if r.Object == nil {
		return CauseAt(g, o, now)
	}
	cause := CauseAt(r.Group, r.Object, now)
	if r.Group.Status.Over() {
		cause = Why(r)
	}
	return r.Object.Object.String() + ": " + cause
}

// Why is Root without the object.
func Why(r event.Root) string {
	switch {
	case r.Timeout != nil || r.Waited <= 0:
		return Failure(r.Cause, r.Timeout)
	case r.Waited < 10*time.Second:
		return fmt.Sprintf("%s; not ready when the group failed (%s)", r.Cause, r.Waited.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("%s; not ready when the group failed (%s)", r.Cause, r.Waited.Round(time.Second))
}

// Reason describes in one sentence why an operation did not succeed, and the outcome for the release: the first root
// failure; State.Message if there is none or the operation did not fail.
func Reason(s *event.State) string {
	failure := FirstFailure(s)
	if failure == "" {
		return s.Message
	}
	return text.Join("; ", failure, s.Outcome)
}

// FirstFailure is Reason without the outcome, "" if no group failed or the operation did not fail.
func FirstFailure(s *event.State) string {
	roots := s.Roots()
	if len(roots) == 0 || s.Status != event.Failed {
		return ""
	}
	reason := Root(roots[0])
	if roots[0].Object != nil && s.Operation.IsStack() { // the object is the release that the group deploys
		what := "release "
		if roots[0].Group.Step != nil {
			what = "hook "
		}
		reason = what + roots[0].Group.ID + ": " + Why(roots[0])
	}
	inRollback := func(r event.Root) bool { return r.Group != nil && event.IsRollback(r.Group.Phase) }
	if !inRollback(roots[0]) { // the outcome says that the rollback failed, too
		roots = slices.DeleteFunc(roots, inRollback)
	}
	if more := len(roots) - 1; more > 0 {
		reason += "; and " + text.Count(more, "more failure")
	}
	return reason
}

// Result describes how an operation ended, and the outcome for the release, without the reason:
// "install shop failed; the release is marked failed".
func Result(s *event.State) string {
	return text.Join("; ", s.Operation.Name+" "+s.Operation.Release+" "+string(s.Status), s.Outcome)
}

// Fixed describes a failure, and how it was fixed.
func Fixed(f event.FixedFailure) string {
	how := text.Join(" from ", Fix(f), f.By)
	return fmt.Sprintf("%s: %s; %s", f.Unit.Group, RootInGroup(f.Root), text.Join(": ", how, f.Reason))
}

// Fix says what the command in FixedFailure.How did: "fixed by a retry", "failed again after an edit", "skipped".
func Fix(f event.FixedFailure) string {
	if f.Skipped() {
		return "skipped"
	}
	result, how := "fixed by ", string(f.How)
	if f.Again {
		result = "failed again after "
	}
	switch f.How {
	case event.Accept:
		how = "a re-check"
	case event.Retry:
		how = "a retry"
	case event.Edit:
		how = "an edit"
	}
	return result + how
}

// FixedNote returns a note for the outcome, " (1 failure fixed, 1 hook skipped)", or "".
func FixedNote(s *event.State) string {
	var parts []string
	all, skipped := s.Fixed(), 0
	for _, f := range all {
		if f.Skipped() {
			skipped++
		}
	}
	if fixed := len(all) - skipped; fixed > 0 {
		parts = append(parts, text.Count(fixed, "failure")+" fixed")
	}
	if skipped > 0 {
		parts = append(parts, text.Count(skipped, "hook")+" skipped")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
