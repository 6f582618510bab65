package report

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"lockstep/engine/text"
	"lockstep/theme"
)

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

// helmsColours matches what Helm colours: heads of tables, statuses, and namespaces.
var helmsColours = regexp.MustCompile(`\x1b\[(?:(?:1|3[1-3])m(?:[A-Z]+(?: [A-Z]+)?|deployed|failed|unknown|uninstalling|pending-[a-z]+)|36m[a-z0-9-]+)\x1b\[(?:0|22)(?:;(?:0|22))*m`)

// Text is where Helm writes text.
func (r results) Text() io.Writer {
	return newBorder(r.out.disarmed(), func(s string) string { return keep(helmsColours, s) })
}

// Data is where data is written that is piped to other programs: to a terminal as
// text, elsewhere as it is.
func (r results) Data() io.Writer {
	if r.out.Terminal {
		return Safe(r.out.Writer)
	}
	return r.out.Writer
}
