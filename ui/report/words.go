package report

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// Seconds formats a duration: 4.1s, 1m52s, 2h03m.
func Seconds(d time.Duration) string {
	if d < 0 {
		d = 0
	}
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

// Count formats "1 object" or "3 objects".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// outcome summarizes the changes to the objects of a group: "3 objects created",
// "2 created, 1 unchanged", or "3 objects" if they are unknown.
func outcome(g *event.GroupState) string {
	changes := []event.Change{event.Created, event.Configured, event.Unchanged, event.Deleted, event.Absent, event.Kept}
	n := map[event.Change]int{}
	for _, o := range g.Objects {
		n[o.Change]++
	}
	var parts []string
	for _, c := range changes {
		if n[c] == len(g.Objects) && n[c] > 0 {
			return Count(n[c], "object") + " " + c.Word()
		}
		if n[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[c], c.Word()))
		}
	}
	if len(parts) == 0 {
		return Count(len(g.Objects), "object")
	}
	if n[""] > 0 {
		parts = append(parts, fmt.Sprintf("%d not applied", n[""]))
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
	switch {
	case o == nil:
		return group
	case group == "":
		return o.String()
	}
	return o.String() + " in " + group
}

// unitName returns the id of a group, with " removal" if the operation both applies and
// removes a group with that id.
func unitName(s *event.State, g *event.GroupState) string {
	removal, other := false, false
	for _, p := range s.Phases {
		switch {
		case p.Name == g.Phase:
			removal = p.Kind == event.PhaseRemove
		case s.Find(p.Name, g.ID) != nil:
			other = true
		}
	}
	if removal && other {
		return g.ID + " removal"
	}
	return g.ID
}

// table aligns rows in columns, indented by two and two blanks apart.
func table(rows [][]string) []string {
	var widths []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	var lines []string
	for _, r := range rows {
		var b strings.Builder
		for i, cell := range r {
			b.WriteString("  " + cell + strings.Repeat(" ", widths[i]-width(cell)))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// tableIn is like table, but drops optional columns until the rest fits a terminal (0: no
// limit). The last one is dropped first.
func tableIn(rows [][]string, columns int, optional ...int) []string {
	lines := table(rows)
	last := len(optional) - 1
	if columns == 0 || last < 0 || !slices.ContainsFunc(lines, func(l string) bool { return width(l) > columns }) {
		return lines
	}
	narrow := make([][]string, len(rows))
	for n, r := range rows {
		narrow[n] = slices.Delete(slices.Clone(r), optional[last], optional[last]+1)
	}
	return tableIn(narrow, columns, optional[:last]...)
}

// width returns the number of characters; names in Kubernetes are ASCII.
func width(s string) int { return len([]rune(s)) }

// maxPageWidth is the longest line that is easy to read.
const maxPageWidth = 100

var (
	code     = regexp.MustCompile("`[^`]+`")
	emphasis = regexp.MustCompile(`\*[^*]+\*`)
)

// Markdown writes a page of help: as is, or, if width is not 0, formatted for a terminal of
// that many columns. Tables and indented lines stay as they are.
func Markdown(w io.Writer, markdown string, style Style, width int) error {
	w = styled(w, style)
	if width <= 0 {
		return write(w, markdown)
	}
	marks := func(role theme.Role, mark string) func(string) string {
		return func(s string) string { return style.render(role, strings.Trim(s, mark)) }
	}
	var b, paragraph strings.Builder
	flush := func() {
		indent := ""
		if strings.HasPrefix(paragraph.String(), "- ") {
			indent = "  "
		}
		text := code.ReplaceAllStringFunc(paragraph.String(), marks(theme.Accent, "`"))
		b.WriteString(fill(emphasis.ReplaceAllStringFunc(text, marks(theme.Strong, "*")), min(width, maxPageWidth), indent))
		paragraph.Reset()
	}
	for line := range strings.Lines(markdown) {
		switch {
		case strings.HasPrefix(line, "#"):
			flush()
			b.WriteString(style.render(theme.Strong, strings.Trim(line, "# \n")) + "\n")
		case line == "\n", strings.HasPrefix(line, "|"), strings.HasPrefix(line, "  ") && paragraph.Len() == 0:
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

// fill breaks text into lines of at most width columns, all but the first of them indented.
// It breaks between words only: a break at a hyphen would split flags and annotations.
func fill(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := ansi.StringWidth(word)
		switch {
		case column == 0:
		case column+1+n > width:
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
