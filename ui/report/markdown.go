package report

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

const (
	// maxGraphGroups is the maximum size of the graph: larger ones are unreadable, and
	// Mermaid renderers refuse them.
	maxGraphGroups = 80
	// maxQuoted is the number of lines that are quoted for a failure.
	maxQuoted = 20
	// manyGroups is the number of groups above which the table only counts those that are OK.
	manyGroups = 40
)

// markdown returns the outcome as GitHub and GitLab Markdown: failures first, then a table of
// the groups, then a graph coloured by outcome.
func (o *Outcome) markdown() []byte {
	var b strings.Builder
	outcome := ""
	if len(o.Failures) > 0 || o.Unchecked > 0 { // else the message has it
		outcome = prefixed(": ", o.Outcome)
	}
	fmt.Fprintf(&b, "### %s %s %s after %s%s\n\n", statusSign(o.ending()), markdown(o.title()), markdown(o.verb()), seconds(o.Seconds), markdown(outcome))
	where := target(o.Operation)
	if o.Release != "" {
		where = append(where, "release "+o.Release)
	}
	if len(where) > 0 {
		b.WriteString(markdown(strings.Join(where, ", ")) + "\n\n")
	}
	o.markdownFailures(&b)
	o.markdownTable(&b)
	o.markdownGraph(&b)
	if len(o.CriticalPath) > 1 {
		b.WriteString("Critical path: " + markdown(strings.Join(fold(o.CriticalPath, "… %s …"), " → ")) + "\n\n")
	}
	o.markdownWarnings(&b)
	if len(o.Next) > 0 {
		b.WriteString("Next:\n\n")
		quoteMarkdown(&b, o.Next)
	}
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

func (o *Outcome) markdownFailures(b *strings.Builder) {
	if len(o.Failures) == 0 && o.Status != event.Succeeded && o.Message != "" {
		b.WriteString("**" + markdown(o.Message) + "**\n\n")
	}
	for _, f := range o.Failures {
		fmt.Fprintf(b, "- **%s** (in %s)\n", markdown(f.Text), markdown(f.place))
	}
	for _, m := range o.Fixed {
		fmt.Fprintf(b, "- fixed by %s: %s (in %s)\n", m.How, markdown(m.Text), markdown(m.place))
	}
	if len(o.Failures)+len(o.Fixed) > 0 {
		b.WriteString("\n")
	}
	var known []string
	for _, f := range o.Failures {
		known = append(known, f.Cause)
	}
	for _, f := range o.Failures {
		lines := unknownLines(f.Evidence, known)
		known = append(known, lines...)
		if len(f.Evidence) == 0 {
			lines = f.Details
		}
		if len(lines) == 0 {
			continue
		}
		if len(o.Failures) > 1 {
			b.WriteString(markdown(f.subject()) + ":\n\n")
		}
		quoteMarkdown(b, lines[:min(len(lines), maxQuoted)])
	}
}

// subject returns the object or the group that failed.
func (f *Failure) subject() string {
	if f.Object == nil {
		return f.place
	}
	return f.Object.String()
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
		if len(o.Groups) > manyGroups && groupOK(g.state) {
			done++
			continue
		}
		names := skipped[g.Message]
		if g.Status == event.Skipped && len(names) > maxNamed {
			if names[0] == g.name {
				fmt.Fprintf(b, "| %s | %s %s | | | %s |\n", markdown(abbreviate(names)), statusSign(g.Status), statusWord(g.Status), markdown(o.comment(g)))
			}
			continue
		}
		took := ""
		if !g.Started.IsZero() {
			took = seconds(g.Seconds)
		}
		fmt.Fprintf(b, "| %s | %s %s | %d/%d | %s | %s |\n", markdown(g.name), statusSign(g.Status), markdown(statusWord(g.Status)),
			g.state.Reached(), len(g.Objects), took, markdown(o.comment(g)))
	}
	if done > 0 {
		fmt.Fprintf(b, "| %s | %s done | | | |\n", Count(done, "group"), statusSign(event.Ready))
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
	for _, phase := range o.phases() {
		groups := make([]*plan.Group, 0, len(phase))
		at := map[string]int{}
		for _, i := range phase {
			groups = append(groups, o.Groups[i].state.Group)
			at[o.Groups[i].ID] = i
		}
		after := plan.Reduce(groups)
		for _, g := range groups {
			for _, id := range after[g.ID] {
				if from, ok := at[id]; ok {
					fmt.Fprintf(b, "  g%d --> g%d\n", from, at[g.ID])
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

// phases returns the indices of the groups of each phase.
func (o *Outcome) phases() [][]int {
	var out [][]int
	for i, g := range o.Groups {
		if i == 0 || g.Phase != o.Groups[i-1].Phase {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], i)
	}
	return out
}

func (o *Outcome) markdownWarnings(b *strings.Builder) {
	if len(o.Warnings) == 0 {
		return
	}
	fmt.Fprintf(b, "<details><summary>%s</summary>\n\n", Count(len(o.Warnings), "warning"))
	for _, w := range o.Warnings {
		b.WriteString("- " + markdown(w.text()) + "\n")
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

// statusSign, statusWord and statusColour show a status without a theme.
func statusSign(s event.Status) string {
	switch statusColour(s) {
	case "good":
		return "✅"
	case "bad":
		return "❌"
	case "cut":
		return "⚠️"
	case "applied":
		return "◇"
	}
	return "⊘"
}

func statusWord(s event.Status) string {
	switch s {
	case event.Skipped, event.Waiting:
		return "never started"
	}
	return string(s)
}

func statusColour(s event.Status) string {
	switch s {
	case event.Ready, event.Gone, event.Succeeded:
		return "good"
	case event.Applied: // not checked (R21)
		return "applied"
	case event.Failed:
		return "bad"
	case event.Skipped, event.Waiting, event.Held:
		return "never"
	}
	return "cut"
}

// markdown escapes text for one line of Markdown or HTML.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range clean(s) {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '&':
			b.WriteString("&amp;")
		case strings.ContainsRune("\\`*_{}[]>#!|~@", r):
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// quoteMarkdown writes lines as a code block with a fence that none of them contains.
func quoteMarkdown(b *strings.Builder, lines []string) {
	text, fence := cleanLines(lines), "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	b.WriteString(fence + "text\n" + text + "\n" + fence + "\n\n")
}
