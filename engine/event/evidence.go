package event

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/engine/text"
)

// Repeats reports whether line only repeats text: text contains the line, or at least half of it after a prefix such as
// "FailedCreate: Error creating: ". Names of pods may differ. An empty line counts as repeated.
func Repeats(line, text string) bool {
	line, text = withoutPods(line), withoutPods(text)
	for rest, more := line, true; more && 2*len(rest) >= len(line); _, rest, more = strings.Cut(rest, ": ") {
		if containsWords(text, rest) {
			return true
		}
	}
	return false
}

// containsWords reports whether text contains words, and not only as parts of longer words: "attempt 12" does not contain
// "attempt 1".
func containsWords(text, words string) bool {
	for rest, found := text, true; found; {
		var before string
		if before, rest, found = strings.Cut(rest, words); found && !joined(before, words) && !joined(words, rest) {
			return true
		}
	}
	return false
}

// joined reports whether a word continues from the end of a to the start of b.
func joined(a, b string) bool {
	last, _ := utf8.DecodeLastRuneInString(a)
	first, _ := utf8.DecodeRuneInString(b)
	return isWord(last) && isWord(first)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// podName matches pod names in events ("in pod NAME") and in refusals.
var podName = regexp.MustCompile(`in pod \S+|pods "[^"]+"`)

func withoutPods(line string) string {
	return strings.TrimSpace(podName.ReplaceAllString(text.Line(line), "pod"))
}
