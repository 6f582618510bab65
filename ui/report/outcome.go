package report

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/plan"
)

// OutcomesDoc documents the files of --report, as Markdown.
//
//go:embed outcomes.md
var OutcomesDoc string

// outcomeVersion is that of the fields of Outcome. Fields are only ever added, so
// that it changes only if one has to go.
const outcomeVersion = 1

// Outcome is what has become of an operation: what the files of --report tell.
// As JSON it is one of them; outcomes.md documents its fields.
type Outcome struct {
	Version   int             `json:"version"`
	Operation event.Operation `json:"operation"`
	Status    event.Status    `json:"status"`
	Exit      int             `json:"exit"`
	Release   string          `json:"release,omitempty"`
	Message   string          `json:"message,omitempty"`
	Outcome   string          `json:"outcome,omitempty"`
	Unchecked int             `json:"unchecked,omitempty"`
	Started   time.Time       `json:"started,omitzero"`
	Ended     time.Time       `json:"ended,omitzero"`
	Seconds   float64         `json:"seconds"`
	Paused    float64         `json:"pausedSeconds"`
	// Object, Cause and Evidence are those of the first of Failures, or where
	// there are none, of what kept it from being done.
	Object       *plan.Object   `json:"object,omitempty"`
	Cause        string         `json:"cause,omitempty"`
	Evidence     []string       `json:"evidence,omitempty"`
	Failures     []Failure      `json:"failures"`
	Groups       []GroupOutcome `json:"groups"`
	CriticalPath []string       `json:"criticalPath"`
	Warnings     []Warning      `json:"warnings"`
	Next         []string       `json:"next"`
}

// Failure is one that follows from no other.
type Failure struct {
	Phase    string       `json:"phase,omitempty"`
	Group    string       `json:"group,omitempty"`
	Object   *plan.Object `json:"object,omitempty"`
	Cause    string       `json:"cause"`
	Evidence []string     `json:"evidence"`
	// Details are all that was found out.
	Details []string `json:"details"`
	// Text is the one sentence that tells of it.
	Text string `json:"text"`

	place string // see rootPlace
}

// GroupOutcome is what has become of a group.
type GroupOutcome struct {
	Phase   string          `json:"phase"`
	ID      string          `json:"id"`
	Status  event.Status    `json:"status"`
	Message string          `json:"message,omitempty"`
	Started time.Time       `json:"started,omitzero"`
	Seconds float64         `json:"seconds"`
	Objects []ObjectOutcome `json:"objects"`

	state *event.GroupState
	name  string // see unitName; says of a rollback's group that it is one
}

