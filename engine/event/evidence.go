package event

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/engine/text"
)

// Repeats reports whether line only repeats known: known contains the line, or at least half of it after a prefix such
// as "FailedCreate: Error creating: ". Names of pods may differ. An empty line counts as repeated.
func Repeats(line, known string) bool {
	line, known = withoutPods(line), withoutPods(known)
	for rest, more := line, true; more && 2*len(rest) >= len(line); _, rest, more = strings.Cut(rest, ": ") {
		if containsWords(known, rest) {
			return true
		}
	}
	return false
}

// containsWords reports whether s contains words, and not only as parts of longer words: "attempt 12" does not contain
// "attempt 1".
func containsWords(s, words string) bool {
	for rest, found := s, true; found; {
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
	return isWordRune(last) && isWordRune(first)
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// podName matches pod names in events ("in pod NAME") and in refusals.
var podName = regexp.MustCompile(`in pod \S+|pods "[^"]+"`)

func withoutPods(line string) string {
	return strings.TrimSpace(podName.ReplaceAllString(text.Line(line), "pod"))
}
