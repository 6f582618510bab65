package format

import (
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
)

// Failure is a root failure (event.Root) in the JSON of reports and "runs show".
type Failure struct {
	Phase    string       `json:"phase,omitempty"`
	Group    string       `json:"group,omitempty"`
	Object   *plan.Object `json:"object,omitempty"`
	Cause    string       `json:"cause"`
	Evidence []string     `json:"evidence"`
	// Details is the whole diagnosis.
	Details []string `json:"details"`
	// Text is one sentence about the failure.
	Text string `json:"text"`

	// Place is the group, followed by ", rolling back" in a rollback.
	Place string `json:"-"`
	// State is the state of the group.
	State *event.GroupState `json:"-"`

	why     string // Text without the object
	inStack bool   // the object is the release, which Place and Text name with its namespace
	facts   *event.Details
}

// FixedFailure is a failure that was fixed during the run (event.FixedFailure).
type FixedFailure struct {
	Failure
	How    string    `json:"how"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Failed time.Time `json:"failed"`
	Ready  time.Time `json:"ready"`
	// Again is set if the group failed again after How.
	Again bool `json:"again,omitempty"`

	// Fix is the result and How as people read them: "fixed by a retry".
	Fix string `json:"-"`
}

// Failures returns the root failures, in order. It never returns nil.
func Failures(s *event.State) []Failure {
	out := []Failure{}
	for _, r := range s.Roots() {
		out = append(out, newFailure(s, r))
	}
	return out
}

// FixedFailures returns the failures that were fixed, in order. It never returns nil.
func FixedFailures(s *event.State) []FixedFailure {
	out := []FixedFailure{}
	for _, f := range s.Fixed() {
		fixed := FixedFailure{newFailure(s, f.Root), string(f.How), f.By, f.Reason, f.Failed, f.Ready, f.Again, phrase.Fix(f)}
		if s.Operation.IsStack() {
			fixed.Group, fixed.Place = f.Unit.Group, f.Unit.Group
		}
		if f.Again { // the diagnosis is that of the last failure
			fixed.Details, fixed.facts = []string{}, nil
		}
		out = append(out, fixed)
	}
	return out
}

func newFailure(s *event.State, r event.Root) Failure {
	f := Failure{
		Phase: r.Group.Phase, Group: r.Group.ID, Cause: r.Cause,
		Evidence: append([]string{}, r.Evidence...), Details: []string{}, Text: phrase.Root(r),
		Place: GroupName(s, r.Group), State: r.Group, why: phrase.Why(r), inStack: r.Object != nil && s.Operation.IsStack(),
	}
	if event.IsRollback(r.Group.Phase) {
		f.Place += ", rolling back"
	}
	if r.Object != nil {
		if f.inStack {
			f.Text = f.Place + ": " + f.why
		}
		f.Object, f.facts = &r.Object.Object, r.Object.Details
		f.Details = append(f.Details, r.Object.Diagnosis...)
	}
	return f
}

// Sentence is Text with Place: "Job/migrate in shop/db:schema: container migrate exited with code 2". The place of a hook
// names the object.
func (f Failure) Sentence() string {
	switch {
	case f.inStack:
		return f.Text
	case f.Object == nil || f.Place == f.State.ID && phrase.NamesObject(f.State, *f.Object):
		return f.Place + ": " + f.why
	}
	return f.Object.String() + " in " + f.Place + ": " + f.why
}

// UnknownLines returns the lines that repeat neither a known one nor each other, see event.Repeats.
func UnknownLines(lines, known []string) []string {
	var out []string
	for _, l := range lines {
		isKnown := func(other string) bool { return event.Repeats(l, other) }
		repeated := func(other string) bool { return event.Repeats(l, other) || event.Repeats(other, l) }
		if !slices.ContainsFunc(known, isKnown) && !slices.ContainsFunc(out, repeated) {
			out = append(out, l)
		}
	}
	return out
}

// Log returns the last lines of the container that failed.
func (f Failure) Log() []string {
	if f.facts == nil {
		return nil
	}
	return f.facts.Log
}

// UnknownDetails returns the lines of the diagnosis that do not repeat known ones.
func (f Failure) UnknownDetails(known []string) []string {
	return UnknownDetails(f.Details, f.facts, known)
}

// UnknownDetails returns the lines of a diagnosis that do not repeat known ones. It keeps or drops the log of a container as a
// whole. Old records have no facts.
func UnknownDetails(lines []string, facts *event.Details, known []string) []string {
	repeated := func(l string) bool { return len(UnknownLines([]string{l}, known)) == 0 }
	if facts == nil {
		return slices.DeleteFunc(slices.Clone(lines), repeated)
	}
	d := *facts
	d.Conditions = slices.DeleteFunc(slices.Clone(d.Conditions), repeated)
	d.Pods = slices.DeleteFunc(slices.Clone(d.Pods), func(p event.FailingPod) bool { return repeated(p.Why) })
	d.Events = slices.DeleteFunc(slices.Clone(d.Events), func(e event.ClusterEvent) bool { return repeated(e.Reason + ": " + e.Message) })
	d.Notes = slices.DeleteFunc(slices.Clone(d.Notes), repeated)
	if !slices.ContainsFunc(d.Log, func(l string) bool { return !repeated(l) }) {
		d.Log = nil
	}
	return phrase.Details(d)
}
