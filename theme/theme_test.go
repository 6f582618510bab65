package theme

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// combinations calls f for every theme that options allow.
func combinations(f func(Theme)) {
	for _, look := range []Look{Standard, HighContrast, ColourBlind} {
		for _, bg := range []Background{Detect, Dark, Light} {
			for _, depth := range []Depth{Full, Basic, None} {
				for _, ascii := range []bool{false, true} {
					f(New(Options{Look: look, Background: bg, Depth: depth, ASCII: ascii}))
				}
			}
		}
	}
}

// TestMarks: every status has a glyph of one cell and a word, and statuses that users must tell apart
// have different glyphs.
func TestMarks(t *testing.T) {
	apart := []string{"ready", "in-progress", "waiting", "held", "failed", "skipped", "unchanged"}
	combinations(func(th Theme) {
		for status := range marks {
			m := th.Mark(status)
			if utf8.RuneCountInString(m.Glyph) != 1 || m.Word == "" {
				t.Errorf("%q looks like %+v", status, m)
			}
			if th.ASCII && m.Glyph[0] >= utf8.RuneSelf {
				t.Errorf("%q has the glyph %q in ASCII", status, m.Glyph)
			}
		}
		seen := map[string]string{}
		for _, status := range apart {
			g := th.Mark(status).Glyph
			if other, ok := seen[g]; ok {
				t.Errorf("%s and %s have the same glyph %s", status, other, g)
			}
			seen[g] = status
		}
	})
	standard := New(Options{})
	if m := standard.Mark("brand-new"); m.Word != "brand-new" || m.Glyph != "?" {
		t.Errorf("an unknown status looks like %+v", m)
	}
}

// TestDepth: None has no colour, Basic uses only the terminal's 16, and good, busy and bad look different
// if there is any colour.
func TestDepth(t *testing.T) {
	combinations(func(th Theme) {
		for r := Text; r < roles; r++ {
			out := th.Render(r, "x")
			switch {
			case th.Depth == None && strings.ContainsAny(strings.ReplaceAll(out, "\x1b[m", ""), "3456789") && !strings.Contains(out, "[1;7m"):
				t.Errorf("role %d has a colour in depth None: %q", r, out)
			case th.Depth == Basic && (strings.Contains(out, "38;") || strings.Contains(out, "48;")):
				t.Errorf("role %d has more than 16 colours: %q", r, out)
			}
		}
		if th.Depth == None {
			return
		}
		good, busy, bad := th.Render(Good, "x"), th.Render(Busy, "x"), th.Render(Bad, "x")
		if good == busy || busy == bad || good == bad {
			t.Errorf("%+v renders statuses alike: %q %q %q", th.Options, good, busy, bad)
		}
	})
}

// TestLines: all line characters are one cell wide, and ASCII if requested.
func TestLines(t *testing.T) {
	for _, l := range []Lines{unicodeLines, asciiLines} {
		all := append(append(l.Light[:], l.Heavy[:]...), l.Round[:]...)
		all = append(all, l.Arrow, l.More, l.Less, l.Cursor, l.Break, l.Bar, l.Half, l.Rest, l.Ellipsis, l.Dot)
		for _, s := range all {
			if utf8.RuneCountInString(s) != 1 {
				t.Errorf("%q is not one character", s)
			}
		}
	}
	for _, s := range append(asciiLines.Light[:], asciiLines.Ellipsis, asciiLines.Arrow, asciiLines.Enter) {
		if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
			t.Errorf("%q is not ASCII", s)
		}
	}
}

// TestASCIISigns: an ASCII sign stands for only one Unicode sign, except for arms of lines and arrows.
func TestASCIISigns(t *testing.T) {
	means := map[string]string{}
	sign := func(ascii, unicode string) {
		switch {
		case strings.Contains("▶▸", unicode):
			unicode = "▸"
		case strings.Contains("┃━╸", unicode):
			unicode = "╋"
		}
		if was, ok := means[ascii]; ok && was != unicode {
			t.Errorf("%s stands for both %s and %s", ascii, was, unicode)
		}
		means[ascii] = unicode
		if len(ascii) != 1 || ascii[0] >= utf8.RuneSelf {
			t.Errorf("%q is not one ASCII character", ascii)
		}
	}
	for _, m := range marks {
		sign(m.ascii, m.glyph)
	}
	u, a := unicodeLines, asciiLines
	for i, s := range []string{u.Arrow, u.More, u.Less, u.Cursor, u.Break, u.Next, u.Bar, u.Half, u.Ellipsis} {
		sign([]string{a.Arrow, a.More, a.Less, a.Cursor, a.Break, a.Next, a.Bar, a.Half, a.Ellipsis}[i], s)
	}
	for i := 1; i < 16; i++ {
		sign(a.Heavy[i], "╋")
		if _, ok := means[a.Light[i]]; ok {
			t.Errorf("%s is also a line", a.Light[i])
		}
	}
}

