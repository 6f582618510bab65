package canvas

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Clean makes text from elsewhere fit to be shown: without control sequences,
// control characters and characters that turn the direction of writing. Tabs
// become spaces, line ends one space.
func Clean(s string) string {
	if !strings.ContainsFunc(s, unfit) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\t", "    ")
	s = ansi.Strip(strings.ReplaceAll(s, "\n", " "))
	return strings.Map(func(r rune) rune {
		if unfit(r) {
			return -1
		}
		return r
	}, s)
}

func unfit(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == unicode.ReplacementChar
}

// Fit cuts text to a width and ends what was cut with the ellipsis.
func Fit(s string, width int, ellipsis string) string {
	switch {
	case width <= 0:
		return ""
	case len(s) <= width: // bytes are never fewer than cells
		return s
	case width == 1:
		return ellipsis
	}
	return ansi.TruncateWc(s, width, ellipsis)
}

// Width is how many cells text takes.
func Width(s string) int {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return ansi.StringWidthWc(s)
		}
	}
	return len(s)
}

// Wrap breaks text into lines of a width.
func Wrap(s string, width int) []string {
	if width <= 0 {
		return nil
	}
	return strings.Split(ansi.WrapWc(Clean(s), width, ""), "\n")
}

// Clock writes a duration as 0:41 or 1:02:03.
func Clock(d time.Duration) string {
	s := int(d / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// Span writes how long something takes or took: 9 s, 1:12, 1:02:03; what took
// less than ten seconds and is over has a tenth of a second: 0.4 s.
func Span(d time.Duration, over bool) string {
	switch {
	case d < 0:
		d = 0
	case d >= time.Minute:
		return Clock(d)
	}
	if over && d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d s", int(d/time.Second))
}

// Count writes "1 object" or "3 objects".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
