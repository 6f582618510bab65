// Package text makes untrusted text safe to show: names, messages and logs from charts and
// clusters must not control the terminal, reverse the text direction, or be invisible.
// Only Safe decides which characters are safe; the screen cleans the text of its cells, and packages
// report and reportfile clean all other output. Program, Count, TrimFullStop and CollapseSpace help to build
// messages. Any package may import it.
package text

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Program is how the user calls lockstep: "lockstep", "helm lockstep" or "kubectl lockstep". Every text that names one of its commands
// starts the command with it.
var Program = programName(os.Args[0], os.Getenv("HELM_PLUGIN_NAME"))

// programName returns how the user calls the program with a path, which Helm runs as a plugin, "" for none. kubectl runs programs of
// the name kubectl-lockstep in PATH.
func programName(path, helmPlugin string) string {
	switch {
	case strings.TrimSuffix(filepath.Base(path), ".exe") == "kubectl-lockstep":
		return "kubectl lockstep"
	case helmPlugin == "lockstep":
		return "helm lockstep"
	}
	return "lockstep"
}

// Duration returns a duration as a user gives it to a flag: 1m, not 1m0s.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// sequence matches a control sequence of terminals: CSI; OSC, DCS, SOS, PM and APC, with their payload if it is
// terminated on the same line (an unterminated one would hide the rest of the text); and other escape sequences.
const sequence = `(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])(?:[^\x07\x1b\x{90}-\x{9f}\n]*(?:\x07|\x1b\\|\x{9c}))?` +
	`|\x1b[ -/]*[0-~]?`

var sequences, firstSequence = regexp.MustCompile(sequence), regexp.MustCompile(`^(?:` + sequence + `)`)

// Safe reports whether a character may be shown. Control characters (C0, C1, DEL), direction
// marks, line separators and invisible characters may not.
func Safe(r rune) bool {
	switch {
	case r < 0x20 || r == 0x7f:
		return false
	case r < 0x7f:
		return true
	case r >= 0x2070 && r < 0x3000: // box drawing, arrows and symbols: a fast path for the screen
		return true
	case r == 0xfe0e || r == 0xfe0f: // variation selectors: text or emoji style
		return true
	}
	return safeByCategory(r)
}

func safeByCategory(r rune) bool {
	return !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point) &&
		(!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Prepended_Concatenation_Mark, r))
}

// Line returns safe text on one line: without control sequences and unsafe characters. Line
// breaks and tabs become spaces, invalid UTF-8 becomes U+FFFD.
func Line(s string) string { return clean(s, "") }

// Block is like Line, but keeps line breaks and tabs.
func Block(s string) string { return clean(s, "\n\t") }

// isSafe reports whether clean would return s as it is.
func isSafe(s, keep string) bool {
	removed := func(r rune) bool { return unsafe(r) && !strings.ContainsRune(keep, r) }
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return utf8.ValidString(s) && !strings.ContainsFunc(s, removed)
		}
		if removed(rune(s[i])) {
			return false
		}
	}
	return true
}

func unsafe(r rune) bool { return !Safe(r) }

// clean returns safe text. It also keeps the characters in keep.
func clean(s, keep string) string {
	if isSafe(s, keep) {
		return s
	}
	s = sequences.ReplaceAllString(strings.ToValidUTF8(s, "\ufffd"), "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case Safe(r), strings.ContainsRune(keep, r):
			return r
		case unicode.IsSpace(r) && r != '\r': // \r moves the cursor, so no space is due
			return ' '
		}
		return -1
	}, s)
}

// Unseen returns the length of what Line and Block remove at the start of a text: a control sequence or an unsafe character. It
// is 0 if that character is shown, or becomes a space.
func Unseen(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError || Safe(r) || unicode.IsSpace(r) && r != '\r' {
		return 0
	}
	return max(n, len(firstSequence.FindString(s)))
}

// Lines returns the lines of a text without their ends, none for "".
func Lines(s string) (lines []string) {
	for l := range strings.Lines(s) {
		lines = append(lines, strings.TrimRight(l, "\r\n"))
	}
	return lines
}

// Count returns a number with its noun: "1 group", "2 groups".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

// Named returns a noun with names: "finalizer a", "finalizers a, b".
func Named(noun string, names []string) string {
	if len(names) != 1 {
		noun += "s"
	}
	return noun + " " + strings.Join(names, ", ")
}

// Join joins the parts that are not empty.
func Join(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// JoinAnd joins names: "a, b and c".
func JoinAnd(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// TrimFullStop removes the full stop at the end of a sentence, so that a semicolon can follow. It keeps an ellipsis.
func TrimFullStop(s string) string {
	if strings.HasSuffix(s, "..") {
		return s
	}
	return strings.TrimSuffix(s, ".")
}

// CollapseSpace returns a text on one line, with one space for each run of white space.
func CollapseSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

// EscapeJSON replaces the unsafe characters in JSON with \uXXXX. It keeps \n and \t, which may also stand between
// tokens; the JSON must have no \r there.
func EscapeJSON(json []byte) []byte {
	s := string(json)
	if !strings.ContainsFunc(s, unsafe) && utf8.ValidString(s) {
		return json
	}
	var out []byte
	for _, r := range s { // invalid UTF-8 becomes U+FFFD
		switch {
		case r == '\n' || r == '\t' || Safe(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// ShellWord quotes a word for a shell, if necessary.
func ShellWord(word string) string {
	if word == Program {
		return word
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !strings.ContainsRune(shellSafe, r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,^"
