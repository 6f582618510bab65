package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// outcomeOf returns the outcome of a scenario.
func outcomeOf(t *testing.T, scenario func(*testing.T) []event.Event) *Outcome {
	return NewOutcome(Replay(scenario(t)), []string{"lockstep install shop ./shop"})
}

// TestReports compares the --report files of operations that succeeded, failed, were aborted or rolled
// back, or never started.
func TestReports(t *testing.T) {
	outcomes := map[string]*Outcome{
		"succeeded": outcomeOf(t, succeeded), "failed": outcomeOf(t, failed), "aborted": outcomeOf(t, aborted), "rolledback": outcomeOf(t, rolledBack), "roots": outcomeOf(t, manyRoots), "rolledback-refused": outcomeOf(t, refused),
		"notstarted": NotStarted(install, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), 2, errors.New("the API server cannot be reached"), nil),
		"refused": NotStarted(install, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), 2, errors.New("install: 2 conflicts, nothing was written:\n  one\n  two"), []plan.Warning{
			{Chart: "shop", Object: &plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "settings"}, Message: "shop: ConfigMap/settings: it belongs to release other", Rule: "R29"},
			{Message: "user few lacks permissions: in namespace ns: secrets [list]"},
		}),
	}
	for name, o := range outcomes {
		for format, ext := range map[string]string{"junit": "xml", "json": "json", "markdown": "md"} {
			golden(t, filepath.Join("outcome", name+"."+ext), formats[format](o))
		}
	}
}

// TestReportsOfUnsafeText expects that reports contain no control sequence and can be parsed.
func TestReportsOfUnsafeText(t *testing.T) {
	o := NewOutcome(Replay(hostileEvents()), []string{hostile})
	for format, write := range formats {
		text := string(write(o))
		checkSafe(t, text, plain)
		if format == "json" && !json.Valid([]byte(text)) {
			t.Error("the report is not JSON")
		}
		if err := xml.Unmarshal([]byte(text), new(junitSuites)); format == "junit" && err != nil {
			t.Error(err)
		}
	}
}

// TestMarkdownIsEscaped expects that text from charts and clusters is plain text in tables, graphs and
// code blocks.
func TestMarkdownIsEscaped(t *testing.T) {
	const evil = "a|b<img src=x>`c` [d](http://e) **f** \x1b[0m\n```\n%%{init: {}}%%\"]:::bad"
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: evil}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{
			{ID: evil, Objects: []plan.Object{{Kind: "Job", Name: "a"}}}, {ID: "c:g"}}}}},
		{Kind: event.KindDiagnosis, Phase: "apply", Group: evil, Object: &plan.Object{Kind: "Job", Name: "a"}, Message: evil, Lines: []string{evil, "`\x1b[0m``` more"}},
		{Kind: event.KindGroup, Phase: "apply", Group: evil, Status: event.Failed, Message: "Job/a: " + evil},
		{Kind: event.KindOperation, Status: event.Failed, Message: evil},
	}
	text := string(NewOutcome(Replay(events), nil).markdown())
	quotation := regexp.MustCompile("(?s)`````text\n.*?\n`````\n")
	if n := len(quotation.FindAllString(text, -1)); n != 1 {
		t.Errorf("%d quotations in\n%s", n, text)
	}
	rest := regexp.MustCompile("(?s)```mermaid.*?\n```\n").ReplaceAllString(quotation.ReplaceAllString(text, ""), "")
	for _, bad := range []string{"<img", "\x1b", " a|b", "[d](", " **f", "```"} {
		if strings.Contains(rest, bad) {
			t.Errorf("%q is in\n%s", bad, text)
		}
	}
	if strings.Contains(text, "%%{init: {}}%%\"]:::bad\"]") {
		t.Errorf("the graph contains a directive:\n%s", text)
	}
	if rows := regexp.MustCompile(`(?m)^\| .*$`).FindAllString(text, -1); len(rows) != 3 {
		t.Errorf("%d rows: %q", len(rows), rows)
	}
}

// TestEveryFieldOfReportsIsDocumented compares the fields with outcomes.md.
func TestEveryFieldOfReportsIsDocumented(t *testing.T) {
	var got []string
	_, section, _ := strings.Cut(OutcomesDoc, "\n## Fields")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			got = append(got, name[1])
		}
	}
	want := slices.DeleteFunc(fields(reflect.TypeFor[Outcome](), ""), func(name string) bool {
		return strings.HasPrefix(name, "operation.") || strings.HasPrefix(name, "object.")
	})
	same(t, "fields", got, want)
}

// TestReportFiles expects that NewOutcomes leaves existing files alone, that End replaces the target of a
// link, and that no temporary files remain.
func TestReportFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("old.xml"), []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old.xml", in("link.xml")); err != nil {
		t.Fatal(err)
	}
	out, err := NewOutcomes(OutcomesOptions{Files: []string{"junit=" + in("link.xml"), "json=" + in("new.json")}})
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(in("old.xml")); string(text) != "old" {
		t.Error("NewOutcomes has written the file")
	}
	if err := out.End(outcomeOf(t, succeeded)); err != nil || !out.Ended() {
		t.Errorf("%v", err)
	}
	if text, _ := os.ReadFile(in("old.xml")); !bytes.HasPrefix(text, []byte("<?xml")) {
		t.Errorf("the target of the link contains %q", text)
	}
	names, _ := filepath.Glob(in("*"))
	hidden, _ := filepath.Glob(in(".*"))
	if len(names) != 3 || len(hidden) > 0 {
		t.Errorf("files: %q %q", names, hidden)
	}
}

func TestInvalidReportFiles(t *testing.T) {
	dir := t.TempDir()
	for _, arg := range []string{"junit", "junit=", "yaml=x", "junit=" + dir, "junit=" + filepath.Join(dir, "none", "x.xml")} {
		if _, err := NewOutcomes(OutcomesOptions{Files: []string{arg}}); err == nil || !strings.HasPrefix(err.Error(), "--report "+arg+": ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	same := "json=" + filepath.Join(dir, "x")
	if _, err := NewOutcomes(OutcomesOptions{Files: []string{same, same}}); err == nil {
		t.Error("no error for two reports in the same file")
	}
	if runtime.GOOS == "linux" {
		out, err := NewOutcomes(OutcomesOptions{Files: []string{"json=/dev/full"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := out.End(NotStarted(install, time.Time{}, 2, nil, nil)); err == nil || !strings.Contains(err.Error(), "cannot write the json report") {
			t.Errorf("full disk: %v", err)
		}
	}
}
