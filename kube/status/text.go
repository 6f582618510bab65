package status

import (
	"strings"
	"unicode/utf8"

	"lockstep/engine/text"
)

// MaxText is the most characters that CleanText returns. The longest answers of
// an API server that say something with each word, such as what PodSecurity wants
// of several containers, fit in.
const MaxText = 1000

// CleanText turns text from the cluster into one line that is safe to print on
// a terminal (text.Line): it turns white space of any kind and length into one
// blank, and of what is longer than MaxText characters it leaves the middle out,
// with "…" for it: the beginning says what it is about, the end what came of it.
func CleanText(s string) string {
	s = strings.Join(strings.Fields(text.Line(s)), " ")
	if utf8.RuneCountInString(s) <= MaxText {
		return s
	}
	runes := []rune(s)
	const head = MaxText * 2 / 3
	return strings.TrimRight(string(runes[:head]), " ") + "…" + string(runes[len(runes)-(MaxText-head-1):])
}
