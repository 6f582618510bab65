package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/ui/golden"
)

// inUTC makes local times the same on every machine.
func inUTC(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
}

// save writes a record under a name and returns its path.
func save(t *testing.T, dir, name string, events []event.Event) string {
	t.Helper()
	var b bytes.Buffer
	Replay(events, jsonLines{&b})
	return saveText(t, dir, name, b.String())
}

func saveText(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name+runSuffix)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shift returns the events of a run at another time.
func shift(events []event.Event, by time.Duration) []event.Event {
	out := make([]event.Event, len(events))
	for n, e := range events {
		e.Time = e.Time.Add(by)
		out[n] = e
	}
	return out
}

// output returns what a function writes to a Display as text.
func output(t *testing.T, write func(Display) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(New(ModeText, Stream{Writer: &out, Style: plain}, Stream{Writer: &out, Style: plain})); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestRunsText(t *testing.T) {
	inUTC(t)
	dir := t.TempDir()
	whole := succeeded(t)
	save(t, dir, "20000101-000000-shop", whole)
	save(t, dir, "20000102-000000-shop", shift(failed(t), 24*time.Hour))
	killed := shift(whole, 48*time.Hour)
	save(t, dir, "20000103-000000-shop", killed[:len(killed)/2])
	var b bytes.Buffer
	Replay(shift(killed, 24*time.Hour), jsonLines{&b})
	saveText(t, dir, "20000104-000000-shop", b.String()[:b.Len()/2]) // in the middle of a line
	saveText(t, dir, "20000105-000000-shop", "")
	runs := RecordedRuns(dir)
	golden.CompareFile(t, "testdata/runs.txt", output(t, func(d Display) error { return d.Show(runs) }))
	for _, r := range runs[:2] {
		if r.Outcome != Killed || r.Exit != nil || r.Seconds == 0 {
			t.Errorf("%+v", r)
		}
	}
	if failed := runs[2]; failed.Cause == "" || failed.Object == nil || failed.Object.Name != "migrate" || *failed.Exit != 1 {
		t.Errorf("%+v", failed)
	}
}

// TestLastEventAfterLongLines expects the last event of a record whose middle is not read.
func TestLastEventAfterLongLines(t *testing.T) {
	dir := t.TempDir()
	events := aborted(t)
	log := events[1]
	log.Kind, log.Phases, log.Lines = event.KindLog, nil, []string{strings.Repeat("x", 2*maxTail)}
	last := events[len(events)-1]
	save(t, dir, "a", []event.Event{events[0], log, last})
	save(t, dir, "b", []event.Event{events[0], log})
	last.Outcome = strings.Repeat("x", 2*tailSize)
	save(t, dir, "c", []event.Event{events[0], log, last})
	runs := RecordedRuns(dir)
	if len(runs) != 3 || runs[0].Outcome != "aborted" || runs[1].Outcome != Killed || runs[2].Outcome != "aborted" || runs[2].Seconds == 0 {
		t.Errorf("%+v", runs)
	}
}

func TestFindRunByPrefix(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"20000101-a", "20000101-a-2", "20000102-b"} {
		save(t, dir, name, aborted(t))
	}
	file := save(t, t.TempDir(), "elsewhere", aborted(t))
	for name, want := range map[string]string{
		"20000102": "20000102-b", "20000101-a": "20000101-a", "20000101-a-2.ndjson": "20000101-a-2", file: "elsewhere",
	} {
		if path, err := FindRun(dir, name); err != nil || RunName(path) != want {
			t.Errorf("%s: %s, %v", name, path, err)
		}
	}
	for name, want := range map[string]string{"2000010": "20000102-b, 20000101-a-2, 20000101-a", "x": "lockstep runs", "./x": "record ./x not found"} {
		if _, err := FindRun(dir, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecordText(t *testing.T) {
	inUTC(t)
	dir := t.TempDir()
	show := func(d Display, name string) error {
		r, err := ReadRecord(dir, name)
		if err != nil {
			return err
		}
		r.Recover = "lockstep recover shop -n shop"
		return d.Show(r)
	}
	whole := succeeded(t)
	save(t, dir, "whole", whole)
	save(t, dir, "bad", failed(t))
	save(t, dir, "killed", whole[:len(whole)/2])
	for _, name := range []string{"whole", "bad", "killed"} {
		golden.CompareFile(t, "testdata/run-"+name+".txt", output(t, func(d Display) error { return show(d, name) }))
	}
	var out bytes.Buffer
	if err := show(New(ModeJSON, Stream{Writer: &out}, Stream{Writer: &out}), "bad"); err != nil {
		t.Fatal(err)
	}
	var d runDetails
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || len(d.Path) == 0 || len(d.Failures) != 1 || d.Failures[0].Cause == "" || d.BestTime <= 0 {
		t.Errorf("%s: %v", out.String(), err)
	}
}

// TestBarsFitTerminal expects bars that fill the width of the terminal.
func TestBarsFitTerminal(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, "whole", succeeded(t))
	r, err := ReadRecord(dir, "whole")
	if err != nil {
		t.Fatal(err)
	}
	for _, columns := range []int{60, 100, 160} {
		var out bytes.Buffer
		to := Stream{Writer: &out, Style: plain, Width: columns}
		if err := New(ModeText, to, to).Show(r); err != nil {
			t.Fatal(err)
		}
		_, path, _ := strings.Cut(out.String(), "critical path\n")
		path, _, _ = strings.Cut(path, "  best possible")
		widest := 0
		for l := range strings.Lines(path) {
			widest = max(widest, ansi.StringWidth(strings.TrimRight(l, "\n")))
		}
		if widest > columns || widest < min(columns-2, 110) {
			t.Errorf("%d of %d columns:\n%s", widest, columns, path)
		}
	}
}

func TestDiffRuns(t *testing.T) {
	inUTC(t)
	dir := t.TempDir()
	before, after := failed(t), shift(succeeded(t), time.Hour)
	for n := range after { // events after 3s come 2s later
		if after[n].Time.Sub(after[0].Time) > 3*time.Second {
			after[n].Time = after[n].Time.Add(2 * time.Second)
		}
	}
	save(t, dir, "before", before)
	save(t, dir, "after", after)
	a, err := ReadRecord(dir, "before")
	if err != nil {
		t.Fatal(err)
	}
	b, err := ReadRecord(dir, "after")
	if err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "testdata/runs-diff.txt", output(t, func(d Display) error { return d.Show(DiffRuns(a, b)) }))
	save(t, dir, "aborted", aborted(t))
	c, err := ReadRecord(dir, "aborted")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range append(DiffRuns(c, b).Groups, DiffRuns(b, c).Groups...) {
		if g.Phase == "apply" && (g.Change == newGroup || g.Change == goneGroup) {
			t.Errorf("a group that the aborted run never started is %s: %+v", g.Change, g)
		}
	}
	for _, g := range DiffRuns(a, a).Groups {
		if g.Change != similar {
			t.Errorf("a run differs from itself: %+v", g)
		}
	}
}
