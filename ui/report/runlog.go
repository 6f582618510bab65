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
