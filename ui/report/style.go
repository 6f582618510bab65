package report

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
)

// Style says what the output may contain.
type Style struct {
	Theme theme.Theme
	// Codes allows control sequences for colour and the like. Without them
	// the output is plain text.
	Codes bool
}

// glyph is the sign of a status, or of a line that is about none.
func (s Style) glyph(st event.Status) string {
	if st == "" {
		return s.render(theme.Quiet, s.Theme.Lines.Dot)
	}
	m := s.Theme.Mark(string(st))
	return s.render(m.Role, m.Glyph)
}

// mark is a status as a sign and a word.
func (s Style) mark(st event.Status) string {
	m := s.Theme.Mark(string(st))
	return s.render(m.Role, m.Glyph+" "+m.Word)
}

// word is how a status reads.
func (s Style) word(st event.Status) string { return s.Theme.Mark(string(st)).Word }

// render gives text of one line a role; what is not safe in it is left out.
func (s Style) render(r theme.Role, words string) string {
	if !s.Codes {
		return clean(words)
	}
	return s.Theme.Render(r, clean(words))
}

// bar is the line to the left of a quotation.
func (s Style) bar() string {
	return s.render(theme.Faint, s.Theme.Lines.Light[theme.ArmUp|theme.ArmDown])
}

// clean makes text from elsewhere fit for a line.
func clean(s string) string { return text.Line(s) }

// Stream is where output goes.
type Stream struct {
	io.Writer
	// Style says how text looks there.
	Style Style
	// Terminal tells that a terminal shows it. What is data, a manifest for
	// kubectl for instance, goes elsewhere as it is.
	Terminal bool
	// Width is how many columns a terminal has, 0 elsewhere.
	Width int
	// CI is who reads it.
	CI CI
}

// border is what all output passes on its way out. Text is made safe where it is
// put into a line (clean); the border is there for what was forgotten, so that no
// control sequence but this program's own gets out.
type border struct {
	w    io.Writer
	safe func(string) string

	mu   sync.Mutex
	rest string // the beginning of a character
}

// Safe returns a writer of text that is safe to show, without any control
// sequence: for what others write, logs for instance.
func Safe(w io.Writer) io.Writer { return newBorder(w, text.Block) }

// styled returns a writer of text that may hold the sequences of a style.
func styled(w io.Writer, style Style) io.Writer {
	own := style.own()
	if own == nil {
		return newBorder(w, func(s string) string { return style.Theme.Plain(text.Block(s)) })
	}
	return newBorder(w, func(s string) string { return style.Theme.Plain(keep(own, s)) })
}

// escaped returns a writer of JSON, in which what is unsafe is escaped.
func escaped(w io.Writer) io.Writer {
	return newBorder(w, func(s string) string { return string(text.EscapeJSON([]byte(s))) })
}

// newBorder returns what may pass to w, unless w is a border already.
func newBorder(w io.Writer, safe func(string) string) io.Writer {
	if b, ok := w.(*border); ok {
		return b
	}
	return &border{w: w, safe: safe}
}

// Write writes what is safe of p.
func (b *border) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.rest + string(p)
	cut := len(s) - partial(s)
	s, b.rest = s[:cut], s[cut:]
	if _, err := io.WriteString(b.w, b.safe(s)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// partial is how many bytes at the end of s begin a character.
func partial(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if b := s[len(s)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// keep makes s safe all but what own matches.
func keep(own *regexp.Regexp, s string) string {
	var b strings.Builder
	at := 0
	for _, m := range own.FindAllStringIndex(s, -1) {
		b.WriteString(text.Block(s[at:m[0]]))
		b.WriteString(s[m[0]:m[1]])
		at = m[1]
	}
	return b.String() + text.Block(s[at:])
}

// own matches the control sequences of a style; nil where it has none.
func (s Style) own() *regexp.Regexp {
	if !s.Codes {
		return nil
	}
	var all []string
	for role := theme.Text; role <= theme.Selected; role++ {
		on, off, _ := strings.Cut(s.Theme.Render(role, "x"), "x")
		for _, code := range []string{on, off} {
			if code != "" && !slices.Contains(all, regexp.QuoteMeta(code)) {
				all = append(all, regexp.QuoteMeta(code))
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}

// fitted writes lines so that they fit a terminal: what is too long goes on below,
// a little further in, and what is quoted goes on as a quotation. Each call writes
// whole lines.
type fitted struct {
	w    io.Writer
	wide int    // 0: it is no terminal
	bar  string // stands before what is quoted
}

// leastText is how many columns of a line are text at the least, however narrow the
// terminal is.
const leastText = 20

func (f fitted) Write(p []byte) (int, error) {
	if f.wide <= 0 {
		return f.w.Write(p)
	}
	var b strings.Builder
	for line := range strings.Lines(string(p)) {
		b.WriteString(strings.Join(f.lines(strings.TrimSuffix(line, "\n")), "\n") + "\n")
	}
	if _, err := io.WriteString(f.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lines are those that a line is broken into.
func (f fitted) lines(line string) []string {
	if ansi.StringWidth(line) <= f.wide {
		return []string{line}
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	first, more := indent, indent+"  "
	if strings.HasPrefix(ansi.Strip(line[len(indent):]), f.bar+" ") {
		at := strings.Index(line, f.bar)
		end := at + len(f.bar)
		if space := strings.IndexByte(line[end:], ' '); space >= 0 {
			end += space + 1
		}
		first, more = line[:end], line[:end]
	}
	room := max(f.wide-ansi.StringWidth(more), leastText)
	out := strings.Split(ansi.Wrap(line[len(first):], room, ""), "\n")
	for n, l := range out {
		if n == 0 {
			out[n] = first + l
			continue
		}
		out[n] = more + strings.TrimLeft(l, " ")
	}
	return out
}
