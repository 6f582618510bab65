package event

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"lockstep/engine/text"
)

// Root is a failure that no other failure caused.
type Root struct {
	Group *GroupState
	// Object is nil if the failure is not about an object.
	Object *ObjectState
	// Cause and Evidence are the reason, see Event.
	Cause    string
	Evidence []string
	// Waited is the timeout that the object exceeded. If the group failed because of another object, Waited
	// is how long the run had waited for this one. It is 0 if the object failed before its timeout, or if
	// Cause already contains the timeout.
	Waited time.Duration
	// Limit is the flag of the timeout that the object exceeded, or "".
	Limit string
}

// Roots returns the current root failures in order: for each failed group the object that
// made it fail, then other objects in trouble. Skipped and aborted groups are consequences.
func (s *State) Roots() []Root {
	var failed []*GroupState
	for g := range s.GroupStates() {
		if g.Status == Failed {
			failed = append(failed, g)
		}
	}
	slices.SortStableFunc(failed, func(a, b *GroupState) int { return a.Ended.Compare(b.Ended) })
	var roots []Root
	for _, g := range failed {
		roots = append(roots, g.roots()...)
	}
	return roots
}

func (g *GroupState) roots() []Root {
	failed := g.findFailedObject()
	if failed == nil {
		return []Root{{Group: g, Cause: g.Message}}
	}
	roots := []Root{g.root(failed)}
	for _, o := range slices.Concat(g.Objects, g.Outside) {
		if o != failed && o.InTrouble() && !o.NotAwaited() {
			roots = append(roots, g.root(o))
		}
	}
	return roots
}

// InTrouble reports whether an object has failed, or is not ready and the cause is known.
func (o *ObjectState) InTrouble() bool {
	return o.Status == Failed || !o.Done() && o.Cause != ""
}

// findFailedObject returns the object that made a group fail, or nil.
func (g *GroupState) findFailedObject() *ObjectState {
	if g.FailedObject != nil {
		return g.index[*g.FailedObject]
	}
	i := slices.IndexFunc(g.Objects, func(o *ObjectState) bool { // old records name it only in the message
		return strings.HasPrefix(g.Message, o.Object.String()+":")
	})
	if i < 0 {
		i = slices.IndexFunc(g.Objects, func(o *ObjectState) bool { return o.Status == Failed })
	}
	if i < 0 {
		return nil
	}
	return g.Objects[i]
}

func (g *GroupState) root(o *ObjectState) Root {
	r := Root{Group: g, Object: o, Cause: o.Cause, Evidence: o.Evidence}
	if g.FailedObject != nil && *g.FailedObject == o.Object && (r.Cause == "" || r.Cause == o.Message) && g.Cause != "" { // the group's cause is more specific
		r.Cause, r.Evidence = g.Cause, g.Evidence
	}
	if len(r.Evidence) == 0 { // an old record
		r.Evidence = o.Diagnosis[:min(len(o.Diagnosis), MaxEvidence)]
	}
	why, blamesObject := strings.CutPrefix(g.Message, o.Object.String()+": ")
	switch {
	case r.Cause == "" && blamesObject:
		r.Cause = why // it contains the timeout
	case r.Cause == "":
		r.Cause = o.Message
	case timeoutFlag.MatchString(r.Cause):
	case blamesObject && r.setLimit(why): // even if the object is Failed, such as a hook that was deleted afterwards by its policy
	case o.Status != Failed && !o.Sent.IsZero():
		r.Waited = g.Ended.Sub(o.Sent)
	}
	return r
}

// setLimit sets Waited and Limit if why says that a timeout expired.
func (r *Root) setLimit(why string) bool {
	limit := timeoutFlag.FindStringSubmatch(why)
	if limit == nil {
		return false
	}
	expired, err := time.ParseDuration(limit[1])
	if err != nil {
		return false
	}
	r.Waited, r.Limit = expired, limit[2]
	return true
}

// timeoutFlag matches the timeout and its flag in a group's message.
var timeoutFlag = regexp.MustCompile(`.*after (\S+) \((--readiness-timeout(?: [^()]+)?|helm\.sh/readiness-timeout|--timeout)\)`)

// runningJob matches the state of a running Job: "running 10 s · 0 of 1 complete".
var runningJob = regexp.MustCompile(`^running(?: \d[^·]*)? · (.+)$`)

// String describes the failure in one sentence:
// "Deployment/api: container api exited with code 3; gave up after 12s (--readiness-timeout)".
func (r Root) String() string {
	if r.Object == nil {
		return r.Why()
	}
	return r.Object.Object.String() + ": " + r.Why()
}

// Why is String without the object.
func (r Root) Why() string {
	text := r.Cause
	if running := runningJob.FindStringSubmatch(text); running != nil {
		text = "still running (" + strings.ReplaceAll(running[1], " · ", ", ") + ")"
	}
	switch {
	case r.Waited <= 0:
	case r.Limit != "":
		text += "; gave up after " + r.Waited.String() + " (" + r.Limit + ")"
	case r.Waited < 10*time.Second:
		text += "; not ready when the group failed (" + r.Waited.Round(100*time.Millisecond).String() + ")"
	default:
		text += "; not ready when the group failed (" + r.Waited.Round(time.Second).String() + ")"
	}
	return text
}

// Reason describes in one sentence why an operation did not succeed, and the outcome for the
// release: the first root failure; Message if there is none or the operation did not fail.
func (s *State) Reason() string {
	failure := s.Failure()
	switch {
	case failure == "":
		return s.Message
	case s.Outcome == "":
		return failure
	}
	return failure + "; " + s.Outcome
}

// Failure is Reason without the outcome, "" if no group failed or the operation did not fail.
func (s *State) Failure() string {
	roots := s.Roots()
	if len(roots) == 0 || s.Status != Failed {
		return ""
	}
	reason := roots[0].String()
	if roots[0].Object != nil && s.Operation.IsStack() { // the object is the release that the group deploys
		reason = "release " + roots[0].Group.ID + ": " + roots[0].Why()
	}
	inRollback := func(r Root) bool { return r.Group != nil && IsRollback(r.Group.Phase) }
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
func (s *State) Result() string {
	text := s.Operation.Name + " " + s.Operation.Release + " " + string(s.Status)
	if s.Outcome != "" {
		text += "; " + s.Outcome
	}
	return text
}

// SameCause reports whether two causes differ only in numbers, such as a count of restarts.
func SameCause(a, b string) bool {
	return counts.ReplaceAllString(a, "") == counts.ReplaceAllString(b, "")
}

var counts = regexp.MustCompile(tally.String() + `|\d+`)
