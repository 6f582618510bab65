package theme

import (
	"strings"
	"unicode/utf8"
)

// likenesses are characters that have a likeness in ASCII: those that this program
// draws, and what others write for it.
var likenesses = func() map[rune]string {
	like := map[rune]string{
		'‐': "-", '‑': "-", '‒': "-", '—': "-", '−': "-", '•': "*", '×': "x", '→': ">", '←': "<", '≥': ">", '≤': "<",
		'‘': "'", '’': "'", '‚': "'", '“': `"`, '”': `"`, '„': `"`, '«': `"`, '»': `"`, '‹': "<", '›': ">", '\u00a0': " ",
	}
	add := func(signs, ascii []string) {
		for i, s := range signs {
			if r, n := utf8.DecodeRuneInString(s); n > 1 {
				like[r] = ascii[i]
			}
		}
	}
	u, a := unicodeLines, asciiLines
	add(u.Light[:], a.Light[:])
	add(u.Heavy[:], a.Heavy[:])
	add(u.Round[:], a.Round[:])
	add([]string{u.Arrow, u.More, u.Less, u.Open, u.Break, u.Next, u.Half, u.Ellipsis, u.Dot, u.Undo},
		[]string{a.Arrow, a.More, a.Less, a.Open, a.Break, a.Next, a.Half, a.Ellipsis, a.Dot, a.Undo})
	for _, m := range marks {
		add([]string{m.glyph}, []string{m.ascii})
	}
	like['⏸'] = marks["paused"].ascii
	like['–'] = "-" // in text, where it is no mark
	return like
}()

// Plain is text as the theme can show it: where that is in ASCII only, characters
// that have a likeness there are replaced by it, and all others by a question mark.
// Each stays one character.
func (t *Theme) Plain(s string) string {
	if !t.ASCII || !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		if like := likenesses[r]; like != "" {
			return rune(like[0])
		}
		return '?'
	}, s)
}
