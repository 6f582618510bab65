package reportfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// version is Outcome.Version. It changes if a field of the JSON is removed, not if one is added.
const version = 1

// Outcome is the outcome of an operation. reports.md documents its JSON fields. The lists are never null.
type Outcome struct {
	Version int `json:"version"`
	Result
	Times
	// Object, Cause and Evidence are those of the first failure. Without failures, they say why the
	// operation did not succeed.
	Object   *plan.Object `json:"object,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Evidence []string     `json:"evidence,omitempty"`

	Failures     []format.Failure      `json:"failures"`
	Fixed        []format.FixedFailure `json:"mended"`
	Groups       []GroupOutcome        `json:"groups"`
	CriticalPath []string              `json:"criticalPath"` // ids of groups
	Warnings     []Warning             `json:"warnings"`
	Next         []string              `json:"next"` // commands
}

// Result is how an operation ended, see event.State.
type Result struct {
	Operation  event.Operation `json:"operation"`
	Status     event.Status    `json:"status"`
	Exit       int             `json:"exit"`
	Release    string          `json:"release,omitempty"`
	Message    string          `json:"message,omitempty"`
	Outcome    string          `json:"outcome,omitempty"`
	Unchecked  int             `json:"unchecked,omitempty"`
	NoStatus   int             `json:"noStatus,omitempty"`
	NotAwaited int             `json:"notAwaited,omitempty"`
	Changed    []string        `json:"changed,omitempty"`   // see phrase.Changed
	Approvals  []string        `json:"approvals,omitempty"` // see phrase.Approvals
}

// Times are the times of an operation. Seconds includes Paused, the seconds that it was paused or held.
type Times struct {
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Seconds float64   `json:"seconds"`
	Paused  float64   `json:"pausedSeconds"`
}

// GroupOutcome is how a group ended.
type GroupOutcome struct {
	Phase   string          `json:"phase"`
	ID      string          `json:"id"`
	Status  event.Status    `json:"status"`
	Message string          `json:"message,omitempty"`
	Started time.Time       `json:"started,omitzero"`
	Seconds float64         `json:"seconds"`
	Objects []ObjectOutcome `json:"objects"`

	state *event.GroupState
	name  string // of format.GroupTitle
}

// ObjectOutcome is how an object ended.
type ObjectOutcome struct {
	Object   plan.Object  `json:"object"`
	Status   event.Status `json:"status"`
	Message  string       `json:"message,omitempty"`
	Change   event.Change `json:"change,omitempty"`
	ReadyBy  event.Judge  `json:"readyBy,omitempty"`
	Note     string       `json:"note,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Evidence []string     `json:"evidence,omitempty"`
	// Seconds is the time from when the object was applied until its last status.
	Seconds float64 `json:"seconds"`
}

// Warning is a warning of the operation.
type Warning struct {
	Rule    string       `json:"rule,omitempty"`
	Object  *plan.Object `json:"object,omitempty"`
	Message string       `json:"message"`
}

func (w Warning) text() string { return format.Warning(w.Rule, w.Object, w.Message) }

// NewOutcome returns the outcome of an operation whose state is s. next are commands that the reader may want to run
// next.
func NewOutcome(s *event.State, next []string) *Outcome {
	end := cmp.Or(s.Ended, s.Now)
	total := end.Sub(s.Started)
	o := &Outcome{
		Version:  version,
		Result:   Result{s.Operation, s.Status, s.Exit, s.Release, s.Message, s.Outcome, s.Unchecked, s.NoStatus, s.NotAwaited, phrase.Changed(s), phrase.Approvals(s)},
		Times:    Times{s.Started, end, total.Seconds(), max(total-s.Active(end), 0).Seconds()},
		Failures: format.Failures(s), Fixed: format.FixedFailures(s),
		Groups: []GroupOutcome{}, CriticalPath: []string{}, Warnings: []Warning{}, Next: append([]string{}, next...),
	}
	first := s.FirstRoot()
	if o.Cause, o.Evidence = first.Cause, first.Evidence; first.Object != nil {
		o.Object = &first.Object.Object
	}
	for g := range s.GroupStates() {
		o.Groups = append(o.Groups, newGroupOutcome(s, g))
	}
	for _, p := range forecast.Path(s) {
		o.CriticalPath = append(o.CriticalPath, p.Group.ID)
	}
	for _, w := range s.Warnings {
		o.Warnings = append(o.Warnings, Warning{w.Rule, w.Object, w.Message})
	}
	for release, d := range s.Drifted() {
		o.Warnings = append(o.Warnings, Warning{"R21", &d.Object, text.Join(": ", release, phrase.Drift(d.Drift))})
	}
	return o
}

