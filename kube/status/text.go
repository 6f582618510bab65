package status

import (
	"regexp"
	"strings"
	"unicode"
)

// MaxText is the most characters that CleanText returns.
const MaxText = 400

// escapes matches terminal control sequences: CSI, OSC and the like (DCS, PM,
// APC) up to their end or the end of the text, and short escapes.
var escapes = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c})?` +
	`|\x1b[ -/]*[0-~]?`)

// CleanText turns text from the cluster into one line that is safe to print on
// a terminal: it removes control sequences, control characters and the marks
// that change the direction of writing, turns white space of any kind and length
// into one blank, and cuts what is longer than MaxText characters, with "…" at
// the end.
func CleanText(s string) string {
	s = escapes.ReplaceAllString(strings.ToValidUTF8(s, "\ufffd"), "")
	var text []rune
	blank := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			blank = len(text) > 0
			continue
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\ufeff':
			continue
		}
		if blank {
			text = append(text, ' ')
			blank = false
		}
		text = append(text, r)
		if len(text) > MaxText {
			return strings.TrimRight(string(text[:MaxText-1]), " ") + "…"
		}
	}
	return string(text)
}
