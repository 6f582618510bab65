package report

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
)

// Seconds formats a duration: 4.1s, 1m52s, 2h03m.
func Seconds(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 100*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

func seconds(s float64) string { return Seconds(time.Duration(s * float64(time.Second))) }

// prefixed returns prefix + text, or "" if text is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// nonEmpty returns the parts without empty ones.
func nonEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

// number formats a number, 0 as "".
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func withReason(text, reason string) string { return text + prefixed(": ", reason) }

// outcome summarizes the changes to the objects of a group: "3 objects created",
// "2 created, 1 unchanged", or "3 objects" if they are unknown.
func outcome(g *event.GroupState) string {
	n := map[event.Change]int{}
	for _, o := range g.Objects {
		n[o.Change]++
	}
	var parts []string
	for _, c := range []event.Change{event.Created, event.Configured, event.Unchanged, event.Deleted, event.Absent, event.Kept} {
		if n[c] == len(g.Objects) && n[c] > 0 {
			return text.Count(n[c], "object") + " " + c.Word()
		}
		if n[c] > 0 {
			parts = append(parts, fmt.Sprint(n[c], " ", c.Word()))
		}
	}
	if len(parts) == 0 {
		return text.Count(len(g.Objects), "object")
	}
	if n[""] > 0 {
		parts = append(parts, fmt.Sprint(n[""], " not applied"))
	}
	return strings.Join(parts, ", ")
}

// progress returns the number of objects that are done: "1 of 2 ready".
func progress(g *event.GroupState, removing bool) string {
	done := "ready"
	if removing {
		done = "gone"
	}
	return fmt.Sprintf("%d of %d %s", g.Done, len(g.Objects), done)
}

// maxNamed is how many names of a list are shown.
const maxNamed = 5

// abbreviate joins names: "a, b, c", or "a, b, c, d, e and 12 more".
func abbreviate(names []string) string {
	if over := len(names) - maxNamed; over > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", over)
	}
	return strings.Join(names, ", ")
}

// objectIn names an object and its group; either may be empty.
func objectIn(o *plan.Object, group string) string {
	if o == nil {
		return group
	}
	return o.String() + prefixed(" in ", group)
}

// removes reports whether a phase removes its groups.
func removes(s *event.State, phase string) bool {
	return slices.ContainsFunc(s.Phases, func(p *event.PhaseState) bool { return p.Name == phase && p.Kind == event.PhaseRemove })
}

// unitName returns the id of a group, with " removal" if the operation both applies and
// removes a group with that id.
func unitName(s *event.State, g *event.GroupState) string {
	inOther := func(p *event.PhaseState) bool { return p.Name != g.Phase && s.Find(p.Name, g.ID) != nil }
	if removes(s, g.Phase) && slices.ContainsFunc(s.Phases, inOther) {
		return g.ID + " removal"
	}
	return g.ID
}

// unitTitle is unitName, with " (rollback)" in a rollback.
func unitTitle(s *event.State, g *event.GroupState) string {
	name := unitName(s, g)
	if event.IsRollback(g.Phase) {
		name += " (rollback)"
	}
	return name
}

// table aligns rows of cells in columns. Lines are indented by two blanks, columns are two blanks
// apart. The cells must be clean; they may be coloured.
func table(rows [][]string) []string {
	var widths []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	lines := make([]string, len(rows))
	for n, r := range rows {
		for i, cell := range r {
			lines[n] += "  " + cell + strings.Repeat(" ", widths[i]-ansi.StringWidth(cell))
		}
		lines[n] = strings.TrimRight(lines[n], " ")
	}
	return lines
}

// cleaned returns clean texts: lines, or the cells of a row of a table.
func cleaned(texts ...string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = clean(t)
	}
	return out
}

// cleanLines joins lines.
func cleanLines(lines []string) string { return strings.Join(cleaned(lines...), "\n") }

