package report

import (
	"io"
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"lockstep/theme"
)

// maxPageWidth is the longest line that is easy to read.
const maxPageWidth = 100

// inlineMarks matches code and emphasis.
var inlineMarks = regexp.MustCompile("`[^`]+`|\\*[^*]+\\*")

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
	indent    string          // of its lines but the first
	rows      [][]string      // of a table, not yet written
}

func (p *page) add(line string) {
	switch first := line[0]; {
	case first == '|':
		p.addRow(line)
	case !p.terminal:
		p.flush()
		p.out.WriteString(line)
	case first == '#':
		p.flush()
		p.out.WriteString(p.style.render(theme.Strong, strings.Trim(line, "# \n")) + "\n")
	case first == '\n', first == ' ' && p.paragraph.Len() == 0:
		p.flush()
		p.out.WriteString(line)
	default:
		if first == '-' {
			p.flush()
			p.indent = "  "
		}
		p.paragraph.WriteString(line)
	}
}

// addRow adds the row of a table, unless it is the line below the headings.
func (p *page) addRow(line string) {
	var cells []string
	for _, cell := range strings.Split(line, "|")[1:] {
		cells = append(cells, p.inline(strings.TrimSpace(cell)))
	}
	cells = cells[:len(cells)-1] // after the last bar
	if len(cells) > 0 && line[1] != '-' {
		p.rows = append(p.rows, cells)
	}
}

// flush writes the table and the paragraph that end before the next line.
func (p *page) flush() {
	if len(p.rows) > 0 {
		p.out.WriteString(pageTable(p.rows, p.columns))
		p.rows = nil
	}
	for _, l := range Fill(p.inline(p.paragraph.String()), p.columns, p.indent) {
		p.out.WriteString(l + "\n")
	}
	p.paragraph.Reset()
	p.indent = ""
}

// inline styles code and emphasis for a terminal.
func (p *page) inline(text string) string {
	if !p.terminal {
		return text
	}
	return inlineMarks.ReplaceAllStringFunc(text, func(s string) string {
		role := theme.Strong
		if s[0] == '`' {
			role = theme.Accent
		}
		return p.renderWords(role, s[1:len(s)-1])
	})
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
	widths, wraps := columnWidths(rows, columns)
	var lines [][]string
	for n, r := range rows {
		if wraps && n > 0 {
			lines = append(lines, nil)
		}
		start := len(lines)
		lines = append(lines, make([]string, len(r)))
		for i, cell := range r {
			for k, part := range Fill(cell, widths[i], "") {
				if start+k == len(lines) {
					lines = append(lines, make([]string, len(r)))
				}
				lines[start+k][i] = part
			}
		}
	}
	return unindent(table(lines))
}

// columnWidths returns the width of each column of a table that fits in columns, if possible. wraps
// reports whether cells are wider than that.
func columnWidths(rows [][]string, columns int) (widths []int, wraps bool) {
	var words []int // the longest word of each column
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
	wraps = total > columns
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
	return widths, wraps
}

// Fill wraps text to a width, with an indent for all lines but the first. It breaks lines only
// between words: a break at a hyphen would split flags and annotations.
func Fill(text string, width int, indent string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), indent+word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
