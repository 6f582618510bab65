package report

import (
	"bytes"
	"cmp"
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
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// Outcomes of a run besides the statuses of an operation.
const (
	// Killed means that the record has no end, because the run was killed.
	Killed = "cut-off"
	// Unwatched means that the record has no end, because the terminal stopped watching a run in the cluster.
	Unwatched = "unwatched"
	// StillRunning means that the record has no end because the run has not ended.
	StillRunning = string(event.Running)
)

// Run summarises a recorded run.
type Run struct {
	// Name is the name of the record, or the path of a file in another directory.
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	RunTarget
	RunResult
}

// RunTarget is the operation of a run, and the release that it changed.
type RunTarget struct {
	Operation string `json:"operation"`
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Context   string `json:"context,omitempty"`
	Chart     string `json:"chart,omitempty"`
	Source    string `json:"source,omitempty"` // see event.Operation
	Revision  int    `json:"revision,omitempty"`
	By        string `json:"startedBy,omitempty"`
	Job       string `json:"job,omitempty"` // of a run in the cluster, namespace/name
	Identity  string `json:"-"`             // see event.Operation
}

// RunResult is the outcome of a run.
type RunResult struct {
	// Outcome is succeeded, failed, aborted, running, cut-off or unwatched. State is paused or held while a running run waits for a person,
	// degraded while something will not become ready by waiting, and Why is the reason.
	Outcome string `json:"outcome"`
	State   string `json:"state,omitempty"`
	Why     string `json:"why,omitempty"`
	// Unchecked is the number of groups that were applied, not checked, and not ready at the end (R21).
	Unchecked int `json:"unchecked,omitempty"`
	// NoStatus is the number of objects that count as ready although their controllers have written no status (R22a).
	NoStatus int `json:"noStatus,omitempty"`
	// NotAwaited is the number of objects that the run did not wait for (R22b).
	NotAwaited int `json:"notAwaited,omitempty"`
	// Exit is the exit code; nil if the record has no end.
	Exit    *int    `json:"exit,omitempty"`
	Seconds float64 `json:"seconds"`
	Message string  `json:"message,omitempty"`
	// Object is the object that made the run fail, Cause the reason.
	Object *plan.Object `json:"object,omitempty"`
	Cause  string       `json:"cause,omitempty"`
}

// Ending returns the outcome as it is shown, see event.Ending.
func (r Run) Ending() event.Status {
	if r.State != "" {
		return event.Status(r.State)
	}
	return event.Ending(event.Status(r.Outcome), r.Unchecked+r.NoStatus+r.NotAwaited)
}

// newRun summarises a run by its first and last event. It cannot distinguish Killed from StillRunning, and
// returns Killed for both.
func newRun(name string, first, last event.Event) Run {
	r := Run{Name: name, Started: first.Time, RunResult: RunResult{Outcome: Killed, Seconds: max(last.Time.Sub(first.Time), 0).Seconds()}}
	if op := first.Operation; op != nil {
		r.RunTarget = RunTarget{op.Name, op.Release, op.Namespace, op.Context, op.Chart, op.Source, op.Revision, op.By, op.Job, op.Identity}
		if op.Job != "" {
			r.Outcome = Unwatched
		}
	}
	if last.Kind == event.KindOperation && last.Exit != nil {
		r.RunResult = RunResult{
			Outcome: string(last.Status), Unchecked: last.Unchecked, NoStatus: last.NoStatus, NotAwaited: last.NotAwaited, Exit: last.Exit, Seconds: r.Seconds,
			Message: last.Message, Object: last.Object, Cause: last.Cause,
		}
	}
	return r
}

// RunList is a list of recorded runs.
type RunList []Run

// RecordedRuns returns the runs whose records are in dir, newest first. It reads only the
// start and the end of each file and ignores files without a first event.
func RecordedRuns(dir string) RunList {
	runs := RunList{}
	for _, name := range Runs(dir) {
		if r, err := readSummary(filepath.Join(dir, name+runSuffix)); err == nil {
			r.Name = name
			runs = append(runs, r)
		}
	}
	return runs
}

// The end of a record is searched for the last event: tailSize bytes, and more up to maxTail if they are not enough.
const (
	tailSize = 4 << 10
	maxTail  = 256 << 10
)

// readSummary reads the first and the last event of a record.
func readSummary(path string) (Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return Run{}, err
	}
	defer f.Close()
	var first event.Event
	if err := json.NewDecoder(f).Decode(&first); err != nil {
		return Run{}, fmt.Errorf("%s contains no events: %w", path, err)
	}
	last := first
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return Run{}, err
	}
	for size := int64(tailSize); size <= maxTail; size *= 8 {
		tail := make([]byte, min(end, size))
		if _, err := f.ReadAt(tail, end-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
			return Run{}, err
		}
		if e, ok := lastEvent(tail); ok {
			last = e
			break
		}
	}
	r := newRun("", first, last)
	r.markFollowed(path)
	return r, nil
}

