package report

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

const (
	maxRuns   = 50
	runSuffix = ".ndjson"
)

// RunLog writes the record of a run to a file, which ReadRecord reads. It never disturbs
// the operation: if the file cannot be written, it warns once and stops.
type RunLog struct {
	dir       string
	warn      func(string)
	file      *os.File
	name      string
	closed    bool
	manifests func(edits int) iter.Seq2[plan.Object, string] // see KeepManifests; nil for none
	revisions int                                            // that have started
	room      int                                            // for manifests, in bytes
}

// NewRunLog returns a RunLog that creates its file in dir with the first event. warn is
// called at most once. Close it.
func NewRunLog(dir string, warn func(string)) *RunLog {
	return &RunLog{dir: dir, warn: warn, room: maxManifests}
}

// RunDir is the directory of the records: lockstep/runs below $XDG_STATE_HOME or
// ~/.local/state.
func RunDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "lockstep", "runs"), nil
}

// Name is the name of the record, without the suffix; "" if there is none.
func (r *RunLog) Name() string { return r.name }

// Consume writes an event.
func (r *RunLog) Consume(e event.Event) {
	if r.closed {
		return
	}
	if r.file == nil {
		if err := r.create(e); err != nil {
			r.stop(err)
			return
		}
	}
	err := writeEvent(r.file, e)
	if err == nil && e.Kind == event.KindOperation && e.Status == event.Running {
		err = r.keepManifests(e.Time)
	}
	if err != nil {
		r.stop(err)
	}
}

// Close ends the record.
func (r *RunLog) Close() {
	r.closed = true
	if r.file != nil {
		_ = r.file.Close() // write errors were reported
	}
}

func (r *RunLog) stop(err error) {
	r.Close()
	r.name = ""
	r.warn(fmt.Sprintf("this run is not recorded: %v", err))
}

var notFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// create creates the file, readable by the user only, and removes the oldest records.
func (r *RunLog) create(e event.Event) error {
	if err := MakePrivate(r.dir); err != nil {
		return err
	}
	name := e.Time.UTC().Format("20060102-150405")
	if e.Operation != nil {
		name += "-" + notFileName.ReplaceAllString(e.Operation.Release, "_")
	}
	base := name
	for n := 2; ; n++ {
		f, err := os.OpenFile(filepath.Join(r.dir, name+runSuffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			r.file, r.name = f, name
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	prune(r.dir, maxRuns)
	return nil
}

// MakePrivate creates a directory that only the user may access. It also corrects the
// mode of an existing one.
func MakePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// prune removes the oldest records: their names start with the time.
func prune(dir string, keep int) {
	names := Runs(dir)
	for _, old := range names[min(keep, len(names)):] {
		_ = os.Remove(filepath.Join(dir, old+runSuffix))
	}
}

// Runs returns the names of the records in dir, newest first.
func Runs(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), runSuffix); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names
}

// Manifests in a record let a replay show the objects that were applied. They are events
// of a kind of their own: behind the first event, and behind each one that starts an
// edited revision, one event per object. -o json does not have them. They are bounded
// because many records are kept.
const (
	maxManifest  = 64 << 10 // bytes of one object
	maxManifests = 2 << 20  // bytes of all objects
)

// KeepManifests makes the record include the manifests of objects: those of the first
// revision and, after that many edits (R46), of the edited one. It is called when the
// event that starts the revision was written. Call KeepManifests before the first event.
func (r *RunLog) KeepManifests(manifests func(edits int) iter.Seq2[plan.Object, string]) {
	r.manifests = manifests
}

// keepManifests writes the manifests of a revision that has started.
func (r *RunLog) keepManifests(now time.Time) error {
	r.revisions++
	if r.manifests == nil || r.room <= 0 {
		return nil
	}
	for o, text := range r.manifests(r.revisions - 1) {
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		if over := len(text) - maxManifest; over > 0 {
			lines = append(firstLines(lines, maxManifest), fmt.Sprintf("# truncated: %d more bytes", over))
		}
		e := event.Event{Time: now, Kind: event.KindManifest, Object: &o, Lines: lines}
		if err := writeEvent(r.file, e); err != nil {
			return err
		}
		if r.room -= min(len(text), maxManifest); r.room <= 0 {
			return nil
		}
	}
	return nil
}

// firstLines are the first whole lines that fit in room bytes.
func firstLines(lines []string, room int) []string {
	for n, l := range lines {
		if room -= len(l) + 1; room < 0 {
			return lines[:n:n]
		}
	}
	return lines
}

// manifests are those of one revision. They apply from event number from on.
type manifests struct {
	from int
	text map[plan.Object]string
}

// splitManifests separates the manifests from the events of a run.
func splitManifests(events []event.Event) (others []event.Event, found []manifests) {
	for _, e := range events {
		switch {
		case e.Kind != event.KindManifest:
			others = append(others, e)
		case e.Object != nil:
			if n := len(found); n == 0 || found[n-1].from != len(others) {
				found = append(found, manifests{len(others), map[plan.Object]string{}})
			}
			found[len(found)-1].text[*e.Object] = strings.Join(e.Lines, "\n")
		}
	}
	return others, found
}

// Manifest is the manifest of an object in the revision that ran after the first at
// events, "" if the record does not have it.
func (r *Record) Manifest(o plan.Object, at int) string {
	planned := o
	for _, e := range r.Events {
		if e.Planned != "" && e.Object != nil && *e.Object == o {
			planned.Name = e.Planned
		}
	}
	for n, m := range slices.Backward(r.manifests) {
		if n > 0 && m.from > at {
			continue // a later revision
		}
		for _, name := range []plan.Object{o, planned} {
			if text, ok := m.text[name]; ok {
				return text
			}
		}
	}
	return ""
}

// Diagnosis is all that was found out about an object in the first at events: the lines
// of its diagnoses, each once, the latest last.
func (r *Record) Diagnosis(o plan.Object, at int) []string {
	var lines []string
	for _, e := range r.Events[:at] {
		if e.Kind == event.KindDiagnosis && e.Object != nil && *e.Object == o {
			lines = append(slices.DeleteFunc(lines, func(l string) bool { return slices.Contains(e.Lines, l) }), unique(e.Lines)...)
		}
	}
	return lines
}

// unique drops empty lines and all but the last of equal ones.
func unique(lines []string) []string {
	var out []string
	for n, l := range lines {
		if l != "" && !slices.Contains(lines[n+1:], l) {
			out = append(out, l)
		}
	}
	return out
}
