package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// The newest records are kept: at most maxRuns, with at most maxRunBytes.
const (
	maxRuns     = 1000
	maxRunBytes = 1 << 30
)

const runSuffix = ".ndjson"

// RunLog writes the record of a run to a file, which ReadRecord reads. It never fails the
// operation: if the file cannot be written, it warns once and stops. On a full disk it still writes the closing event, in
// place of the last ones, so that a completed run does not look like a killed one.
type RunLog struct {
	By        string // who started a run in the cluster; "" for others, whose operation says so
	dir       string
	warn      func(string)
	file      recordFile
	ends      []int64 // offsets after each line
	full      bool    // a write has failed
	name      string
	closed    bool
	manifests func(edits int) iter.Seq2[plan.Object, string] // see KeepManifests; nil for none
	revisions int                                            // number of revisions that have started
	room      int                                            // bytes left for manifests
	job       string                                         // see OfJob
}

// recordFile is an *os.File.
type recordFile interface {
	io.Writer
	io.WriterAt
	io.Closer
	Truncate(size int64) error
}

// NewRunLog returns a RunLog that creates its file in dir at the first event. It calls
// warn at most once. The caller must close it.
func NewRunLog(dir string, warn func(string)) *RunLog {
	return &RunLog{dir: dir, warn: warn, room: maxManifests}
}

// OfJob says that the run is a Job in the cluster, namespace/name: if its events stop, it continues without this terminal.
func (r *RunLog) OfJob(job string) { r.job = job }

// RunDir returns the directory of the records: lockstep/runs below $XDG_STATE_HOME or ~/.local/state.
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

// Name returns the name of the record without its suffix, or "" if there is none.
func (r *RunLog) Name() string { return r.name }

// Consume writes an event.
func (r *RunLog) Consume(e event.Event) {
	if r.closed {
		return
	}
	if e.Operation != nil {
		op := *e.Operation
		op.By, op.Job, e.Operation = cmp.Or(r.By, op.By), cmp.Or(r.job, op.Job), &op
	}
	if r.full {
		if e.Kind == event.KindOperation && e.Exit != nil {
			r.overwriteEnd(e)
		}
		return
	}
	if r.file == nil {
		if err := r.create(e); err != nil {
			r.giveUp(err)
			return
		}
	}
	err := r.write(e)
	if err == nil && e.Kind == event.KindOperation && e.Status == event.Running {
		err = r.keepManifests(e.Time)
	}
	switch {
	case err == nil:
	case len(r.ends) == 0: // not even the first event
		r.giveUp(err)
	default:
		r.full = true
		_ = r.file.Truncate(r.ends[len(r.ends)-1]) // a partial line would count as damage
		r.warn(fmt.Sprintf("the record of this run is incomplete: %v", err))
		if e.Kind == event.KindOperation && e.Exit != nil {
			r.overwriteEnd(e)
		}
	}
}

// write appends a line.
func (r *RunLog) write(e event.Event) error {
	line, err := eventLine(e)
	if err != nil {
		return err
	}
	if _, err := r.file.Write(line); err != nil {
		return err
	}
	end := int64(0)
	if len(r.ends) > 0 {
		end = r.ends[len(r.ends)-1]
	}
	r.ends = append(r.ends, end+int64(len(line)))
	return nil
}

// overwriteEnd writes the closing event over the last lines, which needs no more space on the disk. If that fails too, it
// removes the record: without its end, the run would count as killed.
func (r *RunLog) overwriteEnd(e event.Event) {
	line, err := eventLine(e)
	if err != nil {
		r.giveUp(err)
		return
	}
	size := r.ends[len(r.ends)-1]
	at := r.ends[0] // the first event says what the run is about
	for _, end := range r.ends {
		if end+int64(len(line)) <= size {
			at = end
		}
	}
	_, err = r.file.WriteAt(line, at)
	if err == nil {
		err = r.file.Truncate(at + int64(len(line)))
	}
	if err != nil {
		name := r.name
		r.Close()
		r.name = ""
		_ = RemoveRun(r.dir, name) // nothing else can be done on a full disk
	}
}

// giveUp ends the record of a run that is not recorded at all.
func (r *RunLog) giveUp(why error) {
	name := r.name
	r.Close()
	r.name = ""
	if r.file != nil && len(r.ends) == 0 {
		_ = RemoveRun(r.dir, name) // it is empty
	}
	r.warn(fmt.Sprintf("this run is not recorded: %v", why))
}

// Close ends the record.
func (r *RunLog) Close() {
	r.closed = true
	if r.file != nil {
		_ = r.file.Close() // write errors were reported
	}
}

// maxName limits the part of a record's name that comes from the release or the stack. File names have at most 255 bytes.
const maxName = 100

var notFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// create creates the file, readable by the user only, and removes the oldest records.
func (r *RunLog) create(e event.Event) error {
	if err := MakePrivate(r.dir); err != nil {
		return err
	}
	name := e.Time.UTC().Format("20060102-150405")
	if e.Operation != nil {
		release := notFileName.ReplaceAllString(e.Operation.Release, "_")
		name += "-" + release[:min(len(release), maxName)]
	}
	r.name = name
	for n := 2; r.file == nil; n++ {
		f, err := os.OpenFile(filepath.Join(r.dir, r.name+runSuffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		switch {
		case err == nil:
			if r.file = f; r.job != "" {
				r.file = follow(f, r.dir, r.name)
			}
		case errors.Is(err, fs.ErrExist):
			r.name = fmt.Sprintf("%s-%d", name, n)
		default:
			return err
		}
	}
	removeOldRuns(r.dir, maxRuns, maxRunBytes)
	return nil
}

// followedSuffix is that of a file beside the record of a run in the cluster, which the terminal that writes the record locks. If its
// process dies, the kernel drops the lock.
const followedSuffix = ".followed"

// followedFile is the record of a run in the cluster while a terminal follows the run.
type followedFile struct {
	recordFile
	lock *flock.Flock
}

// follow says that this process follows the run of a record until it closes the file.
func follow(file recordFile, dir, name string) recordFile {
	lock := flock.New(filepath.Join(dir, name+followedSuffix))
	if locked, err := lock.TryLock(); !locked || err != nil {
		return file
	}
	return followedFile{file, lock}
}

func (f followedFile) Close() error {
	_ = os.Remove(f.lock.Path())
	_ = f.lock.Close()
	return f.recordFile.Close()
}

// markFollowed changes the outcome of a run in the cluster from Unwatched to StillRunning if a terminal follows it.
func (r *Run) markFollowed(path string) {
	if r.Outcome != Unwatched {
		return
	}
	lock := flock.New(strings.TrimSuffix(path, runSuffix)+followedSuffix, flock.SetFlag(os.O_RDONLY)) // not created if it is missing
	if free, err := lock.TryRLock(); err == nil && !free {
		r.Outcome = StillRunning
	}
	_ = lock.Close()
}

// removeOldRuns keeps the newest records, at most limit with at most limitBytes.
func removeOldRuns(dir string, limit int, limitBytes int64) {
	for n, name := range Runs(dir) {
		if info, err := os.Stat(filepath.Join(dir, name+runSuffix)); err == nil {
			limitBytes -= info.Size()
		}
		if n >= limit || limitBytes < 0 {
			_ = RemoveRun(dir, name) // tried again at the next run
		}
	}
}

// MakePrivate creates a directory that only the user may access, and corrects the mode of an existing one.
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

// Runs returns the names of the records in dir, newest first: they start with the time.
func Runs(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == runSuffix {
			names = append(names, RunName(e.Name()))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) })
	return names
}

// Manifests in a record let a replay show the applied objects. They are events of kind manifest, one per
// object, after each event that starts a revision. -o json omits them. Their size is limited because many
// records are kept.
const (
	maxManifest  = 64 << 10 // bytes of one object
	maxManifests = 2 << 20  // bytes of all objects
)

// KeepManifests adds the manifests of each revision to the record. RunLog calls manifests when a revision
// has started, with the number of edits (R46) before it. Call KeepManifests before the first event.
func (r *RunLog) KeepManifests(manifests func(edits int) iter.Seq2[plan.Object, string]) {
	r.manifests = manifests
}

// keepManifests writes the manifests of a revision that has started.
func (r *RunLog) keepManifests(now time.Time) error {
	r.revisions++
	if r.manifests == nil || r.room <= 0 {
		return nil
	}
	for o, manifest := range r.manifests(r.revisions - 1) {
		r.room -= min(len(manifest), maxManifest)
		if over := len(manifest) - maxManifest; over > 0 {
			manifest = manifest[:strings.LastIndexByte(manifest[:maxManifest], '\n')+1] + fmt.Sprintf("# truncated: %d more bytes", over)
		}
		e := event.Event{Time: now, Kind: event.KindManifest, Object: &o, Lines: text.Lines(manifest)}
		if err := r.write(e); err != nil || r.room <= 0 {
			return err
		}
	}
	return nil
}

// revisionManifests are the manifests of one revision.
type revisionManifests struct {
	from int // index of the first event after the one that starts the revision
	text map[plan.Object]string
}

// splitManifests separates the manifests from the other events of a run.
func splitManifests(events []event.Event) (others []event.Event, found []revisionManifests) {
	for _, e := range events {
		switch {
		case e.Kind != event.KindManifest:
			others = append(others, e)
		case e.Object != nil:
			if n := len(found); n == 0 || found[n-1].from != len(others) {
				found = append(found, revisionManifests{len(others), map[plan.Object]string{}})
			}
			found[len(found)-1].text[*e.Object] = strings.Join(e.Lines, "\n")
		}
	}
	return others, found
}

// Manifest returns the manifest of an object as of the first at events of the run, or "" if the
// record does not have it.
func (r *Record) Manifest(o plan.Object, at int) string {
	planned := o // before the API server generated a name
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

// Diagnoses returns what the diagnoses of an object found in the first at events of the run, oldest first. An old record has
// only lines.
func (r *Record) Diagnoses(o plan.Object, at int) (found []event.Details) {
	for _, e := range r.Events[:at] {
		switch {
		case e.Kind != event.KindDiagnosis || e.Object == nil || *e.Object != o:
		case e.Details != nil:
			found = append(found, *e.Details)
		case len(e.Lines) > 0:
			found = append(found, event.Details{Notes: e.Lines})
		}
	}
	return found
}
