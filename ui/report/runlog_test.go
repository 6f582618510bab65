package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestRunLogKeepsLatestRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range maxRuns + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("00000000-%06d%s", n, runSuffix)), []byte("\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	warn := func(s string) { t.Error(s) }
	events := aborted(t)
	r := NewRunLog(dir, warn)
	r.By = "ann on box"
	Replay(events, r)
	r.Close()
	r.Consume(events[0]) // ignored after Close
	names := Runs(dir)
	if len(names) != maxRuns {
		t.Fatalf("%d records, want %d", len(names), maxRuns)
	}
	path, err := FindRun(dir, names[0])
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	again, err := ReadRecord(dir, names[0])
	if err != nil || again.Damage != nil || again.Outcome != "aborted" || again.By != "ann on box" || len(again.Events) != len(events) {
		t.Errorf("%+v, error %v", again, err)
	}
	if _, err := FindRun(dir, "nothing"); err == nil {
		t.Error("found a record that does not exist")
	}
	removeOldRuns(dir, maxRuns, info.Size()+1) // room for the record, and for one of the small ones
	if left := Runs(dir); !slices.Equal(left, names[:2]) {
		t.Errorf("%d records are kept, want 2", len(left))
	}
}

// TestRunsInTheClusterThatAreFollowed: a run in the cluster counts as running while its terminal writes the record, and as not watched
// only afterwards.
func TestRunsInTheClusterThatAreFollowed(t *testing.T) {
	dir, events := t.TempDir(), aborted(t)
	r := NewRunLog(dir, func(s string) { t.Error(s) })
	r.OfJob("ns/lockstep-shop-x")
	check := func(outcome string) {
		t.Helper()
		record, err := ReadRecord(dir, r.Name())
		if runs := RecordedRuns(dir); err != nil || len(runs) != 1 || runs[0].Outcome != outcome || record.Outcome != outcome {
			t.Errorf("%v, %+v, %v; want %s", runs, record, err, outcome)
		}
	}
	r.Consume(events[0])
	check(StillRunning)
	r.Close()
	check(Unwatched)
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
}

func TestRunLogWarnsOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	warnings := 0
	r := NewRunLog(filepath.Join(file, "runs"), func(string) { warnings++ })
	Replay(aborted(t), r)
	if warnings != 1 || r.Name() != "" {
		t.Errorf("%d warnings, name %q", warnings, r.Name())
	}
}

// fullDisk is a file that cannot grow beyond its room.
type fullDisk struct {
	*os.File
	room int64
}

func (f *fullDisk) Write(p []byte) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	fits := min(int64(len(p)), max(f.room-info.Size(), 0))
	n, err := f.File.Write(p[:fits])
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f *fullDisk) WriteAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > f.room {
		return 0, syscall.ENOSPC
	}
	file, err := os.OpenFile(f.Name(), os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return file.WriteAt(p, at)
}

// TestRunLogOnAFullDisk fills the disk at every size of a record. The run has ended, so it never counts as killed: its record
// has the outcome, or there is none and the run says so.
func TestRunLogOnAFullDisk(t *testing.T) {
	events := aborted(t)
	whole := 0
	for _, e := range events {
		line, err := eventLine(e)
		if err != nil {
			t.Fatal(err)
		}
		whole += len(line)
	}
	recorded := 0
	for room := 0; room <= whole+100; room += 97 {
		dir := t.TempDir()
		var warnings []string
		r := NewRunLog(dir, func(s string) { warnings = append(warnings, s) })
		if err := r.create(events[0]); err != nil {
			t.Fatal(err)
		}
		r.file = &fullDisk{r.file.(*os.File), int64(room)}
		Replay(events, r)
		r.Close()
		runs := RecordedRuns(dir)
		complete := room >= whole
		switch {
		case complete != (len(warnings) == 0) || len(warnings) > 1:
			t.Fatalf("room for %d of %d bytes: warnings %q", room, whole, warnings)
		case len(runs) == 0 && r.Name() != "":
			t.Fatalf("room for %d bytes: there is no record %q", room, r.Name())
		case len(runs) == 0:
			continue
		case runs[0].Outcome != "aborted" || runs[0].Exit == nil || r.Name() == "":
			t.Fatalf("room for %d bytes: %+v, name %q", room, runs[0], r.Name())
		}
		recorded++
		again, err := ReadRecord(dir, r.Name())
		if err != nil || again.Damage != nil || complete != (again.Incomplete() == "") {
			t.Fatalf("room for %d bytes: error %v, damage %v, %q", room, err, again.Damage, again.Incomplete())
		}
	}
	if recorded < whole/97/2 {
		t.Errorf("only %d records", recorded)
	}
}

func TestRunDir(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for state, want := range map[string]string{"/s": "/s/lockstep/runs", "": "/home/me/.local/state/lockstep/runs", "relative": "/home/me/.local/state/lockstep/runs"} {
		t.Setenv("XDG_STATE_HOME", state)
		if got, err := RunDir(); err != nil || got != want {
			t.Errorf("XDG_STATE_HOME=%q: %q, %v, want %q", state, got, err, want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain – text":                     "plain – text",
		"\x1b[31mred\x1b[0m":               "red",
		"\x1b]0;title\aafter":              "after",
		"\x1b]8;;http://x\x1b\\link":       "link",
		"tab\tand\nend\r":                  "tab and end",
		"cut \x1b[31":                      "cut ",
		"\u009b31mC1":                      "C1",
		"\x1b(Bcharset \x1bcreset\x00\x7f": "charset reset",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestReadyGroupsAreCounted(t *testing.T) {
	var groups []*plan.Group
	for i := range 41 {
		groups = append(groups, readPlan(fmt.Sprintf("c:g%d: ConfigMap/c%d", i, i))...)
	}
	var s event.State
	s.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &install})
	s.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{apply(groups)}})
	for _, g := range groups[1:] {
		s.Apply(event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Ready})
	}
	var out bytes.Buffer
	Summary(&out, &s, Options{Style: plain})
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 4 || !bytes.Contains(out.Bytes(), []byte("40 groups done")) {
		t.Errorf("summary of %d lines:\n%s", n, out.String())
	}
}
