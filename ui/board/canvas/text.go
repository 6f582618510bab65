package canvas

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/text"
)

// Clean turns untrusted text into one line that is safe to show (text.Line); a tab becomes four spaces.
func Clean(s string) string { return text.Line(strings.ReplaceAll(s, "\t", "    ")) }

// Fit truncates text to a width; truncated text ends with the ellipsis.
func Fit(s string, width int, ellipsis string) string {
	switch {
	case width <= 0:
		return ""
	case len(s) <= width: // a cell takes at least one byte
		return s
	case width == 1 && Width(s) > 1:
		return ellipsis
	}
	return ansi.TruncateWc(s, width, ellipsis)
}

// Width returns the width of text in cells.
func Width(s string) int {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return ansi.StringWidthWc(s)
		}
	}
	return len(s)
}

// Wrap breaks text into lines of a width: between words (a name with hyphens is one word), and inside
// a word only if it is wider than a line.
func Wrap(s string, width int) []string {
	if width <= 0 {
		return nil
	}
	const hyphen, space = "\ue000", "\ue001" // one cell wide, never broken after
	words := strings.Split(Clean(s), " ")
	joined := ""
	for i, w := range words {
		if Width(w) <= width {
			w = strings.ReplaceAll(w, "-", hyphen)
		}
		switch {
		case i == 0:
		case isUnit(w) && endsInDigit(words[i-1]) && Width(words[i-1])+1+Width(w) <= width:
			joined += space
		default:
			joined += " "
		}
		joined += w
	}
	lines := ansi.HardwrapWc(ansi.WrapWc(joined, width, ""), width, true)
	return strings.Split(strings.NewReplacer(hyphen, "-", space, " ").Replace(lines), "\n")
}

// isUnit reports whether a word is the unit of the number before it, which stays on the same line.
func isUnit(word string) bool {
	return slices.Contains([]string{"s", "min", "h", "d"}, strings.TrimRight(word, ",;:."))
}

func endsInDigit(word string) bool {
	return word != "" && word[len(word)-1] >= '0' && word[len(word)-1] <= '9'
}

// WrapAfter is like Wrap, but the first line has a different width.
func WrapAfter(s string, first, width int) []string {
	if first <= 0 {
		return append([]string{""}, Wrap(s, width)...)
	}
	head := Wrap(s, first)[0]
	rest := strings.TrimSpace(strings.TrimPrefix(Clean(s), head))
	if rest == "" {
		return []string{head}
	}
	return append([]string{head}, Wrap(rest, width)...)
}

// Clock formats a duration as 0:41 or 1:02:03.
func Clock(d time.Duration) string {
	s := int(d / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// Span formats a duration that is not over yet: 9 s, 1:12, 1:02:03.
func Span(d time.Duration) string {
	if d >= time.Minute {
		return Clock(d)
	}
	return fmt.Sprintf("%d s", int(max(d, 0)/time.Second))
}

// Took formats a duration that is over: like Span, but with tenths below ten seconds, 0.4 s.
func Took(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
	}
	return Span(d.Round(time.Second))
}