// inFonts are characters that DejaVu Sans Mono 2.37 has and that no terminal draws as an emoji two cells
// wide.
const inFonts = "✓✗○◐◓◑◒◴◵◶◷◇⊘↩–‖!●│─└┌├┘┴┐┤┬┼┃━┗┏┣┛┻┓┫┳╋╭╮╰╯▶▸◂▷╸…·↵←→"

// TestGlyphsAreInFonts rejects glyphs that nobody has checked.
func TestGlyphsAreInFonts(t *testing.T) {
	l := unicodeLines
	all := append(append(append([]string{}, l.Light[1:]...), l.Heavy[1:]...), l.Round[:]...)
	all = append(all, l.Arrow, l.More, l.Less, l.Cursor, l.Break, l.Next, l.Bar, l.Half, l.Rest, l.Ellipsis, l.Dot, l.Enter, l.Left, l.Right)
	for _, m := range marks {
		all = append(all, m.glyph)
	}
	for _, g := range all {
		if !strings.Contains(inFonts, g) {
			t.Errorf("is %s in DejaVu Sans Mono?", g)
		}
	}
}

// TestPlain converts text to ASCII, one character for each.
func TestPlain(t *testing.T) {
	ascii, all := New(Options{ASCII: true}), New(Options{})
	for in, want := range map[string]string{"plain": "plain", "wait … 3×5 — “done” · é": `wait ~ 3x5 - "done" - ?`, "✓ ⏸ ‖ → ╭─╮": `v " " > +-+`, "日本": "??"} {
		if got := ascii.Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
		if got := all.Plain(in); got != in {
			t.Errorf("Plain(%q) = %q in a Unicode theme", in, got)
		}
	}
}

func TestFromEnv(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want Options
	}{
		{"nothing set", nil, Options{}},
		{"any value of NO_COLOR counts", map[string]string{"NO_COLOR": "yes"}, Options{Depth: None}},
		{"even 0", map[string]string{"NO_COLOR": "0"}, Options{Depth: None}},
		{"an empty one does not", map[string]string{"NO_COLOR": ""}, Options{}},
		{"ASCII", map[string]string{"LOCKSTEP_ASCII": "1"}, Options{ASCII: true}},
		{"a locale without UTF-8", map[string]string{"LANG": "C"}, Options{ASCII: true}},
		{"LC_ALL comes first", map[string]string{"LC_ALL": "de_DE.utf8", "LANG": "C"}, Options{}},
		{"ACCESSIBLE", map[string]string{"ACCESSIBLE": "1"}, Options{Still: true}},
		{"a theme", map[string]string{"LOCKSTEP_THEME": "Light, high-contrast"}, Options{Background: Light, Look: HighContrast}},
		{"colour-blind", map[string]string{"LOCKSTEP_THEME": "color-blind"}, Options{Look: ColourBlind}},
	} {
		got, err := FromEnv(func(k string) string { return c.env[k] })
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	got, err := FromEnv(func(k string) string { return map[string]string{"LOCKSTEP_THEME": "pink", "NO_COLOR": "1"}[k] })
	if err == nil || !strings.Contains(err.Error(), `LOCKSTEP_THEME: unknown theme "pink"`) || got.Depth != None {
		t.Errorf("an unknown theme: %+v, %v", got, err)
	}
}

// TestImports: the package imports neither the engine nor a screen.
func TestImports(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if strings.Contains(path, ".") && path != "charm.land/lipgloss/v2" || strings.HasPrefix(path, "lockstep/") {
				t.Errorf("%s imports %s", f.Name(), path)
			}
		}
	}
}
