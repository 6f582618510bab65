package report

import (
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
)

// Style is the theme of the output, and whether it may have colours.
type Style struct {
	Theme theme.Theme
	// Codes allows control sequences for colour and the like. Without them the output is plain text.
	Codes bool
}

// glyph returns the symbol of a status, or a dot for "".
func (s Style) glyph(st event.Status) string {
	if st == "" {
		return s.render(theme.Quiet, s.Theme.Lines.Dot)
	}
	m := s.Theme.Mark(string(st))
	return s.render(m.Role, m.Glyph)
}

// mark returns the glyph and the word of a status.
func (s Style) mark(st event.Status) string {
	m := s.Theme.Mark(string(st))
	return s.render(m.Role, m.Glyph+" "+m.Word)
}

func (s Style) word(st event.Status) string { return s.Theme.Mark(string(st)).Word }

// glyphAndWord is like mark, but only the glyph has a colour.
func (s Style) glyphAndWord(st event.Status) string { return s.glyph(st) + " " + s.word(st) }

// render styles one line of text and removes unsafe characters.
func (s Style) render(r theme.Role, words string) string {
	if !s.Codes {
		return clean(words)
	}
	return s.Theme.Render(r, clean(words))
}

// Title returns the heading of a section of help.
func (s Style) Title(words string) string { return s.render(theme.Strong, words) }

// Name returns a command or a flag in help, with its indentation.
func (s Style) Name(words string) string {
	name := strings.TrimLeft(words, " ")
	return words[:len(words)-len(name)] + s.render(theme.Accent, name)
}

// bar returns the line in front of quoted text.
func (s Style) bar() string {
	return s.render(theme.Faint, s.Theme.Lines.Light[theme.ArmUp|theme.ArmDown])
}

// clean makes text from charts, clusters and users safe to show on one line.
func clean(s string) string { return text.Line(s) }

// Stream is where output goes.
type Stream struct {
	io.Writer
	Style Style
	// Terminal reports whether the output is a terminal. Data (a manifest for kubectl)
	// is written unchanged to anything else.
	Terminal bool
	// Width is the number of columns of a terminal, else 0.
	Width int
	// CI is the system that reads the output.
	CI CI
}

// sanitizer is the last step of all output. Lines are already cleaned when they are composed; the
// sanitizer guarantees that nothing but lockstep's control sequences is written.
type sanitizer struct {
	w    io.Writer
	safe func(string) string

	mu   sync.Mutex
	rest string // an incomplete UTF-8 character at the end of the last Write
}

// Safe returns a writer that removes control sequences, for text such as logs.
func Safe(w io.Writer) io.Writer { return newSanitizer(w, text.Block) }

// styled returns a writer that removes all control sequences except those of a style.
func styled(w io.Writer, style Style) io.Writer {
	allowed := style.sequences()
	return newSanitizer(w, func(s string) string { return style.Theme.Plain(sanitize(s, allowed)) })
}

// escaped returns a writer of JSON that escapes unsafe characters.
func escaped(w io.Writer) io.Writer {
	return newSanitizer(w, func(s string) string { return string(text.EscapeJSON([]byte(s))) })
}

// newSanitizer returns w itself if it is a sanitizer already.
func newSanitizer(w io.Writer, safe func(string) string) io.Writer {
	if z, ok := w.(*sanitizer); ok {
		return z
	}
	return &sanitizer{w: w, safe: safe}
}

func (z *sanitizer) Write(p []byte) (int, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	s := z.rest + string(p)
	cut := len(s) - partial(s)
	s, z.rest = s[:cut], s[cut:]
	if _, err := io.WriteString(z.w, z.safe(s)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// partial returns the length of the incomplete character at the end of s.
func partial(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if end := s[len(s)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRuneInString(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// sanitize makes s safe, except for the control sequences that allowed matches. allowed may be nil.
func sanitize(s string, allowed *regexp.Regexp) string {
	if allowed == nil {
		return text.Block(s)
	}
	var b strings.Builder
	at := 0
	for _, m := range allowed.FindAllStringIndex(s, -1) {
		b.WriteString(text.Block(s[at:m[0]]) + s[m[0]:m[1]])
		at = m[1]
	}
	return b.String() + text.Block(s[at:])
}

// sequences matches the control sequences of a style; nil if it has none.
func (s Style) sequences() *regexp.Regexp {
	if !s.Codes {
		return nil
	}
	var all []string
	for role := theme.Text; role <= theme.Selected; role++ {
		for code := range strings.SplitSeq(s.Theme.Render(role, "x"), "x") {
			if code != "" {
				all = append(all, regexp.QuoteMeta(code))
			}
		}
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}

// wrapper wraps lines that are too long for a terminal. Continuation lines are indented; in quoted
// text they also start with the bar. Each Write must be whole lines.
type wrapper struct {
	w       io.Writer
	columns int    // 0 for no wrapping
	bar     string // in front of quoted text
}

// minTextWidth is the minimum number of columns for text, however narrow the terminal is.
const minTextWidth = 20

func (w wrapper) Write(p []byte) (int, error) {
	if w.columns <= 0 {
		return w.w.Write(p)
	}
	var b strings.Builder
	for _, line := range text.Lines(string(p)) {
		b.WriteString(w.wrap(line) + "\n")
	}
	if _, err := io.WriteString(w.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w wrapper) wrap(line string) string {
	if ansi.StringWidth(line) <= w.columns {
		return line
	}
	text := strings.TrimLeft(line, " ")
	first := line[:len(line)-len(text)]
	more := first + "  "
	if strings.HasPrefix(ansi.Strip(text), w.bar+" ") {
		end := strings.Index(line, w.bar) + len(w.bar)
		first = line[:end+strings.IndexByte(line[end:], ' ')+1]
		more = first
	}
	room := max(w.columns-ansi.StringWidth(more), minTextWidth)
	const hyphen = "\ue000" // one cell wide, and never the end of a line: flags stay whole
	wrapped := ansi.Wrap(strings.ReplaceAll(line[len(first):], "-", hyphen), room, "")
	lines := strings.Split(strings.ReplaceAll(wrapped, hyphen, "-"), "\n")
	for n, l := range lines[1:] {
		lines[n+1] = more + strings.TrimLeft(l, " ")
	}
	return first + strings.Join(lines, "\n")
}