// lastEvent returns the last event in the end of a record.
func lastEvent(tail []byte) (e event.Event, ok bool) {
	for _, l := range slices.Backward(bytes.Split(tail, []byte("\n"))) {
		e = event.Event{}
		if len(l) > 0 && json.Unmarshal(l, &e) == nil {
			return e, true
		}
	}
	return event.Event{}, false
}

// FindRun returns the path of a record. name is a path, the name of a record in dir, or a unique prefix
// of one.
func FindRun(dir, name string) (string, error) {
	if _, err := os.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	if filepath.Base(name) != name {
		return "", fmt.Errorf("record %s not found", name)
	}
	name = RunName(name)
	found := slices.DeleteFunc(Runs(dir), func(n string) bool { return !strings.HasPrefix(n, name) })
	switch {
	case len(found) == 0:
		return "", &unknownRun{name}
	case len(found) == 1:
		name = found[0]
	case !slices.Contains(found, name):
		return "", fmt.Errorf("%s matches several records: %s; use a longer prefix", name, format.Abbreviate(found))
	}
	return filepath.Join(dir, name+runSuffix), nil
}

// unknownRun is the error about a name that no record has.
type unknownRun struct{ name string }

func (u *unknownRun) Error() string {
	return fmt.Sprintf("no run named %s on this machine; list the runs with: "+text.Program+" runs", u.name)
}

func (u *unknownRun) Is(err error) bool { return err == fs.ErrNotExist }

// RunName returns the name of the record in a file.
func RunName(path string) string { return strings.TrimSuffix(filepath.Base(path), runSuffix) }

// RemoveRun removes a record from dir.
func RemoveRun(dir, name string) error {
	_ = os.Remove(filepath.Join(dir, name+followedSuffix)) // of a terminal that was killed
	return os.Remove(filepath.Join(dir, name+runSuffix))
}

// Record is the whole record of a run.
type Record struct {
	Run
	Events    []event.Event
	State     *event.State // after all events
	manifests []revisionManifests
	// Damage is the error that ended reading early, or nil.
	Damage error
	// Recover is the command that shows what a killed run left in the cluster, or "".
	Recover string
}

// Incomplete returns why the record does not cover the whole run, or "".
func (r *Record) Incomplete() string {
	switch {
	case r.Damage != nil:
		return "the record is incomplete: " + r.Damage.Error()
	case r.State.Operation.IsWatch():
		return ""
	case r.lacksEvents():
		return "the record is incomplete: its last events could not be written before the end of the run"
	case r.Outcome == StillRunning:
		return "the record is incomplete: the run is still running"
	case r.Outcome == Unwatched:
		return "the record is incomplete: the terminal stopped watching; " + r.inCluster()
	case r.Outcome == Killed:
		return "the record is incomplete: the run was killed" + format.WithPrefix("; see what it left: ", r.Recover)
	}
	return ""
}

// lacksEvents reports whether events are missing before the last one, see RunLog.
func (r *Record) lacksEvents() bool {
	if len(r.Events) == 0 {
		return false
	}
	var before uint64
	for _, e := range r.Events[:len(r.Events)-1] {
		before = max(before, e.Seq)
	}
	last := r.Events[len(r.Events)-1]
	return last.Kind == event.KindOperation && last.Exit != nil && before > 0 && last.Seq > before+1
}

