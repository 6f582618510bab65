package report

import (
	"io"
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"lockstep/theme"
)

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
