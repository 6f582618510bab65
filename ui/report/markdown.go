package report

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

const (
	// mostInGraph is how many groups are drawn: more can neither be read, nor do
	// those who show Mermaid's graphs take them.
	mostInGraph = 80
	// mostLines is how much of what was found out about a failure is quoted.
	mostLines = 20
)

// manyGroups is from where on groups that went well are only counted in the table.
const manyGroups = 40

// Markdown is the outcome as GitHub's and GitLab's Markdown: what failed and why
// first, then a table of the groups, then a graph of them, coloured by outcome.
func (o *Outcome) Markdown() []byte {
	var b strings.Builder
	became := ""
	if len(o.Failures) > 0 || o.Unchecked > 0 { // else it stands in the message
		became = prefixed(": ", o.Outcome)
	}
	fmt.Fprintf(&b, "### %s %s %s after %s%s\n\n", signOf(o.ending()), markdown(o.what()), markdown(o.went()), seconds(o.Seconds), markdown(became))
	if where := o.where(); where != "" {
		b.WriteString(markdown(where) + "\n\n")
	}
	o.markdownFailures(&b)
	o.markdownTable(&b)
	o.markdownGraph(&b)
	if len(o.CriticalPath) > 1 {
		b.WriteString("Critical path: " + markdown(strings.Join(fold(o.CriticalPath, longestPath), " → ")) + "\n\n")
	}
	o.markdownWarnings(&b)
	if len(o.Next) > 0 {
		b.WriteString("Next:\n\n")
		quoteMarkdown(&b, o.Next)
	}
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

// where says what was done where, and what became of the release.
func (o *Outcome) where() string {
	var parts []string
	add := func(what, value string) {
		if value != "" {
			parts = append(parts, what+" "+value)
		}
	}
	add("chart", o.Operation.Chart)
	add("namespace", o.Operation.Namespace)
	add("context", o.Operation.Context)
	if o.Operation.Revision > 0 {
		add("revision", fmt.Sprint(o.Operation.Revision))
	}
	if o.Release != "" {
		add("release", o.Release)
	}
	return strings.Join(parts, ", ")
}

func (o *Outcome) markdownFailures(b *strings.Builder) {
	if len(o.Failures) == 0 && o.Status != event.Succeeded && o.Message != "" {
		b.WriteString("**" + markdown(o.Message) + "**\n\n")
	}
	for _, f := range o.Failures {
		fmt.Fprintf(b, "- **%s** (in %s)\n", markdown(f.Text), markdown(f.place))
	}
	if len(o.Failures) > 0 {
		b.WriteString("\n")
	}
	var said []string
	for _, f := range o.Failures {
		said = append(said, f.Cause)
	}
	for _, f := range o.Failures {
		lines := unsaid(f.Evidence, said)
		said = append(said, lines...)
		if len(f.Evidence) == 0 {
			lines = f.Details
		}
		if len(lines) == 0 {
			continue
		}
		if len(o.Failures) > 1 {
			b.WriteString(markdown(f.about()) + ":\n\n")
		}
		quoteMarkdown(b, lines[:min(len(lines), mostLines)])
	}
}

// about is what a failure is about.
func (f *Failure) about() string {
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
	fine, never := 0, map[string][]string{}
	for _, g := range o.Groups {
		if g.Status == event.Skipped {
			never[g.Message] = append(never[g.Message], g.name)
		}
	}
	for _, g := range o.Groups {
		if len(o.Groups) > manyGroups && wentWell(g.state) {
			fine++
			continue
		}
		names := never[g.Message]
		if g.Status == event.Skipped && len(names) > mostNamed {
			if names[0] == g.name {
				fmt.Fprintf(b, "| %s | %s %s | | | %s |\n", markdown(someOf(names)), signOf(g.Status), wordOf(g.Status), markdown(o.about(g)))
			}
			continue
		}
		lasted := ""
		if !g.Started.IsZero() {
			lasted = seconds(g.Seconds)
		}
		fmt.Fprintf(b, "| %s | %s %s | %d/%d | %s | %s |\n", markdown(g.name), signOf(g.Status), markdown(wordOf(g.Status)),
			g.state.Reached(), len(g.Objects), lasted, markdown(o.about(g)))
	}
	if fine > 0 {
		fmt.Fprintf(b, "| %s | %s done | | | |\n", Count(fine, "group"), signOf(event.Ready))
	}
	b.WriteString("\n")
}

// about is what there is to say about a group.
func (o *Outcome) about(g GroupOutcome) string {
	var texts []string
	for _, f := range o.Failures {
		if f.Phase == g.Phase && f.Group == g.ID {
			texts = append(texts, f.Text)
		}
	}
	if len(texts) > 0 {
		return strings.Join(texts, "; ")
	}
	return trouble(g.state)
}

// markdownGraph draws what waits for what.
func (o *Outcome) markdownGraph(b *strings.Builder) {
	if len(o.Groups) < 2 || len(o.Groups) > mostInGraph {
		return
	}
	b.WriteString("```mermaid\nflowchart LR\n")
	for i, g := range o.Groups {
		fmt.Fprintf(b, "  g%d[\"%s\"]:::%s\n", i, escapeMermaid(clean(g.name)), colourOf(g.Status))
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

// phases are the indices of the groups of each phase.
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

// text is a warning on one line.
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

// signOf, wordOf and colourOf are how a status looks where there is no theme.
func signOf(s event.Status) string {
	switch colourOf(s) {
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

func wordOf(s event.Status) string {
	switch s {
	case event.Skipped, event.Waiting:
		return "never started"
	}
	return string(s)
}

func colourOf(s event.Status) string {
	switch s {
	case event.Ready, event.Gone, event.Succeeded:
		return "good"
	case event.Applied: // how it fares nobody has waited for (R21)
		return "applied"
	case event.Failed:
		return "bad"
	case event.Skipped, event.Waiting, event.Held:
		return "never"
	}
	return "cut"
}

// markdown makes text from elsewhere a part of a line: no character of it means
// anything to Markdown or HTML.
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

// quoteMarkdown writes lines as they are: no line of them ends the quotation.
func quoteMarkdown(b *strings.Builder, lines []string) {
	text, fence := cleanLines(lines), "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	b.WriteString(fence + "text\n" + text + "\n" + fence + "\n\n")
}

// fold leaves names out of the middle of a list that is too long.
func fold(names []string, most int) []string {
	over := len(names) - most
	if over <= 0 {
		return names
	}
	out := append([]string{}, names[:most/2]...)
	return append(append(out, fmt.Sprintf("… %s …", Count(over, "group"))), names[len(names)-most/2:]...)
}
