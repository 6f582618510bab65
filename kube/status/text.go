package status

import (
	"strings"
	"unicode/utf8"

	"lockstep/engine/text"
)

// MaxText is the most characters that CleanText returns.
const MaxText = 400

// CleanText turns text from the cluster into one line that is safe to print on
// a terminal (text.Line): it turns white space of any kind and length into one
// blank, and cuts what is longer than MaxText characters, with "…" at the end.
func CleanText(s string) string {
	s = strings.Join(strings.Fields(text.Line(s)), " ")
	n := 0
	for i := range s {
		if n == MaxText-1 && utf8.RuneCountInString(s[i:]) > 1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
		n++
	}
	return s
}
