package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Outcomes of a run besides the statuses of an operation.
const (
	// Killed is that of a run that was killed: its record has no end, and nobody
	// is at work on it.
	Killed = "cut-off"
	// StillRunning is that of a run that is under way.
	StillRunning = string(event.Running)
)

// Run is a recorded run in short.
type Run struct {
	// Name is the record's, or the path of its file where that is elsewhere.
	Name      string    `json:"name"`
	Started   time.Time `json:"started"`
	Operation string    `json:"operation"`
	Release   string    `json:"release"`
	Namespace string    `json:"namespace"`
	Context   string    `json:"context,omitempty"`
	Chart     string    `json:"chart,omitempty"`
	Revision  int       `json:"revision,omitempty"`
	// Outcome is succeeded, failed, aborted, running or cut-off.
	Outcome string `json:"outcome"`
	// Unchecked is how many groups were applied and not waited for (R21).
	Unchecked int `json:"unchecked,omitempty"`
	// Exit is the exit code; a run without an end has none.
	Exit    *int    `json:"exit,omitempty"`
	Seconds float64 `json:"seconds"`
	Message string  `json:"message,omitempty"`
	// Object is what made the run fail, and Cause why.
	Object *plan.Object `json:"object,omitempty"`
	Cause  string       `json:"cause,omitempty"`
}

// ending is the word by which the outcome is shown, see event.Ending.
func (r Run) ending() string { return string(event.Ending(event.Status(r.Outcome), r.Unchecked)) }

// runOf is a run in short by its first and last event.
func runOf(name string, first, last event.Event) Run {
	r := Run{Name: name, Started: first.Time, Outcome: Killed, Seconds: max(last.Time.Sub(first.Time), 0).Seconds()}
	if op := first.Operation; op != nil {
		r.Operation, r.Release, r.Namespace, r.Context, r.Chart, r.Revision = op.Name, op.Release, op.Namespace, op.Context, op.Chart, op.Revision
	}
	if last.Kind == event.KindOperation && last.Exit != nil {
		r.Unchecked = last.Unchecked
		r.Outcome, r.Exit, r.Message, r.Object, r.Cause = string(last.Status), last.Exit, last.Message, last.Object, last.Cause
	}
	return r
}

// RunList are recorded runs, in short.
type RunList []Run

// RecordedRuns are the runs whose records are in dir, the newest first. Only the
// ends of each file are read. One without a first event is left out: it says
// nothing of its run.
func RecordedRuns(dir string) RunList {
	runs := RunList{}
	for _, name := range Runs(dir) {
		if r, err := glance(filepath.Join(dir, name+runSuffix)); err == nil {
			r.Name = name
			runs = append(runs, r)
		}
	}
	return runs
}

// tailSize is how much of the end of a record is looked through for its last event.
const tailSize = 256 << 10

// glance reads the first and the last event of a record.
func glance(path string) (Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return Run{}, err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return Run{}, err
	}
	var first event.Event
	if err := json.Unmarshal(line, &first); err != nil {
		return Run{}, fmt.Errorf("%s: no event in it: %w", path, err)
	}
	last := first
	info, err := f.Stat()
	if err != nil {
		return Run{}, err
	}
	tail := make([]byte, min(info.Size(), tailSize))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return Run{}, err
	}
	lines := bytes.Split(tail, []byte("\n"))
	for _, l := range slices.Backward(lines) {
		var e event.Event
		if len(l) > 0 && json.Unmarshal(l, &e) == nil {
			last = e
			break
		}
	}
	return runOf("", first, last), nil
}

// FindRun is the file of a record: a file, or in dir the record of a name, or the
// only one whose name begins so.
func FindRun(dir, name string) (string, error) {
	if _, err := os.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return "", fmt.Errorf("there is no record %s", name)
	}
	name = strings.TrimSuffix(name, runSuffix)
	var found []string
	for _, n := range Runs(dir) {
		if n == name {
			found = []string{n}
			break
		}
		if strings.HasPrefix(n, name) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("there is no file %s, and no record of that name in %s; lockstep runs lists them", name, dir)
	case 1:
		return filepath.Join(dir, found[0]+runSuffix), nil
	}
	return "", fmt.Errorf("%s begins the names of several records: %s", name, someOf(found))
}

// RunName is the name of the record in a file.
func RunName(path string) string { return strings.TrimSuffix(filepath.Base(path), runSuffix) }

// RemoveRun removes the record of a name from dir.
func RemoveRun(dir, name string) error { return os.Remove(filepath.Join(dir, name+runSuffix)) }

// Record is all that is kept of a run.
type Record struct {
	Run
	Events    []event.Event
	State     *event.State // that the events draw
	manifests []manifests
	// Damage is why it is not read to the end of its file, nil where it is.
	Damage error
}

// Cut says why the record does not go to the end of its run, "" where it does.
func (r *Record) Incomplete() string {
	switch {
	case r.Damage != nil:
		return "the record is cut off: " + r.Damage.Error()
	case r.Outcome == Killed && !r.State.Operation.Watches():
		return "the record is cut off: the run was killed, or is still at work"
	}
	return ""
}

// ReadRecord reads the record that FindRun finds, as far as it can be read.
func ReadRecord(dir, name string) (*Record, error) {
	path, err := FindRun(dir, name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &Record{State: &event.State{}}
	r.Events, r.Damage = event.Read(f)
	r.Events, r.manifests = takeManifests(r.Events)
	if len(r.Events) == 0 {
		if r.Damage == nil {
			r.Damage = errors.New("no event in it")
		}
		return nil, fmt.Errorf("%s: %w", path, r.Damage)
	}
	for _, e := range r.Events {
		r.State.Apply(e)
	}
	if filepath.Dir(path) == dir {
		path = RunName(path)
	}
	r.Run = runOf(path, r.Events[0], r.Events[len(r.Events)-1])
	return r, nil
}

func (runs RunList) text(to Stream) string {
	if len(runs) == 0 {
		return "no run is recorded yet\n"
	}
	rows := [][]string{{"RUN", "WHEN", "OPERATION", "RELEASE", "NAMESPACE", "OUTCOME", "DURATION"}}
	for _, r := range runs {
		rows = append(rows, []string{clean(r.Name), r.when(), clean(r.Operation), clean(r.Release), clean(r.Namespace), to.Style.outcome(r.ending()), r.took()})
	}
	lines := tableIn(rows, to.Width, 3, 1) // when stands in the name as well
	for n, l := range lines {
		lines[n] = strings.TrimPrefix(l, "  ")
		if n > 0 {
			lines[n] = to.Style.coloured(lines[n], to.Style.outcome(runs[n-1].ending()), runs[n-1].ending())
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// when is the time at which a run began, where people read it.
func (r *Run) when() string { return r.Started.Local().Format(time.DateTime) }

func (r *Run) took() string { return Seconds(time.Duration(r.Seconds * float64(time.Second))) }

// outcome is that of a run as a sign and a word, without colour.
func (s Style) outcome(outcome string) string {
	m := s.Theme.Mark(outcome)
	return m.Glyph + " " + m.Word
}

// coloured gives the outcome in a line that is set in columns its colour.
func (s Style) coloured(line, word, outcome string) string {
	at := strings.Index(line, word)
	if at < 0 {
		return line
	}
	return line[:at] + s.render(s.Theme.Mark(outcome).Role, word) + line[at+len(word):]
}
