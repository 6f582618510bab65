package report

import (
	"bytes"
	"cmp"
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
	"lockstep/engine/text"
)

// OutcomesDoc documents the files of --report, as Markdown.
//
//go:embed outcomes.md
var OutcomesDoc string

// outcomeVersion changes if a field of Outcome is removed, not if one is added.
const outcomeVersion = 1

// Outcome is the result of an operation, as --report writes it. outcomes.md documents its JSON fields.
type Outcome struct {
	Version int `json:"version"`
	Result
	Times
	// Object, Cause and Evidence are those of the first failure, or, if there is none, say why
	// the operation did not succeed.
	Object   *plan.Object `json:"object,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Evidence []string     `json:"evidence,omitempty"`

	Failures     []Failure      `json:"failures"`
	Fixed        []FixedFailure `json:"mended"`
	Groups       []GroupOutcome `json:"groups"`
	CriticalPath []string       `json:"criticalPath"`
	Warnings     []Warning      `json:"warnings"`
	Next         []string       `json:"next"`
}

// Result is the status, exit code and outcome of an operation.
type Result struct {
	Operation event.Operation `json:"operation"`
	Status    event.Status    `json:"status"`
	Exit      int             `json:"exit"`
	Release   string          `json:"release,omitempty"`
	Message   string          `json:"message,omitempty"`
	Outcome   string          `json:"outcome,omitempty"`
	Unchecked int             `json:"unchecked,omitempty"`
}

// Times are the start, end and duration of an operation; the duration includes pauses.
type Times struct {
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Seconds float64   `json:"seconds"`
	Paused  float64   `json:"pausedSeconds"`
}

// Failure is a root failure, see event.Root.
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

	place string // the group, and whether it failed in a rollback
	group *event.GroupState
}

// FixedFailure is a failure that was fixed, see event.FixedFailure.
type FixedFailure struct {
	Failure
	How    string    `json:"how"`
	By     string    `json:"by,omitempty"`
	Failed time.Time `json:"failed"`
	Ready  time.Time `json:"ready"`
}

// GroupOutcome is the result of a group.
type GroupOutcome struct {
	Phase   string          `json:"phase"`
	ID      string          `json:"id"`
	Status  event.Status    `json:"status"`
	Message string          `json:"message,omitempty"`
	Started time.Time       `json:"started,omitzero"`
	Seconds float64         `json:"seconds"`
	Objects []ObjectOutcome `json:"objects"`

	state *event.GroupState
	name  string // see unitTitle
}

// ObjectOutcome is the result of an object.
type ObjectOutcome struct {
	Object   plan.Object  `json:"object"`
	Status   event.Status `json:"status"`
	Message  string       `json:"message,omitempty"`
	Change   event.Change `json:"change,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Evidence []string     `json:"evidence,omitempty"`
	// Seconds is the time from its apply until its final status.
	Seconds float64 `json:"seconds"`
}

// Warning is a warning of the operation.
type Warning struct {
	Rule    string       `json:"rule,omitempty"`
	Object  *plan.Object `json:"object,omitempty"`
	Message string       `json:"message"`
}

// NewOutcome returns the outcome of an operation from its state. next are commands that
// the reader may want to run next.
func NewOutcome(s *event.State, next []string) *Outcome {
	end := cmp.Or(s.Ended, s.Now)
	total := end.Sub(s.Started)
	o := &Outcome{
		Version:  outcomeVersion,
		Result:   Result{s.Operation, s.Status, s.Exit, s.Release, s.Message, s.Outcome, s.Unchecked},
		Times:    Times{s.Started, end, total.Seconds(), max(total-s.Active(end), 0).Seconds()},
		Failures: append([]Failure{}, failures(s)...), Fixed: append([]FixedFailure{}, fixedFailures(s)...),
		Groups: []GroupOutcome{}, CriticalPath: []string{}, Warnings: []Warning{}, Next: append([]string{}, next...),
	}
	if len(o.Failures) > 0 {
		first := o.Failures[0]
		o.Object, o.Cause, o.Evidence = first.Object, first.Cause, first.Evidence
	} else if s.Status != event.Succeeded { // no group failed
		o.Object, o.Cause, o.Evidence = s.Root, s.Cause, s.Evidence
	}
	for g := range s.GroupStates() {
		o.Groups = append(o.Groups, groupOutcome(s, g))
	}
	for _, p := range forecast.Path(s) {
		o.CriticalPath = append(o.CriticalPath, p.Group.ID)
	}
	for _, w := range s.Warnings {
		o.Warnings = append(o.Warnings, Warning{w.Rule, w.Object, w.Message})
	}
	return o
}

// NotStarted returns the outcome of an operation that did not start because of err, or, if err is nil,
// because there was nothing to do. reasons are the findings in the plan that caused err, if any.
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

// setCause sets the cause to the first of the reasons, if any.
func setCause(s *event.State, reasons []plan.Warning) {
	if len(reasons) == 0 {
		return
	}
	first := reasons[0]
	s.Root, s.Cause = first.Object, strings.TrimPrefix(text.CollapseSpace(first.Message), first.Chart+": ")
	if first.Object != nil {
		s.Cause = strings.TrimPrefix(s.Cause, first.Object.String()+": ")
	}
	if more := len(reasons) - 1; more > 0 {
		s.Cause += fmt.Sprintf("; and %d more", more)
		for _, w := range reasons[:min(len(reasons), event.MaxEvidence)] {
			s.Evidence = append(s.Evidence, text.CollapseSpace(withRule(w)))
		}
	}
}

