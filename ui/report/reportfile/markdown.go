package reportfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

const (
	// maxGraphGroups limits the graph: larger ones are unreadable, and Mermaid refuses to draw them.
	maxGraphGroups = 80
	// maxQuoted is the maximum number of lines quoted for a failure.
	maxQuoted = 20
	// maxRows is the maximum number of groups with a row each. If there are more, those that are OK share one.
	maxRows = 40
)

// markdown returns the outcome as Markdown for GitHub and GitLab: the failures, a table of the groups, a graph coloured
// by outcome, the critical path, the warnings, and the next commands.
func (o *Outcome) markdown() []byte {
	var b strings.Builder
	head := o.Operation.Title() + " " + o.verb() + " after " + format.Seconds(o.Seconds)
	if len(o.Failures) > 0 || o.Unchecked+o.NoStatus+o.NotAwaited > 0 { // else the message says it
		head = format.WithReason(head, o.Outcome)
	}
	where := strings.Join(append(format.Target(o.Operation), format.NonEmpty(format.WithPrefix("release ", o.Release))...), ", ")
	b.WriteString("### " + statusSign(o.ending()) + " " + escapeMarkdown(head) + format.WithPrefix("\n\n", escapeMarkdown(where)) + "\n\n")
	o.markdownFailures(&b)
	o.markdownTable(&b)
	changed := slices.Concat(o.Changed, o.Approvals)
	for _, l := range changed {
		b.WriteString("- " + escapeMarkdown(l) + "\n")
	}
	if len(changed) > 0 {
		b.WriteString("\n")
	}
	o.markdownGraph(&b)
	if len(o.CriticalPath) > 1 {
		b.WriteString("Critical path: " + escapeMarkdown(strings.Join(format.Fold(o.CriticalPath, "… %s …"), " → ")) + "\n\n")
	}
	o.markdownNotes(&b, "Ready as far as the spec allows:", func(obj ObjectOutcome) string { return obj.Note })
	o.markdownNotes(&b, "Applied, but the controller said nothing:", func(obj ObjectOutcome) string {
		if obj.ReadyBy == event.ByNoStatus {
			return obj.Message
		}
		return ""
	})
	markdownWarnings(&b, o.Warnings)
	if len(o.Next) > 0 {
		b.WriteString("Next:\n\n")
	}
	quoteMarkdown(&b, o.Next)
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

func (o *Outcome) markdownFailures(b *strings.Builder) {
	if len(o.Failures) == 0 && o.Status != event.Succeeded && o.Message != "" {
		b.WriteString("**" + escapeMarkdown(o.Message) + "**\n\n")
	}
	var known []string
	for _, f := range o.Failures {
		known = append(known, f.Cause)
		fmt.Fprintf(b, "- **%s**\n", escapeMarkdown(f.Sentence()))
	}
	for _, f := range o.Fixed {
		fmt.Fprintf(b, "- %s: %s\n", f.Fix, escapeMarkdown(text.Join("; reason: ", f.Sentence(), f.Reason)))
	}
	if len(o.Failures)+len(o.Fixed) > 0 {
		b.WriteString("\n")
	}
	for _, f := range o.Failures {
		lines := format.UnknownLines(f.Evidence, known)
		known = append(known, lines...)
		if len(f.Evidence) == 0 {
			lines = f.Details
		}
		if len(lines) > 0 && len(o.Failures) > 1 {
			subject := f.Place
			if f.Object != nil {
				subject = f.Object.String()
			}
			b.WriteString(escapeMarkdown(subject) + ":\n\n")
		}
		quoteMarkdown(b, lines[:min(len(lines), maxQuoted)])
	}
}

func (o *Outcome) markdownTable(b *strings.Builder) {
	if len(o.Groups) == 0 {
		return
	}
	b.WriteString("| group | outcome | objects | time | |\n|---|---|---:|---:|---|\n")
	skipped := map[string][]string{} // names by reason
	for _, g := range o.Groups {
		if g.Status == event.Skipped {
			skipped[g.Message] = append(skipped[g.Message], g.name)
		}
	}
	ok := 0
	for _, g := range o.Groups {
		name, objects, took := g.name, fmt.Sprintf(" %d/%d", g.state.Reached(), len(g.Objects)), " "
		status := format.GroupStatus(g.state)
		switch names := skipped[g.Message]; {
		case len(o.Groups) > maxRows && format.GroupOK(g.state):
			ok++
			continue
		case g.Status == event.Skipped && len(names) > format.MaxNamed: // they share the row of the first
			if names[0] != name {
				continue
			}
			name, objects, took = format.Abbreviate(names), "", ""
		case !g.Started.IsZero():
			took += format.Seconds(g.Seconds)
		}
		fmt.Fprintf(b, "| %s | %s %s |%s |%s | %s |\n", escapeMarkdown(name),
			statusSign(status), escapeMarkdown(statusWord(status)), objects, took, escapeMarkdown(o.problem(g)))
	}
	if ok > 0 {
		fmt.Fprintf(b, "| %s | %s done | | | |\n", text.Count(ok, "group"), statusSign(event.Ready))
	}
	b.WriteString("\n")
}

// problem returns the failures of a group, or else its problem, or "".
func (o *Outcome) problem(g GroupOutcome) string {
	var texts []string
	for _, f := range o.Failures {
		if f.Phase == g.Phase && f.Group == g.ID {
			texts = append(texts, f.Text)
		}
	}
	if len(texts) > 0 {
		return strings.Join(texts, "; ")
	}
	return format.Problem(g.state)
}

// markdownGraph draws the groups of each phase and the dependencies between them.
func (o *Outcome) markdownGraph(b *strings.Builder) {
	if len(o.Groups) < 2 || len(o.Groups) > maxGraphGroups {
		return
	}
	b.WriteString("```mermaid\nflowchart LR\n")
	for i, g := range o.Groups {
		fmt.Fprintf(b, "  g%d[\"%s\"]:::%s\n", i, format.EscapeMermaid(text.Line(g.name)), mermaidClass(g.Status))
	}
	for start := 0; start < len(o.Groups); {
		var groups []*plan.Group // of one phase
		node := map[string]int{} // by the group's id
		for i := start; i < len(o.Groups) && o.Groups[i].Phase == o.Groups[start].Phase; i++ {
			groups = append(groups, o.Groups[i].state.Group)
			node[o.Groups[i].ID] = i
		}
		start += len(groups)
		after := plan.Reduce(groups)
		for _, g := range groups {
			for _, id := range after[g.ID] {
				if dependency, ok := node[id]; ok {
					fmt.Fprintf(b, "  g%d --> g%d\n", dependency, node[g.ID])
				}
			}
		}
	}
	b.WriteString(`  classDef good fill:#dafbe1,stroke:#1a7f37,color:#1f2328
  classDef bad fill:#ffebe9,stroke:#cf222e,color:#1f2328,stroke-width:3px
  classDef applied fill:#f6f8fa,stroke:#57606a,color:#1f2328
  classDef never fill:#f6f8fa,stroke:#8c959f,color:#57606a,stroke-dasharray:4
  classDef cut fill:#fff8c5,stroke:#9a6700,color:#1f2328
` + "```\n\n")
}

// markdownNotes lists the objects with a note under a title.
func (o *Outcome) markdownNotes(b *strings.Builder, title string, note func(ObjectOutcome) string) {
	var lines []string
	for _, g := range o.Groups {
		for _, obj := range g.Objects {
			if note := note(obj); note != "" {
				lines = append(lines, "- "+escapeMarkdown(format.WithReason(obj.Object.String(), note))+"\n")
			}
		}
	}
	if len(lines) > 0 {
		b.WriteString(title + "\n\n" + strings.Join(lines, "") + "\n")
	}
}

func markdownWarnings(b *strings.Builder, warnings []Warning) {
	if len(warnings) == 0 {
		return
	}
	fmt.Fprintf(b, "<details><summary>%s</summary>\n\n", text.Count(len(warnings), "warning"))
	for _, w := range warnings {
		b.WriteString("- " + escapeMarkdown(w.text()) + "\n")
	}
	b.WriteString("\n</details>\n\n")
}

// statusSign returns the emoji of a status.
func statusSign(s event.Status) string {
	return map[string]string{"good": "✅", "bad": "❌", "cut": "⚠️", "applied": "◇", "never": "⊘"}[mermaidClass(s)]
}

func statusWord(s event.Status) string {
	if s == event.Skipped || s == event.Waiting {
		return "never started"
	}
	return string(s)
}

// mermaidClass returns the class of a status, for which markdownGraph defines the colours.
func mermaidClass(s event.Status) string {
	switch s {
	case event.Ready, event.Gone, event.Succeeded:
		return "good"
	case event.Applied: // not checked (R21)
		return "applied"
	case event.Failed:
		return "bad"
	case event.Skipped, event.Waiting, event.AtBreakpoint:
		return "never"
	}
	return "cut"
}

// markdownSyntax matches the characters that mean something in Markdown, apart from those of HTML.
var markdownSyntax = regexp.MustCompile("[\\\\`*_{}\\[\\]>#!|~@]")

// escapeMarkdown escapes text for one line of Markdown or HTML.
func escapeMarkdown(s string) string {
	return strings.NewReplacer("<", "&lt;", "&", "&amp;").Replace(markdownSyntax.ReplaceAllString(text.Line(s), `\$0`))
}

// quoteMarkdown writes the lines, if any, as a code block. Its fence is longer than any in the lines.
func quoteMarkdown(b *strings.Builder, lines []string) { fenceMarkdown(b, "text", lines) }

// fenceMarkdown is quoteMarkdown for a language.
func fenceMarkdown(b *strings.Builder, language string, lines []string) {
	if len(lines) == 0 {
		return
	}
	code, fence := cleanLines(lines), "```"
	for strings.Contains(code, fence) {
		fence += "`"
	}
	b.WriteString(fence + language + "\n" + code + "\n" + fence + "\n\n")
}
