package reportfile

import (
	"regexp"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestMarkdownIsEscaped expects that text from charts and clusters is plain text in tables, graphs and
// code blocks.
func TestMarkdownIsEscaped(t *testing.T) {
	const evil = "a|b<img src=x>`c` [d](http://e) **f** \x1b[0m\n```\n%%{init: {}}%%\"]:::bad"
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: evil}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{
			{ID: evil, Objects: []plan.Object{{Kind: "Job", Name: "a"}}}, {ID: "c:g"}}}}},
		{Kind: event.KindDiagnosis, Phase: "apply", Group: evil, Object: &plan.Object{Kind: "Job", Name: "a"}, Message: evil, Lines: []string{evil, "`\x1b[0m``` more"}},
		{Kind: event.KindGroup, Phase: "apply", Group: evil, Status: event.Failed, Object: &plan.Object{Kind: "Job", Name: "a"}, Cause: evil},
		{Kind: event.KindOperation, Status: event.Failed, Message: evil},
	}
	text := string(outcomeOf(events).markdown())
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