// joinLines joins lines, each with a line end.
func joinLines(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// tableIn is like table, but drops optional columns until the table fits the columns of a terminal
// (0: no limit). It drops the last one first.
func tableIn(rows [][]string, columns int, optional ...int) []string {
	lines := table(rows)
	last := len(optional) - 1
	if columns == 0 || last < 0 || !slices.ContainsFunc(lines, func(l string) bool { return ansi.StringWidth(l) > columns }) {
		return lines
	}
	narrow := make([][]string, len(rows))
	for n, r := range rows {
		narrow[n] = slices.Delete(slices.Clone(r), optional[last], optional[last]+1)
	}
	return tableIn(narrow, columns, optional[:last]...)
}

// unindent joins the lines of a table without their indent.
func unindent(table []string) string {
	for n, l := range table {
		table[n] = strings.TrimPrefix(l, "  ")
	}
	return joinLines(table)
}

// alignRight pads a duration on the left.
func alignRight(duration string) string { return fmt.Sprintf("%7s", duration) }

// maxPageWidth is the longest line that is easy to read.
const maxPageWidth = 100

var (
	code     = regexp.MustCompile("`[^`]+`")
	emphasis = regexp.MustCompile(`\*[^*]+\*`)
)

// Markdown writes a page of help, with its tables in aligned columns. For a terminal of width
// columns it also formats the rest; indented lines stay as they are. Width 0 is no terminal.
func Markdown(w io.Writer, markdown string, style Style, width int) error {
	w = styled(w, style)
	mark := func(role theme.Role, mark, text string) string {
		words := strings.Fields(strings.Trim(text, mark))
		for i := range words { // one by one, so that no colour crosses a line end
			words[i] = style.render(role, words[i])
		}
		return strings.Join(words, " ")
	}
	inline := func(text string) string {
		if width <= 0 {
			return text
		}
		text = code.ReplaceAllStringFunc(text, func(s string) string { return mark(theme.Accent, "`", s) })
		return emphasis.ReplaceAllStringFunc(text, func(s string) string { return mark(theme.Strong, "*", s) })
	}
	columns := maxPageWidth
	if width > 0 {
		columns = min(width, maxPageWidth)
	}
	var b, paragraph strings.Builder
	var rows [][]string
	flush := func() {
		if len(rows) > 0 {
			b.WriteString(pageTable(rows, columns))
			rows = nil
		}
		indent := ""
		if strings.HasPrefix(paragraph.String(), "- ") {
			indent = "  "
		}
		b.WriteString(fill(inline(paragraph.String()), columns, indent))
		paragraph.Reset()
	}
	for line := range strings.Lines(markdown) {
		switch {
		case strings.HasPrefix(line, "|---"):
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "|\n"), "|")
			for i, cell := range cells {
				cells[i] = inline(strings.TrimSpace(cell))
			}
			rows = append(rows, cells)
		case width <= 0:
			flush()
			b.WriteString(line)
		case strings.HasPrefix(line, "#"):
			flush()
			b.WriteString(style.render(theme.Strong, strings.Trim(line, "# \n")) + "\n")
		case line == "\n", strings.HasPrefix(line, "  ") && paragraph.Len() == 0:
			flush()
			b.WriteString(line)
		case strings.HasPrefix(line, "- "):
			flush()
			paragraph.WriteString(line)
		default:
			paragraph.WriteString(line)
		}
	}
	flush()
	return write(w, b.String())
}

// pageTable aligns a table in at most the given number of columns. It wraps the widest cells, and
// then leaves a blank line between rows.
func pageTable(rows [][]string, columns int) string {
	var widths, words []int // of the widest cell and the longest word of each column
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths, words = append(widths, 0), append(words, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
			for _, word := range strings.Fields(cell) {
				words[i] = max(words[i], ansi.StringWidth(word))
			}
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	wraps := total > columns
	for ; total > columns; total-- {
		widest := -1
		for i, w := range widths {
			if w > words[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // a narrow terminal breaks the lines
		}
		widths[widest]--
	}
	var lines [][]string
	for n, r := range rows {
		if wraps && n > 0 {
			lines = append(lines, nil)
		}
		start := len(lines)
		for i, cell := range r {
			for k, part := range strings.Split(strings.TrimSuffix(fill(cell, widths[i], ""), "\n"), "\n") {
				if start+k == len(lines) {
					lines = append(lines, make([]string, len(r)))
				}
				lines[start+k][i] = part
			}
		}
	}
	return unindent(table(lines))
}

// fill breaks text into lines of at most width columns, all but the first of them indented.
// It breaks between words only: a break at a hyphen would split flags and annotations.
func fill(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := ansi.StringWidth(word)
		switch {
		case column == 0:
		case column+1+n > width && column > len(indent):
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	if column > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}
