package canvas

import (
	"strings"
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                 "plain",
		"\x1b[31mred\x1b[0m":    "red",
		"\x1b]8;;http://x\x07a": "a",
		"a\tb":                  "a    b",
		"a\r\nb\nc":             "a b c",
		"\u202eevil":            "evil",
		"bell\a":                "bell",
		"日本":                    "日本",
		"\x9b31mcsi":            "\ufffd31mcsi",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		over bool
		want string
	}{
		{0, false, "0 s"}, {-time.Second, true, "0.0 s"}, {420 * time.Millisecond, true, "0.4 s"}, {420 * time.Millisecond, false, "0 s"},
		{59900 * time.Millisecond, true, "1:00"}, {23600 * time.Millisecond, true, "24 s"}, {72 * time.Second, true, "1:12"}, {3723 * time.Second, false, "1:02:03"},
	} {
		format := Span
		if c.over {
			format = Took
		}
		if got := format(c.d); got != c.want {
			t.Errorf("%s (over: %t) is %q, want %q", c.d, c.over, got, c.want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"━", 1, "━"}, {"━━", 1, "…"}, {"abc", 3, "abc"}, {"abc", 2, "a…"}, {"abc", 0, ""}} {
		if got := Fit(c.text, c.width, "…"); got != c.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestWrapKeepsUnits: a number and its unit stay on one line.
func TestWrapKeepsUnits(t *testing.T) {
	for text, want := range map[string]string{
		"times out in 37 s":  "times out in|37 s",
		"times out in 37 s;": "times out in|37 s;",
		"group 37 still":     "group 37 still", // no unit
		"in 1 2 s":           "in 1 2 s",
	} {
		if got := strings.Join(Wrap(text, 15), "|"); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
