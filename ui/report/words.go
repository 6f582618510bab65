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

// changesText summarizes the changes to the objects of a group: "3 objects created",
// "2 created, 1 unchanged", or "3 objects" if the changes are unknown.
func changesText(g *event.GroupState) string {
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

// maxNamed is the maximum number of names in a list.
const maxNamed = 5

// abbreviate joins names: "a, b, c", or "a, b, c, d, e and 12 more".
func abbreviate(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// objectIn names an object and its group, either of which may be missing.
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

// unitName returns the id of a group. It adds " removal" if the group is removed and another phase has
// a group with the same id.
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

// table aligns rows of cells in columns. Lines are indented by two spaces, and columns are two spaces
// apart. The cells must be clean; they may have colours.
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

// cleanLines cleans and joins lines.
func cleanLines(lines []string) string { return strings.Join(cleaned(lines...), "\n") }

// joinLines joins lines, with a newline after each.
func joinLines(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// tableIn is like table, but drops columns until the lines fit a width, unless that is 0. optional are
// the indices of these columns; the last is dropped first.
func tableIn(rows [][]string, width int, optional ...int) []string {
	lines := table(rows)
	last := len(optional) - 1
	if width == 0 || last < 0 || !slices.ContainsFunc(lines, func(l string) bool { return ansi.StringWidth(l) > width }) {
		return lines
	}
	narrow := make([][]string, len(rows))
	for n, r := range rows {
		narrow[n] = slices.Delete(slices.Clone(r), optional[last], optional[last]+1)
	}
	return tableIn(narrow, width, optional[:last]...)
}

// unindent joins the lines of a table, without their indentation.
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

// Markdown writes a page of help with aligned tables. For a terminal, whose width is not 0, it also
// wraps and styles the rest, apart from indented lines.
func Markdown(w io.Writer, markdown string, style Style, width int) error {
	p := page{style: style, terminal: width > 0, columns: maxPageWidth}
	if p.terminal {
		p.columns = min(width, maxPageWidth)
	}
	for line := range strings.Lines(markdown) {
		p.add(line)
	}
	p.flush()
	return write(styled(w, style), p.out.String())
}

// page formats a page of help line by line.
type page struct {
	style    Style
	terminal bool
	columns  int

	out       strings.Builder
	paragraph strings.Builder // not yet written
	rows      [][]string      // of a table, not yet written
}

func (p *page) add(line string) {
	switch {
	case strings.HasPrefix(line, "|---"):
	case strings.HasPrefix(line, "|"):
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i, cell := range cells {
			cells[i] = p.inline(strings.TrimSpace(cell))
		}
		p.rows = append(p.rows, cells)
	case !p.terminal:
		p.flush()
		p.out.WriteString(line)
	case strings.HasPrefix(line, "#"):
		p.flush()
		p.out.WriteString(p.style.render(theme.Strong, strings.Trim(line, "# \n")) + "\n")
	case line == "\n", strings.HasPrefix(line, "  ") && p.paragraph.Len() == 0:
		p.flush()
		p.out.WriteString(line)
	case strings.HasPrefix(line, "- "):
		p.flush()
		p.paragraph.WriteString(line)
	default:
		p.paragraph.WriteString(line)
	}
}

// flush writes the table and the paragraph that end before the next line.
func (p *page) flush() {
	if len(p.rows) > 0 {
		p.out.WriteString(pageTable(p.rows, p.columns))
		p.rows = nil
	}
	indent := ""
	if strings.HasPrefix(p.paragraph.String(), "- ") {
		indent = "  "
	}
	p.out.WriteString(fill(p.inline(p.paragraph.String()), p.columns, indent))
	p.paragraph.Reset()
}

// inline styles code and emphasis for a terminal.
func (p *page) inline(text string) string {
	if !p.terminal {
		return text
	}
	text = code.ReplaceAllStringFunc(text, func(s string) string { return p.renderWords(theme.Accent, strings.Trim(s, "`")) })
	return emphasis.ReplaceAllStringFunc(text, func(s string) string { return p.renderWords(theme.Strong, strings.Trim(s, "*")) })
}

// renderWords styles each word separately, so that no style continues on the next line.
func (p *page) renderWords(role theme.Role, text string) string {
	words := strings.Fields(text)
	for i := range words {
		words[i] = p.style.render(role, words[i])
	}
	return strings.Join(words, " ")
}

// pageTable aligns a table. If it is wider than columns, it wraps the widest cells and separates the
// rows by blank lines.
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
			break // too narrow: the terminal breaks the lines
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

// fill wraps text to a width, with an indent for all lines but the first. It breaks lines only
// between words: a break at a hyphen would split flags and annotations.
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
