package status

import (
	"regexp"
	"strings"
	"unicode"
)

// MaxText is the number of characters that CleanText leaves.
const MaxText = 400

// escapes matches terminal control sequences: CSI, OSC and the like (DCS, PM,
// APC) up to their end or the end of the text, and short escapes.
var escapes = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c})?` +
	`|\x1b[ -/]*[0-~]?`)

// CleanText makes one line of text that came from the cluster, fit to be
// printed on a terminal: terminal sequences, control characters and marks that
// turn the direction of writing are taken out, white space of any kind and
// length becomes one blank, and what is longer than MaxText characters ends in
// "…".
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
