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
	keptRuns  = 50
	runSuffix = ".ndjson"
)

// RunLog keeps the record of a run in a file of its own, which Read can read.
// It never disturbs the operation: where the file cannot be written it warns
// once and gives up.
type RunLog struct {
	dir       string
	warn      func(string)
	file      *os.File
	name      string
	over      bool
	manifests func(edits int) iter.Seq2[plan.Object, string] // see Keep; nil for none
	revisions int                                            // that have begun
	room      int                                            // for manifests, in bytes
}

// NewRunLog returns a RunLog that makes its file in dir, with the first event.
// warn gets at most one message.
func NewRunLog(dir string, warn func(string)) *RunLog {
	return &RunLog{dir: dir, warn: warn, room: allManifests}
}

// RunDir is where the records of runs are kept: lockstep/runs below
// $XDG_STATE_HOME or ~/.local/state.
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

// Name is the record's name in its directory, without the suffix; empty where
// there is no record.
func (r *RunLog) Name() string { return r.name }

// Consume writes an event to the file.
func (r *RunLog) Consume(e event.Event) {
	if r.over {
		return
	}
	if r.file == nil {
		if err := r.create(e); err != nil {
			r.giveUp(err)
			return
		}
	}
	err := writeEvent(r.file, e)
	if err == nil && e.Kind == event.KindOperation && e.Status == event.Running {
		err = r.keepManifests(e.Time)
	}
	if err != nil {
		r.giveUp(err)
	}
}

// Close ends the record.
func (r *RunLog) Close() {
	r.over = true
	if r.file != nil {
		_ = r.file.Close() // every event was written, or it was told that one was not
	}
}

func (r *RunLog) giveUp(err error) {
	r.Close()
	r.name = ""
	r.warn(fmt.Sprintf("no record of this run is kept: %v", err))
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// create makes a new file, only for the user's eyes, and drops the oldest.
func (r *RunLog) create(e event.Event) error {
	if err := MakePrivate(r.dir); err != nil {
		return err
	}
	name := e.Time.UTC().Format("20060102-150405")
	if e.Operation != nil {
		name += "-" + unfit.ReplaceAllString(e.Operation.Release, "_")
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
	prune(r.dir, keptRuns)
	return nil
}

// MakePrivate makes a directory of this program's that nobody else may look into,
// also where it was there with other rights.
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

// prune removes the oldest records; their names begin with the time. What it
// cannot remove stays until the next run.
func prune(dir string, keep int) {
	names := Runs(dir)
	for _, old := range names[min(keep, len(names)):] {
		_ = os.Remove(filepath.Join(dir, old+runSuffix))
	}
}

// Runs returns the names of the records in dir, the newest first.
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

// The manifests in a record are there so that a replay can be looked into as the
// run could. They are events of a kind of their own, right behind the first event
// and behind each one that begins an edited revision, one an object: a record is one file that can be copied and read with the same
// tools as the rest of it, it has them even where the run is killed, and who reads
// events passes over a kind that it does not know. They are no part of -o json,
// which tells what happens. They are not compressed, for that would be another
// format; they are bounded instead, since 50 records are kept.
const (
	// longestManifest is how many bytes of one object are kept, and allManifests
	// of all.
	longestManifest = 64 << 10
	allManifests    = 2 << 20
)

// Keep makes the record hold manifests of objects: those of the revision that the run
// begins with and, after so many edits (R46), of the one that they have led to. They
// are read when the event has been written that begins it. Keep is called before.
func (r *RunLog) KeepManifests(manifests func(edits int) iter.Seq2[plan.Object, string]) {
	r.manifests = manifests
}

// keepManifests writes what is kept of the manifests of a revision that has begun.
func (r *RunLog) keepManifests(now time.Time) error {
	r.revisions++
	if r.manifests == nil || r.room <= 0 {
		return nil
	}
	for o, text := range r.manifests(r.revisions - 1) {
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		if over := len(text) - longestManifest; over > 0 {
			lines = append(firstLines(lines, longestManifest), fmt.Sprintf("# cut here, where it goes on for %d bytes", over))
		}
		e := event.Event{Time: now, Kind: event.KindManifest, Object: &o, Lines: lines}
		if err := writeEvent(r.file, e); err != nil {
			return err
		}
		if r.room -= min(len(text), longestManifest); r.room <= 0 {
			return nil
		}
	}
	return nil
}

// firstLines are as many whole lines as fit.
func firstLines(lines []string, room int) []string {
	for n, l := range lines {
		if room -= len(l) + 1; room < 0 {
			return lines[:n:n]
		}
	}
	return lines
}

// manifests are those of a revision: what was sent from when so many events had
// happened.
type manifests struct {
	from int
	of   map[plan.Object]string
}

// takeManifests parts a record in what happened and the manifests.
func takeManifests(events []event.Event) (happened []event.Event, kept []manifests) {
	for _, e := range events {
		switch {
		case e.Kind != event.KindManifest:
			happened = append(happened, e)
		case e.Object != nil:
			if n := len(kept); n == 0 || kept[n-1].from != len(happened) {
				kept = append(kept, manifests{len(happened), map[plan.Object]string{}})
			}
			kept[len(kept)-1].of[*e.Object] = strings.Join(e.Lines, "\n")
		}
	}
	return happened, kept
}

// Manifest is an object as it was applied by the revision that was under way when so
// many events had happened, "" where the record does not hold it.
func (r *Record) Manifest(o plan.Object, at int) string {
	planned := o
	for _, e := range r.Events {
		if e.Planned != "" && e.Object != nil && *e.Object == o {
			planned.Name = e.Planned
		}
	}
	for n, m := range slices.Backward(r.manifests) {
		if n > 0 && m.from > at {
			continue // a revision to come
		}
		for _, name := range []plan.Object{o, planned} {
			if text, ok := m.of[name]; ok {
				return text
			}
		}
	}
	return ""
}

// Found is what was found out about an object while it was not ready, until so many
// events had happened: the lines of its diagnoses, each once, those of the last one
// at the end.
func (r *Record) Found(o plan.Object, at int) []string {
	var lines []string
	seen := map[string]int{}
	for _, e := range r.Events[:at] {
		if e.Kind != event.KindDiagnosis || e.Object == nil || *e.Object != o {
			continue
		}
		for _, l := range e.Lines {
			if n, again := seen[l]; again {
				lines[n] = ""
			}
			seen[l] = len(lines)
			lines = append(lines, l)
		}
	}
	return withoutEmpty(lines)
}

func withoutEmpty(lines []string) []string {
	var out []string
	for _, l := range lines {
		if l != "" {
			out = append(out, l)
		}
	}
	return out
}
