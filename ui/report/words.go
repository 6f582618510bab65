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

// Seconds writes a duration as people read it: 4.1s, 1m52s, 2h03m.
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

// Count writes "1 object" or "3 objects".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// outcome says what was done to the objects of a group: "3 objects created",
// "2 created, 1 unchanged", or "3 objects" where that is not known.
func outcome(g *event.GroupState) string {
	changes := []event.Change{event.Created, event.Configured, event.Unchanged, event.Deleted, event.Absent, event.Kept}
	n := map[event.Change]int{}
	for _, o := range g.Objects {
		n[o.Change]++
	}
	var parts []string
	for _, c := range changes {
		if n[c] == len(g.Objects) && n[c] > 0 {
			return Count(n[c], "object") + " " + changeWord(c)
		}
		if n[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[c], changeWord(c)))
		}
	}
	if len(parts) == 0 {
		return Count(len(g.Objects), "object")
	}
	if n[""] > 0 {
		parts = append(parts, fmt.Sprintf("%d not", n[""]))
	}
	return strings.Join(parts, ", ")
}

func changeWord(c event.Change) string {
	if c == event.Absent {
		return "absent before"
	}
	return string(c)
}

// doneOf says how many objects of a group are done: "1 of 2 ready".
func doneOf(g *event.GroupState, removing bool) string {
	what := "ready"
	if removing {
		what = "gone"
	}
	return fmt.Sprintf("%d of %d %s", g.Done, len(g.Objects), what)
}

// mostNamed is how many of a list are named.
const mostNamed = 5

// someOf lists names: "a, b, c", or of many the first: "a, b, c, d, e and 12 more".
func someOf(names []string) string {
	if over := len(names) - mostNamed; over > 0 {
		return strings.Join(names[:mostNamed], ", ") + fmt.Sprintf(" and %d more", over)
	}
	return strings.Join(names, ", ")
}

// place names an object and its group.
func place(o *plan.Object, group string) string {
	switch {
	case o == nil:
		return group
	case group == "":
		return o.String()
	}
	return o.String() + " in " + group
}

// unitName is the id of a group, and says which is its removal where the
// operation brings and removes a group of the same id.
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

// table sets rows in columns, each two blanks from the next, indented by two.
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

// tableIn is table without some columns, as far as it is too wide with them for a
// terminal; width 0 stands for none. The last column is left out first.
func tableIn(rows [][]string, wide int, columns ...int) []string {
	lines := table(rows)
	last := len(columns) - 1
	if wide == 0 || last < 0 || !slices.ContainsFunc(lines, func(l string) bool { return width(l) > wide }) {
		return lines
	}
	narrow := make([][]string, len(rows))
	for n, r := range rows {
		narrow[n] = slices.Delete(slices.Clone(r), columns[last], columns[last]+1)
	}
	return tableIn(narrow, wide, columns[:last]...)
}

// width counts characters; names in Kubernetes are ASCII.
func width(s string) int { return len([]rune(s)) }

// rulesWidth is the longest line that is still easy to read.
const rulesWidth = 100

var (
	code     = regexp.MustCompile("`[^`]+`")
	emphasis = regexp.MustCompile(`\*[^*]+\*`)
)

// Rules writes entries of engine.RulesDoc: as the Markdown that they are, or,
// where width is not 0, for a terminal of so many columns.
func Rules(w io.Writer, markdown string, style Style, width int) error {
	w = styled(w, style)
	if width <= 0 {
		return write(w, markdown)
	}
	marks := func(role theme.Role, mark string) func(string) string {
		return func(s string) string { return style.render(role, strings.Trim(s, mark)) }
	}
	var b, paragraph strings.Builder
	end := func() {
		text := code.ReplaceAllStringFunc(paragraph.String(), marks(theme.Accent, "`"))
		b.WriteString(fill(emphasis.ReplaceAllStringFunc(text, marks(theme.Strong, "*")), min(width, rulesWidth)))
		paragraph.Reset()
	}
	for line := range strings.Lines(markdown) {
		title, heading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		switch {
		case heading:
			end()
			b.WriteString(style.render(theme.Strong, strings.TrimSpace(title)) + "\n")
		case line == "\n":
			end()
			b.WriteString(line)
		default:
			paragraph.WriteString(line)
		}
	}
	end()
	return write(w, b.String())
}

// fill breaks text into lines of at most width columns, between words only: a
// break at a hyphen would cut flags and annotations in two.
func fill(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := ansi.StringWidth(word)
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
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
