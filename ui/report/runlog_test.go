package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestRunLogKeepsLatestRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	warn := func(s string) { t.Error(s) }
	events := aborted(t)
	for range maxRuns + 2 {
		r := NewRunLog(dir, warn)
		Replay(events, r)
		r.Close()
		r.Consume(events[0]) // ignored after Close
	}
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
	if err != nil || again.Damage != nil || again.Outcome != "aborted" || len(again.Events) != len(events) {
		t.Errorf("%+v, error %v", again, err)
	}
	if _, err := FindRun(dir, "nothing"); err == nil {
		t.Error("found a record that does not exist")
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
