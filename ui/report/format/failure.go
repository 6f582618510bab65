package format

import (
	"regexp"
	"slices"
	"strings"
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
}

// FixedFailure is a failure that was fixed during the run (event.FixedFailure).
type FixedFailure struct {
	Failure
	How    string    `json:"how"`
	By     string    `json:"by,omitempty"`
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
	for _, f := range s.Fixed {
		fixed := FixedFailure{newFailure(s, f.Root), string(f.How), f.By, f.Failed, f.Ready, f.Again, phrase.Fix(f)}
		if f.Again { // the diagnosis is that of the last failure
			fixed.Details = []string{}
		}
		out = append(out, fixed)
	}
	return out
}

func newFailure(s *event.State, r event.Root) Failure {
	f := Failure{
		Phase: r.Group.Phase, Group: r.Group.ID, Cause: r.Cause,
		Evidence: append([]string{}, r.Evidence...), Details: []string{}, Text: phrase.Root(r),
		Place: GroupName(s, r.Group), State: r.Group,
	}
	if event.IsRollback(r.Group.Phase) {
		f.Place += ", rolling back"
	}
	if r.Object != nil {
		if s.Operation.IsStack() { // the object is the release, which Place names with its namespace
			f.Text = f.Place + ": " + phrase.Why(r)
		}
		f.Object = &r.Object.Object
		f.Details = append(f.Details, r.Object.Diagnosis...)
	}
	return f
}

// Sentence is Text with Place: "Job/migrate in shop/db:schema: container migrate exited with code 2". The place of a hook
// names the object.
func (f Failure) Sentence() string {
	why, object := f.Text, ""
	if f.Object != nil {
		object = f.Object.String()
		why = strings.TrimPrefix(f.Text, object+": ")
	}
	switch {
	case strings.HasPrefix(f.Text, f.Place+": "):
		return f.Text
	case object == "" || strings.HasSuffix(f.Place, ":"+object):
		return f.Place + ": " + why
	}
	return object + " in " + f.Place + ": " + why
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

// diagnosisFrame matches what surrounds the message in a line of a diagnosis: subject, time, count.
var diagnosisFrame = regexp.MustCompile(`^(condition |pod \S+: |\d\d:\d\d:\d\d \S+ )|( \(×\d+(?: in \d+ pods)?\))$`)

// UnknownDiagnosis returns the lines of a diagnosis that do not repeat known ones. It keeps or drops the log of a
// container as a whole.
func UnknownDiagnosis(diagnosis, known []string) []string {
	repeated := func(l string) bool {
		return len(UnknownLines([]string{diagnosisFrame.ReplaceAllString(l, "")}, known)) == 0
	}
	var out []string
	for n := 0; n < len(diagnosis); {
		next := n + 1
		for next < len(diagnosis) && strings.HasPrefix(diagnosis[next], "  ") { // a log
			next++
		}
		body := diagnosis[n:next]
		if len(body) > 1 {
			body = body[1:]
		}
		if slices.ContainsFunc(body, func(l string) bool { return !repeated(l) }) {
			out = append(out, diagnosis[n:next]...)
		}
		n = next
	}
	return out
}
