// Package text makes words from elsewhere safe to show. Names, messages and logs
// come from charts and clusters, and somebody else may have written them: nothing
// in them may steer a terminal, turn the direction of writing, or hide.
//
// What is unsafe is decided in Safe alone. The screen cleans what it puts into
// cells; all other output leaves through the writers of package report, which
// clean again what was forgotten before.
package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sequences matches the control sequences of terminals: CSI; OSC, DCS, SOS, PM
// and APC with their text, where that ends on the line, for otherwise they would
// hide the rest of it; and short ones.
var sequences = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])(?:[^\x07\x1b\x{90}-\x{9f}\n]*(?:\x07|\x1b\\|\x{9c}))?` +
	`|\x1b[ -/]*[0-~]?`)

// Safe reports whether a character may be shown: it is no control character (of
// C0, such as line ends, of C1, or DEL), no mark of the direction of writing, ends
// no line, and is not invisible.
func Safe(r rune) bool {
	switch {
	case r < 0x20 || r == 0x7f:
		return false
	case r < 0x7f:
		return true
	case r >= 0x2070 && r < 0x3000: // lines, arrows and signs, of which the screen is full
		return true
	case r == 0xfe0e || r == 0xfe0f: // text or emoji
		return true
	}
	return safe(r)
}

func safe(r rune) bool {
	return !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point) &&
		(!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Prepended_Concatenation_Mark, r))
}

// Line makes one line that is safe to show. Control sequences and unsafe
// characters are left out; line ends and tabs become a blank each, what is not
// UTF-8 becomes U+FFFD.
func Line(s string) string {
	if isSafe(s) {
		return s
	}
	return clean(s, func(rune) bool { return false })
}

// Block is Line for text of several lines: line ends and tabs stay.
func Block(s string) string {
	if isSafe(s) {
		return s
	}
	return clean(s, func(r rune) bool { return r == '\n' || r == '\t' })
}

func isSafe(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return utf8.ValidString(s) && !strings.ContainsFunc(s, unsafe)
		}
		if !Safe(rune(s[i])) {
			return false
		}
	}
	return true
}

func unsafe(r rune) bool { return !Safe(r) }

func clean(s string, stays func(rune) bool) string {
	s = sequences.ReplaceAllString(strings.ToValidUTF8(s, "\ufffd"), "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case Safe(r), stays(r):
			return r
		case unicode.IsSpace(r) && r != '\r': // what was overwritten is shown, too
			return ' '
		}
		return -1
	}, s)
}

// EscapeJSON writes the unsafe characters of JSON as \uXXXX: in valid JSON they
// can be in strings only, line ends apart.
func EscapeJSON(json []byte) []byte {
	s := string(json)
	if !strings.ContainsFunc(s, unsafe) && utf8.ValidString(s) {
		return json
	}
	var out []byte
	for _, r := range s { // what is not UTF-8 comes as U+FFFD
		switch {
		case r == '\n' || r == '\t' || Safe(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			out = appendEscape(appendEscape(out, high), low)
		default:
			out = appendEscape(out, r)
		}
	}
	return out
}

func appendEscape(out []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