// ReadRecord reads the record that FindRun finds, as far as possible.
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
	name = path
	if filepath.Dir(path) == dir {
		name = RunName(path)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, not a recorded run", path)
	}
	events, damage := event.Read(f)
	r, err := NewRecord(name, events)
	line := &event.LineError{Line: 1}
	switch {
	case err != nil && errors.As(damage, &line), err == nil && r.Events[0].Kind == "": // JSON, but not an event
		return nil, fmt.Errorf("%s is not a recorded run (line %d is not a lockstep event)", path, line.Line)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, cmp.Or(damage, err))
	}
	r.Damage = damage
	r.markFollowed(path)
	return r, nil
}

// NewRecord returns the record of a run with the given events. It fails if there are none.
func NewRecord(name string, events []event.Event) (*Record, error) {
	r := &Record{State: &event.State{}}
	if r.Events, r.manifests = splitManifests(events); len(r.Events) == 0 {
		return nil, errors.New("no events")
	}
	for _, e := range r.Events {
		r.State.Apply(e)
	}
	r.Run = newRun(name, r.Events[0], r.Events[len(r.Events)-1])
	return r, nil
}

func (runs RunList) text(to Stream) string {
	if len(runs) == 0 {
		return "no recorded runs yet\n"
	}
	var reasons []string
	head, optional := []string{"RUN", "WHEN", "OPERATION", "RELEASE", "NAMESPACE", "OUTCOME", "DURATION"}, []int{3, 1} // the name contains the release and the time
	const cluster = 5
	known := slices.ContainsFunc(runs, func(r Run) bool { return r.Context != "" })
	if known {
		head, optional = slices.Insert(head, cluster, "CLUSTER"), []int{cluster, 3, 1}
	}
	rows := [][]string{head}
	for _, r := range runs {
		row := append(cleaned(r.Name, r.startTime(), r.Operation, r.Release, r.Namespace), to.Style.mark(r.Ending()), r.took())
		if known {
			row = slices.Insert(row, cluster, clean(r.Context))
		}
		rows = append(rows, row)
		if r.Why != "" {
			reasons = append(reasons, clean(r.Name+" is "+r.State+": "+r.Why))
		}
		if r.Outcome == Unwatched {
			reasons = append(reasons, clean(r.Name+": "+r.inCluster()))
		}
	}
	return unindent(tableIn(rows, to.Width, optional...)) + joinLines(reasons)
}

// inCluster says how to see the whole of a run in the cluster.
func (r *Run) inCluster() string {
	namespace, name, _ := strings.Cut(r.Job, "/")
	return "see the whole run with: " + text.Program + " runs show " + name + " -n " + namespace
}

// startTime returns the start of the run in local time.
func (r *Run) startTime() string { return r.Started.Local().Format(time.DateTime) }

func (r *Run) took() string { return format.Seconds(r.Seconds) }

// ClusterRun is a run in the cluster.
type ClusterRun struct {
	Release   string    `json:"release"`
	Namespace string    `json:"namespace"`
	Operation string    `json:"operation"`
	StartedBy string    `json:"startedBy,omitempty"`
	Started   time.Time `json:"started"`
	State     string    `json:"state"`         // waiting, suspended, running, paused, held, succeeded or failed
	Why       string    `json:"why,omitempty"` // it is paused or held
	Job       string    `json:"job"`
}

// ClusterRuns are the runs in a namespace of the cluster, or in all if Namespace is empty.
type ClusterRuns struct {
	Runs      []ClusterRun
	Namespace string
}

func (l ClusterRuns) jsonForm() any { return l.Runs }

func (l ClusterRuns) text(to Stream) string {
	switch {
	case len(l.Runs) > 0:
	case l.Namespace == "":
		return "no runs in the cluster\n"
	default:
		return clean("no runs in namespace "+l.Namespace+"; list all with: "+text.Program+" runs -A") + "\n"
	}
	rows := [][]string{{"RELEASE", "NAMESPACE", "OPERATION", "STATE", "STARTED", "STARTED BY", "JOB"}}
	var reasons []string
	for _, r := range l.Runs {
		rows = append(rows, cleaned(r.Release, r.Namespace, r.Operation, r.State, r.Started.Local().Format(time.DateTime), r.StartedBy, r.Job))
		if r.Why != "" {
			reasons = append(reasons, clean(r.Job+" is "+r.State+": "+r.Why))
		}
	}
	return unindent(tableIn(rows, to.Width, 0, 6)) + joinLines(reasons)
}