// NotStarted returns the outcome of an operation that did not start because of err, or because there was nothing to do
// if err is nil. reasons are the problems that err lists, if any.
func NotStarted(op event.Operation, at time.Time, exit int, err error, reasons []plan.Warning) *Outcome {
	s := &event.State{Operation: op, Status: event.Failed, Exit: exit, Started: at, Ended: at}
	switch {
	case err == nil:
		s.Status, s.Message = event.Succeeded, "nothing to do"
	case exit == event.ExitAborted:
		s.Status, s.Message = event.Aborted, err.Error()
	default:
		s.Message, s.Cause = err.Error(), text.CollapseSpace(err.Error())
		setCause(s, reasons)
	}
	return NewOutcome(s, nil)
}

// setCause makes the first of the reasons the cause. If there are several, they are also the evidence, up to
// event.MaxEvidence.
func setCause(s *event.State, reasons []plan.Warning) {
	if len(reasons) == 0 {
		return
	}
	first := reasons[0]
	s.FailedObject, s.Cause = first.Object, strings.TrimPrefix(text.CollapseSpace(first.Message), first.Chart+": ")
	if first.Object != nil {
		s.Cause = strings.TrimPrefix(s.Cause, first.Object.String()+": ")
	}
	if more := len(reasons) - 1; more > 0 {
		s.Cause += fmt.Sprintf("; and %d more", more)
		for _, w := range reasons[:min(len(reasons), event.MaxEvidence)] {
			s.Evidence = append(s.Evidence, text.CollapseSpace(format.Warning(w.Rule, nil, w.Message)))
		}
	}
}

// NotStartedEvent returns the only event of an operation that did not start. o is the result of NotStarted. If it exits as failed, an
// earlier process has begun the operation, and may have written.
func NotStartedEvent(o *Outcome) event.Event {
	e := event.Event{
		Seq: 1, Time: o.Ended, Kind: event.KindOperation, Operation: &o.Operation,
		Status: o.Status, Exit: &o.Exit, Message: text.CollapseSpace(o.Message), Object: o.Object, Cause: o.Cause, Evidence: o.Evidence,
	}
	if o.Exit != event.ExitFailed {
		e.Outcome, e.Code = phrase.NothingWritten, event.NothingWritten
	}
	return e
}

func newGroupOutcome(s *event.State, g *event.GroupState) GroupOutcome {
	out := GroupOutcome{
		Phase: g.Phase, ID: g.ID, Status: g.Status, Message: g.Message, Started: g.Started,
		Objects: []ObjectOutcome{}, state: g, name: format.GroupTitle(s, g),
	}
	if !g.Started.IsZero() {
		out.Seconds = cmp.Or(g.Ended, s.Now).Sub(g.Started).Seconds()
	}
	for _, o := range g.Objects {
		obj := ObjectOutcome{Object: o.Object, Status: o.Status, Message: o.Message, Change: o.Change, ReadyBy: o.ReadyBy, Note: o.Note, Cause: o.Cause, Evidence: o.Evidence}
		if !o.Sent.IsZero() {
			end := o.Since
			if !o.Done() && o.Status != event.Failed {
				end = cmp.Or(g.Ended, s.Now)
			}
			obj.Seconds = max(end.Sub(o.Sent), 0).Seconds()
		}
		out.Objects = append(out.Objects, obj)
	}
	return out
}

// json returns the outcome as JSON, with unsafe characters escaped.
func (o *Outcome) json() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(o) // cannot fail with these types
	return text.EscapeJSON(b.Bytes())
}

// verb says how the operation ended: done, applied, failed or aborted.
func (o *Outcome) verb() string {
	if o.ending() == event.Succeeded {
		return "done"
	}
	return string(o.ending())
}

// ending is Status, or event.Applied if groups were not ready at the end, see event.Ending.
func (o *Outcome) ending() event.Status {
	return event.Ending(o.Status, o.Unchecked+o.NoStatus+o.NotAwaited)
}

// cleanLines joins lines of text from charts and clusters, made safe to show.
func cleanLines(lines []string) string {
	clean := make([]string, len(lines))
	for i, l := range lines {
		clean[i] = text.Line(l)
	}
	return strings.Join(clean, "\n")
}
