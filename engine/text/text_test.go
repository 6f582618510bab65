package text

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "",
		"plain – text 日本語 é ⚠\ufe0f":           "plain – text 日本語 é ⚠\ufe0f",
		"\x1b[31mred\x1b[0m text":              "red text",
		"\x1b]0;title\x07shown":                "shown",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\a": "link",
		"\x1bPq secret \x1b\\after":            "after",
		"\x1b]0;never ended":                   "0;never ended",
		"a\x00b\x7fc":                          "abc",
		"\u009b31mred":                         "red",
		"\u009dtitle\u009cshown":               "shown",
		"left\u202eright\u2066!\u200f\u061c":   "leftright!",
		"bad \xff byte, \x9b31m":               "bad \ufffd byte, \ufffd31m",
		"line\u2028separator\u2029":            "line separator ",
		"\x1b(Bcharset \x1bcreset":             "charset reset",
		"cut \x1b[31":                          "cut ",
		"tab\tand\r\nend\r":                    "tab and end",
		"z\u200be\u200cr\u200do\ufeff\u00ad":   "zero",
		"tag\U000e0041\U000e007f\U000e0100":    "tag",
		"hangul\u3164filler\u115f\u2060":       "hangulfiller",
		"overwritten\rby this":                 "overwrittenby this",
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSafeFastPath(t *testing.T) {
	for r := rune(0x2070); r < 0x3000; r++ {
		if !safeByCategory(r) {
			t.Errorf("%U is not safe", r)
		}
	}
}

func TestBlockKeepsLines(t *testing.T) {
	const in, want = "a\r\n\tb\x1b[2J\n\u202ec", "a\n\tb\nc"
	if got := Block(in); got != want {
		t.Errorf("Block(%q) = %q, want %q", in, got, want)
	}
}

func TestEscapeJSONKeepsTheValue(t *testing.T) {
	want := "a\u009bb\u202ec\u200dd\U000e0041e\x7f\x1b\n日本"
	raw, err := json.Marshal(map[string]string{want: want})
	if err != nil {
		t.Fatal(err)
	}
	out := EscapeJSON(raw)
	if i := strings.IndexFunc(string(out), unsafe); i >= 0 {
		t.Errorf("unsafe at %d: %q", i, out)
	}
	var got map[string]string
	if err := json.Unmarshal(out, &got); err != nil || got[want] != want {
		t.Errorf("Unmarshal(%s) = %q, %v; want the value %q", out, got, err, want)
	}
}

// FuzzText checks the guarantees for all text from outside the program.
func FuzzText(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31mred", "\x1b]0;t\x07", "\u202e\u009b", "\xff\xfe", "\x1b\x1b[[0m0m", "\x1b\u200b[31m", "a\n\tb", "\u009b\x1b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line, block := Line(s), Block(s)
		if !utf8.ValidString(line) || strings.ContainsFunc(line, unsafe) {
			t.Errorf("Line(%q) = %q", s, line)
		}
		if !utf8.ValidString(block) || strings.ContainsFunc(block, func(r rune) bool { return !Safe(r) && r != '\n' && r != '\t' }) {
			t.Errorf("Block(%q) = %q", s, block)
		}
		if Line(line) != line || Block(block) != block {
			t.Errorf("cleaning %q twice changes it: %q, %q", s, line, block)
		}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want, got string
		escaped := EscapeJSON(raw)
		if json.Unmarshal(raw, &want) != nil || json.Unmarshal(escaped, &got) != nil || got != want {
			t.Errorf("EscapeJSON(%s) = %s", raw, escaped)
		}
		if strings.ContainsFunc(string(escaped), unsafe) {
			t.Errorf("EscapeJSON(%s) = %q", raw, escaped)
		}
	})
}

func TestCount(t *testing.T) {
	if got := Count(0, "group") + ", " + Count(1, "group") + ", " + Count(12, "group"); got != "0 groups, 1 group, 12 groups" {
		t.Error(got)
	}
}

func TestNamed(t *testing.T) {
	if got := Named("finalizer", []string{"a/b"}) + ", " + Named("finalizer", []string{"a/b", "c"}); got != "finalizer a/b, finalizers a/b, c" {
		t.Error(got)
	}
}

func TestJoinAnd(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		if got := JoinAnd(names); got != want {
			t.Errorf("%q: got %q, want %q", names, got, want)
		}
	}
}

func TestTrimFullStop(t *testing.T) {
	for in, want := range map[string]string{"": "", "a.": "a", "a": "a", "a...": "a...", "1.5": "1.5"} {
		if got := TrimFullStop(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestProgramName: who calls lockstep as a plugin reads the commands as they are typed there.
func TestProgramName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, helmPlugin, want string }{
		{"/usr/bin/lockstep", "", "lockstep"}, {"lockstep.exe", "secrets", "lockstep"}, {"/plugins/lockstep/bin/lockstep", "lockstep", "helm lockstep"},
		{"/usr/bin/kubectl-lockstep", "", "kubectl lockstep"}, {"kubectl-lockstep.exe", "", "kubectl lockstep"},
	} {
		if got := programName(test.path, test.helmPlugin); got != test.want {
			t.Errorf("%s as Helm's plugin %q: %s, want %s", test.path, test.helmPlugin, got, test.want)
		}
	}
}
