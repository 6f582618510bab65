package report

import (
	"fmt"
	"regexp"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

const (
	// maxGraphGroups limits the graph: larger ones are unreadable, and Mermaid renderers
	// refuse them.
	maxGraphGroups = 80
	// maxQuoted is the maximum number of lines quoted for a failure.
	maxQuoted = 20
	// maxListedOK is the number of groups above which the table only counts those that are OK.
	maxListedOK = 40
)

// markdown returns the outcome as GitHub and GitLab Markdown: failures first, then a table of
// the groups, then a graph coloured by outcome.
func (o *Outcome) markdown() []byte {
	var b strings.Builder
	head := o.title() + " " + o.verb() + " after " + seconds(o.Seconds)
	if len(o.Failures) > 0 || o.Unchecked > 0 { // else the message has it
		head = withReason(head, o.Outcome)
	}
	where := strings.Join(append(target(o.Operation), nonEmpty(prefixed("release ", o.Release))...), ", ")
	b.WriteString("### " + statusSign(o.ending()) + " " + escapeMarkdown(head) + prefixed("\n\n", escapeMarkdown(where)) + "\n\n")
	o.markdownFailures(&b)
	o.markdownTable(&b)
	o.markdownGraph(&b)
	if len(o.CriticalPath) > 1 {
		b.WriteString("Critical path: " + escapeMarkdown(strings.Join(fold(o.CriticalPath, "… %s …"), " → ")) + "\n\n")
	}
	o.markdownWarnings(&b)
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
		fmt.Fprintf(b, "- **%s** (in %s)\n", escapeMarkdown(f.Text), escapeMarkdown(f.place))
	}
	for _, f := range o.Fixed {
		fmt.Fprintf(b, "- fixed by %s: %s (in %s)\n", f.How, escapeMarkdown(f.Text), escapeMarkdown(f.place))
	}
	if len(o.Failures)+len(o.Fixed) > 0 {
		b.WriteString("\n")
	}
	for _, f := range o.Failures {
		lines := unknownLines(f.Evidence, known)
		known = append(known, lines...)
		if len(f.Evidence) == 0 {
			lines = f.Details
		}
		if len(lines) > 0 && len(o.Failures) > 1 {
			subject := f.place
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
	done, skipped := 0, map[string][]string{}
	for _, g := range o.Groups {
		if g.Status == event.Skipped {
			skipped[g.Message] = append(skipped[g.Message], g.name)
		}
	}
	for _, g := range o.Groups {
		if len(o.Groups) > maxListedOK && groupOK(g.state) {
			done++
			continue
		}
		name, size, took := g.name, fmt.Sprintf(" %d/%d", g.state.Reached(), len(g.Objects)), " "
		if names := skipped[g.Message]; g.Status == event.Skipped && len(names) > maxNamed {
			if names[0] != name {
				continue
			}
			name, size, took = abbreviate(names), "", ""
		}
		if !g.Started.IsZero() {
			took += seconds(g.Seconds)
		}
		fmt.Fprintf(b, "| %s | %s %s |%s |%s | %s |\n", escapeMarkdown(name),
			statusSign(g.Status), escapeMarkdown(statusWord(g.Status)), size, took, escapeMarkdown(o.comment(g)))
	}
	if done > 0 {
		fmt.Fprintf(b, "| %s | %s done | | | |\n", text.Count(done, "group"), statusSign(event.Ready))
	}
	b.WriteString("\n")
}

// comment returns the failures of a group, or else its problem.
func (o *Outcome) comment(g GroupOutcome) string {
	var texts []string
	for _, f := range o.Failures {
		if f.Phase == g.Phase && f.Group == g.ID {
			texts = append(texts, f.Text)
		}
	}
	if len(texts) > 0 {
		return strings.Join(texts, "; ")
	}
	return problem(g.state)
}

// markdownGraph draws the groups and their order.
func (o *Outcome) markdownGraph(b *strings.Builder) {
	if len(o.Groups) < 2 || len(o.Groups) > maxGraphGroups {
		return
	}
	b.WriteString("```mermaid\nflowchart LR\n")
	for i, g := range o.Groups {
		fmt.Fprintf(b, "  g%d[\"%s\"]:::%s\n", i, escapeMermaid(clean(g.name)), statusColour(g.Status))
	}
	for from := 0; from < len(o.Groups); { // phase by phase
		var groups []*plan.Group
		at := map[string]int{}
		for i := from; i < len(o.Groups) && o.Groups[i].Phase == o.Groups[from].Phase; i++ {
			groups = append(groups, o.Groups[i].state.Group)
			at[o.Groups[i].ID] = i
		}
		from += len(groups)
		after := plan.Reduce(groups)
		for _, g := range groups {
			for _, id := range after[g.ID] {
				if dependency, ok := at[id]; ok {
					fmt.Fprintf(b, "  g%d --> g%d\n", dependency, at[g.ID])
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

func (o *Outcome) markdownWarnings(b *strings.Builder) {
	if len(o.Warnings) == 0 {
		return
	}
	fmt.Fprintf(b, "<details><summary>%s</summary>\n\n", text.Count(len(o.Warnings), "warning"))
	for _, w := range o.Warnings {
		b.WriteString("- " + escapeMarkdown(w.text()) + "\n")
	}
	b.WriteString("\n</details>\n\n")
}

// text returns the warning on one line, with object and rule.
func (w Warning) text() string {
	text := w.Message
	if w.Object != nil && !strings.Contains(text, w.Object.Name) {
		text = w.Object.String() + ": " + text
	}
	if w.Rule != "" {
		text += " (" + w.Rule + ")"
	}
	return text
}

// statusSign returns the emoji of a status.
func statusSign(s event.Status) string {
	return map[string]string{"good": "✅", "bad": "❌", "cut": "⚠️", "applied": "◇", "never": "⊘"}[statusColour(s)]
}

func statusWord(s event.Status) string {
	if s == event.Skipped || s == event.Waiting {
		return "never started"
	}
	return string(s)
}

// statusColour returns the Mermaid class of a status.
func statusColour(s event.Status) string {
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

// markdownSyntax matches the characters with a meaning in Markdown, apart from those of HTML.
var markdownSyntax = regexp.MustCompile("[\\\\`*_{}\\[\\]>#!|~@]")

// escapeMarkdown escapes text for one line of Markdown or HTML.
func escapeMarkdown(s string) string {
	return strings.NewReplacer("<", "&lt;", "&", "&amp;").Replace(markdownSyntax.ReplaceAllString(clean(s), `\$0`))
}

// quoteMarkdown writes lines, if any, as a code block with a fence that none of them contains.
func quoteMarkdown(b *strings.Builder, lines []string) {
	if len(lines) == 0 {
		return
	}
	text, fence := cleanLines(lines), "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	b.WriteString(fence + "text\n" + text + "\n" + fence + "\n\n")
}