// ObjectOutcome is what has become of an object.
type ObjectOutcome struct {
	Object   plan.Object  `json:"object"`
	Status   event.Status `json:"status"`
	Message  string       `json:"message,omitempty"`
	Change   event.Change `json:"change,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Evidence []string     `json:"evidence,omitempty"`
	// Seconds is from its apply until it was as it is.
	Seconds float64 `json:"seconds"`
}

// Warning is one that the operation has told.
type Warning struct {
	Rule    string       `json:"rule,omitempty"`
	Object  *plan.Object `json:"object,omitempty"`
	Message string       `json:"message"`
}

// NewOutcome returns what the picture of an operation says has become of it.
// Next are the commands that its reader may want to type.
func NewOutcome(s *event.State, next []string) *Outcome {
	end := s.Ended
	if end.IsZero() {
		end = s.Now
	}
	total, active := end.Sub(s.Started), s.Active(end)
	o := &Outcome{
		Version: outcomeVersion, Operation: s.Operation, Status: s.Status, Exit: s.Exit, Release: s.Release, Message: s.Message, Outcome: s.Outcome, Unchecked: s.Unchecked,
		Started: s.Started, Ended: end, Seconds: total.Seconds(), Paused: max(total-active, 0).Seconds(),
		Failures: []Failure{}, Groups: []GroupOutcome{}, CriticalPath: []string{}, Warnings: []Warning{}, Next: append([]string{}, next...),
	}
	for _, r := range s.Roots() {
		o.Failures = append(o.Failures, failure(s, r))
	}
	if len(o.Failures) > 0 {
		first := o.Failures[0]
		o.Object, o.Cause, o.Evidence = first.Object, first.Cause, first.Evidence
	} else if s.Status != event.Succeeded { // nothing of the plan has failed
		o.Object, o.Cause, o.Evidence = s.Root, s.Cause, s.Evidence
	}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			o.Groups = append(o.Groups, groupOutcome(s, g))
		}
	}
	for _, p := range forecast.Path(s) {
		o.CriticalPath = append(o.CriticalPath, p.Group.ID)
	}
	for _, w := range s.Warnings {
		o.Warnings = append(o.Warnings, Warning{w.Rule, w.Object, w.Message})
	}
	return o
}

// NotStarted returns the outcome of an operation that has ended before it began:
// since of err, or where that is nil, since there was nothing to do. because are
// the reasons that err has found in the plan, if any.
func NotStarted(op event.Operation, at time.Time, exit int, err error, because []plan.Warning) *Outcome {
	s := &event.State{Operation: op, Status: event.Failed, Exit: exit, Started: at, Ended: at}
	explain(s, err, because)
	switch {
	case err == nil:
		s.Status, s.Message = event.Succeeded, "nothing to do"
	case exit == exitAborted:
		s.Status = event.Aborted
	}
	if err != nil {
		s.Message = err.Error()
	}
	return NewOutcome(s, nil)
}

// explain notes why an operation was not begun, unless somebody has ended it.
func explain(s *event.State, err error, because []plan.Warning) {
	switch {
	case err == nil || s.Exit == exitAborted:
		return
	case len(because) == 0:
		s.Cause = oneLine(err.Error())
		return
	}
	first := because[0]
	s.Root, s.Cause = first.Object, oneLine(first.Message)
	for _, name := range []string{first.Chart, name(first.Object)} {
		s.Cause = strings.TrimPrefix(s.Cause, name+": ")
	}
	if more := len(because) - 1; more > 0 {
		s.Cause += fmt.Sprintf("; and %d more", more)
		for _, w := range because[:min(len(because), event.MostEvidence)] {
			s.Evidence = append(s.Evidence, oneLine(withRule(w)))
		}
	}
}

func name(o *plan.Object) string {
	if o == nil {
		return ""
	}
	return o.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// NotStartedEvent tells of an operation that has ended before it began, and why: the
// only event of it.
func NotStartedEvent(o *Outcome) event.Event {
	return event.Event{Seq: 1, Time: o.Ended, Kind: event.KindOperation, Status: o.Status, Operation: &o.Operation, Message: oneLine(o.Message), Exit: &o.Exit,
		Outcome: "nothing was written", Object: o.Object, Cause: o.Cause, Evidence: o.Evidence}
}

// exitAborted is the exit code of what a person or a signal has ended.
const exitAborted = 3

func failure(s *event.State, r event.Root) Failure {
	f := Failure{Phase: r.Group.Phase, Group: r.Group.ID, Cause: r.Cause, Evidence: append([]string{}, r.Evidence...), Details: []string{}, Text: r.String(), place: rootPlace(s, r)}
	if r.Object != nil {
		f.Object = &r.Object.Object
		f.Details = append(f.Details, r.Object.Diagnosis...)
	}
	return f
}

func groupOutcome(s *event.State, g *event.GroupState) GroupOutcome {
	out := GroupOutcome{
		Phase: g.Phase, ID: g.ID, Status: g.Status, Message: g.Message, Started: g.Started,
		Objects: []ObjectOutcome{}, state: g, name: unitName(s, g),
	}
	if strings.HasPrefix(g.Phase, event.RollbackPrefix) {
		out.name += " (rollback)"
	}
	if !g.Started.IsZero() {
		end := g.Ended
		if end.IsZero() {
			end = s.Now
		}
		out.Seconds = end.Sub(g.Started).Seconds()
	}
	for _, o := range g.Objects {
		out.Objects = append(out.Objects, objectOutcome(s, g, o))
	}
	return out
}

func objectOutcome(s *event.State, g *event.GroupState, o *event.ObjectState) ObjectOutcome {
	out := ObjectOutcome{Object: o.Object, Status: o.Status, Message: o.Message, Change: o.Change, Cause: o.Cause, Evidence: o.Evidence}
	if o.Applied.IsZero() {
		return out
	}
	until := o.Since
	if !o.Done() && o.Status != event.Failed {
		if until = g.Ended; until.IsZero() {
			until = s.Now
		}
	}
	out.Seconds = max(until.Sub(o.Applied), 0).Seconds()
	return out
}

// JSON is the outcome as JSON, safe to show.
func (o *Outcome) JSON() []byte {
	var b bytes.Buffer
	_ = encode(escaped(&b), o) // a buffer takes all, and there is nothing in it that is no JSON
	return b.Bytes()
}

// what names the operation: "install shop".
func (o *Outcome) what() string { return o.Operation.Name + " " + o.Operation.Release }

// went is a word for how the operation has ended.
func (o *Outcome) went() string {
	if o.ending() == event.Succeeded {
		return "done"
	}
	return string(o.ending())
}

func (o *Outcome) ending() event.Status { return event.Ending(o.Status, o.Unchecked) }

// formats are the formats of --report.
var formats = map[string]func(*Outcome) []byte{"junit": (*Outcome).JUnit, "json": (*Outcome).JSON, "markdown": (*Outcome).Markdown}

// files are written when an operation is over, and tell what has become of it.
type files []reportFile

type reportFile struct {
	format, name string
	// plain tells that the file is no regular one, a pipe for instance, and is
	// written to as it is.
	plain bool
}

// newFiles returns the files that are asked for, each as FORMAT=FILE. It makes
// sure that they can be written as far as that can be known before.
func newFiles(asked []string) (files, error) {
	var all files
	for _, a := range asked {
		format, name, ok := strings.Cut(a, "=")
		if !ok || name == "" || formats[format] == nil {
			return nil, fmt.Errorf("--report %s: use junit=FILE, json=FILE or markdown=FILE", a)
		}
		file := reportFile{format: format, name: name}
		if err := file.probe(); err != nil {
			return nil, fmt.Errorf("--report %s: the file cannot be written: %w", a, err)
		}
		if slices.ContainsFunc(all, func(other reportFile) bool { return other.name == file.name && !file.plain }) {
			return nil, fmt.Errorf("--report %s: another report is to go to that file", a)
		}
		all = append(all, file)
	}
	return all, nil
}

// write writes the files, each at once: who reads one meanwhile sees what was
// there before.
func (f files) write(o *Outcome) error {
	var all error
	for _, file := range f {
		if err := file.write(formats[file.format](o)); err != nil {
			all = errors.Join(all, fmt.Errorf("the %s report could not be written: %w", file.format, err))
		}
	}
	return all
}

// probe looks whether the file can be written, and leaves nothing behind.
func (r *reportFile) probe() error {
	if target, err := filepath.EvalSymlinks(r.name); err == nil {
		r.name = target // the link stays
	}
	info, err := os.Stat(r.name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory", r.name)
	case err == nil && !info.Mode().IsRegular():
		r.plain = true
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	beside, err := r.beside()
	if err != nil {
		return err
	}
	return errors.Join(beside.Close(), os.Remove(beside.Name()))
}

// beside makes a file beside the report's, with the rights that the user's umask
// gives: what reads reports is often somebody else.
func (r *reportFile) beside() (*os.File, error) {
	dir, base := filepath.Split(r.name)
	for n := 0; ; n++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".%s.%d-%d", base, os.Getpid(), n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func (r *reportFile) write(text []byte) error {
	if r.plain {
		f, err := os.OpenFile(r.name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}
	f, err := r.beside()
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), r.name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is no use to anybody
	}
	return err
}
