package status

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "",
		"  a\n\tb  c \r\n":                     "a b c",
		"\x1b[31mred\x1b[0m text":              "red text",
		"\x1b]0;title\x07shown":                "shown",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\a": "link",
		"\x1bPq secret \x1b\\after":            "after",
		"a\x00b\x7fc\u0085d":                   "abc d",
		"\u009b31mred":                         "red",
		"\u009dtitle\u009cshown":               "shown",
		"left\u202eright\u2066!":               "leftright!",
		"bad \xff byte":                        "bad \ufffd byte",
		"line\u2028separator":                  "line separator",
		"\x1b(Bcharset":                        "charset",
		"unended \x1b[":                        "unended",
		"日本語 é":                                "日本語 é",
	} {
		if got := CleanText(in); got != want {
			t.Errorf("CleanText(%q) = %q, want %q", in, got, want)
		}
	}
	exact := strings.Repeat("é", maxText)
	if got := CleanText(exact); got != exact {
		t.Errorf("text of maxText characters is shortened")
	}
	if got := CleanText(exact + "x"); utf8.RuneCountInString(got) != maxText || !strings.Contains(got, "é…é") || !strings.HasSuffix(got, "éx") {
		t.Errorf("longer text becomes %q", got)
	}
}
