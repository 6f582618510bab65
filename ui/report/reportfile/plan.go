package reportfile

import (
	"fmt"
	"strings"

	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// Plan is a plan for the description of a pull request.
type Plan struct {
	Title, Summary string
	Changes        []inspect.Change
	Warnings       []Warning
	Notes          []string // at the end
}

// Markdown returns the plan as Markdown for GitHub and GitLab: a table of the changes, their diffs to unfold, the warnings and the
// notes.
func (p Plan) Markdown() string {
	var b strings.Builder
	b.WriteString("### " + escapeMarkdown(p.Title) + "\n\n" + escapeMarkdown(p.Summary) + "\n\n")
	header := "| group | object | action |\n|---|---|---|\n"
	for _, c := range p.Changes {
		if c.Action == inspect.Unchanged {
			continue
		}
		fmt.Fprintf(&b, "%s| %s | %s | %s |\n", header, escapeMarkdown(c.Group), escapeMarkdown(c.Object.String()), escapeMarkdown(format.WithReason(string(c.Action), c.Message)))
		header = ""
	}
	if header == "" {
		b.WriteString("\n")
	}
	for _, c := range p.Changes {
		if c.Diff != "" {
			b.WriteString("<details><summary>" + escapeMarkdown(c.Object.String()) + "</summary>\n\n")
			fenceMarkdown(&b, "diff", text.Lines(c.Diff))
			b.WriteString("</details>\n\n")
		}
	}
	markdownWarnings(&b, p.Warnings)
	for _, n := range p.Notes {
		b.WriteString("- " + escapeMarkdown(n) + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
