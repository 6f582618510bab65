package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// tableIndent is the indentation of a table.
const tableIndent = 2

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
		gap := tableIndent
		for i, cell := range r {
			if cell != "" {
				lines[n] += strings.Repeat(" ", gap) + cell
				gap = 0
			}
			gap += widths[i] - ansi.StringWidth(cell) + 2
		}
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
		table[n] = l[min(len(l), tableIndent):]
	}
	return joinLines(table)
}

// alignRight pads a duration on the left.
func alignRight(duration string) string { return fmt.Sprintf("%7s", duration) }
