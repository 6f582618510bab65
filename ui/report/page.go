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
	widths, wraps := columnWidths(rows, columns)
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
