package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// plan writes the phases that have not been written yet, as a table: where a
// group stands, what it is, how many objects it has, what it waits for.
func (t *Text) plan(phases []event.Phase) {
	var rows [][]string
	groups, objects := 0, 0
	for _, p := range phases {
		if t.planned[p.Name] {
			continue
		}
		t.planned[p.Name] = true
		rows = append(rows, phaseRows(p)...)
		groups += len(p.Groups)
		for _, g := range p.Groups {
			objects += len(g.Objects)
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(t.out, "\nplan: %s in %s\n", Count(objects, "object"), Count(groups, "group"))
	for _, line := range table(rows) {
		fmt.Fprintln(t.out, clean(line))
	}
	t.quiet = true
}

// phaseRows are the lines of a phase: column, group, objects, gates. A layer is
// what could run at the same time.
func phaseRows(p event.Phase) [][]string {
	var rows [][]string
	layer, after := layers(p.Groups), plan.Reduce(p.Groups)
	last := ""
	for _, g := range inLayers(p.Groups, layer) {
		column := p.Name
		if p.Kind == event.PhaseApply || p.Kind == event.PhaseRemove {
			column += " " + strconv.Itoa(layer[g.ID])
		}
		shown := column
		if column == last {
			shown = ""
		}
		last = column
		wait := ""
		if len(after[g.ID]) > 0 {
			wait = "after " + strings.Join(after[g.ID], ", ")
		}
		rows = append(rows, []string{shown, g.ID, Count(len(g.Objects), "object"), wait})
	}
	return rows
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