// NotStartedEvent returns the only event of an operation that did not start.
func NotStartedEvent(o *Outcome) event.Event {
	return event.Event{
		Seq: 1, Time: o.Ended, Kind: event.KindOperation, Operation: &o.Operation,
		Status: o.Status, Exit: &o.Exit, Message: text.CollapseSpace(o.Message), Outcome: event.NothingWritten,
		Object: o.Object, Cause: o.Cause, Evidence: o.Evidence,
	}
}

func fixedFailures(s *event.State) (out []FixedFailure) {
	for _, f := range s.Fixed {
		out = append(out, FixedFailure{failure(s, f.Root), string(f.How), f.By, f.Failed, f.Ready})
	}
	return out
}

func failures(s *event.State) (out []Failure) {
	for _, r := range s.Roots() {
		out = append(out, failure(s, r))
	}
	return out
}

func failure(s *event.State, r event.Root) Failure {
	f := Failure{
		Phase: r.Group.Phase, Group: r.Group.ID, Cause: r.Cause,
		Evidence: append([]string{}, r.Evidence...), Details: []string{}, Text: r.String(),
		place: unitName(s, r.Group), group: r.Group,
	}
	if event.IsRollback(r.Group.Phase) {
		f.place += ", rolling back"
	}
	if r.Object != nil {
		f.Object = &r.Object.Object
		f.Details = append(f.Details, r.Object.Diagnosis...)
	}
	return f
}

func groupOutcome(s *event.State, g *event.GroupState) GroupOutcome {
	out := GroupOutcome{
		Phase: g.Phase, ID: g.ID, Status: g.Status, Message: g.Message, Started: g.Started,
		Objects: []ObjectOutcome{}, state: g, name: unitTitle(s, g),
	}
	if !g.Started.IsZero() {
		out.Seconds = cmp.Or(g.Ended, s.Now).Sub(g.Started).Seconds()
	}
	for _, o := range g.Objects {
		until := o.Since
		if !o.Done() && o.Status != event.Failed {
			until = cmp.Or(g.Ended, s.Now)
		}
		obj := ObjectOutcome{Object: o.Object, Status: o.Status, Message: o.Message, Change: o.Change, Cause: o.Cause, Evidence: o.Evidence}
		if !o.Applied.IsZero() {
			obj.Seconds = max(until.Sub(o.Applied), 0).Seconds()
		}
		out.Objects = append(out.Objects, obj)
	}
	return out
}

// json returns the outcome as JSON with unsafe characters escaped.
func (o *Outcome) json() []byte {
	var b bytes.Buffer
	_ = encode(escaped(&b), o) // neither the buffer nor the types can fail
	return b.Bytes()
}

// title names the operation: "install shop".
func (o *Outcome) title() string {
	return strings.TrimSpace(o.Operation.Name + " " + o.Operation.Release) // the release may have no name yet
}

// verb returns the word for how the operation ended: done, applied, failed, aborted.
func (o *Outcome) verb() string {
	if o.ending() == event.Succeeded {
		return "done"
	}
	return string(o.ending())
}

func (o *Outcome) ending() event.Status { return event.Ending(o.Status, o.Unchecked) }

// formats are the formats of --report.
var formats = map[string]func(*Outcome) []byte{"junit": (*Outcome).junit, "json": (*Outcome).json, "markdown": (*Outcome).markdown}

// reportFile is a file that is written when the operation is over.
type reportFile struct {
	format, name string
	// special means that the file is not a regular one, such as a pipe, so it is not replaced.
	special bool
}

// newFiles parses FORMAT=FILE arguments and checks that the files can be written.
func newFiles(args []string) (all []reportFile, err error) {
	for _, a := range args {
		format, name, ok := strings.Cut(a, "=")
		if !ok || name == "" || formats[format] == nil {
			return nil, fmt.Errorf("--report %s: use junit=FILE, json=FILE or markdown=FILE", a)
		}
		file := reportFile{format: format, name: name}
		if err := file.probe(); err != nil {
			if path, ok := errors.AsType[*fs.PathError](err); ok { // names a temporary file
				err = path.Err
			}
			return nil, fmt.Errorf("--report %s: cannot write the file: %w", a, err)
		}
		if slices.ContainsFunc(all, func(other reportFile) bool { return other.name == file.name && !file.special }) {
			return nil, fmt.Errorf("--report %s: another --report already writes that file", a)
		}
		all = append(all, file)
	}
	return all, nil
}

// probe checks that the file can be written. It leaves no file behind.
func (r *reportFile) probe() error {
	if target, err := filepath.EvalSymlinks(r.name); err == nil {
		r.name = target // keep the link
	}
	info, err := os.Stat(r.name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory", r.name)
	case err == nil && !info.Mode().IsRegular():
		r.special = true
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp, err := r.tempFile()
	if err != nil {
		return err
	}
	return errors.Join(temp.Close(), os.Remove(temp.Name()))
}

// tempFile creates a file in the same directory. Unlike os.CreateTemp, it uses the permissions
// of the user's umask, because other users often read reports.
func (r *reportFile) tempFile() (*os.File, error) {
	dir, base := filepath.Split(r.name)
	for n := 0; ; n++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".%s.%d-%d", base, os.Getpid(), n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// write replaces the file atomically, unless it is special.
func (r *reportFile) write(text []byte) error {
	open := r.tempFile
	if r.special {
		open = func() (*os.File, error) { return os.OpenFile(r.name, os.O_WRONLY, 0) }
	}
	f, err := open()
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if r.special {
		return err
	}
	if err == nil {
		err = os.Rename(f.Name(), r.name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
