package form

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"lockstep/theme"
	"lockstep/ui/golden"
)

var (
	sizes = [][2]int{{60, 20}, {80, 24}, {100, 30}, {160, 45}, {200, 50}}
	dark  = theme.Options{Background: theme.Dark}
	light = theme.Options{Background: theme.Light}
	bare  = theme.Options{Depth: theme.None}
)

// views are the golden screens.
var views = []struct {
	name   string
	in     Input
	keys   string
	refuse error
	whole  bool // also in every colour
}{
	{name: "install", in: Input{Operation: Install, Namespace: "shop"}},
	{name: "install-chart", in: Input{Operation: Install, Namespace: "shop-2"}, keys: "cart enter wor", whole: true},
	{name: "upgrade", in: Input{Operation: Upgrade, Name: "shop", Namespace: "shop"}, whole: true},
	{name: "upgrade-values", in: Input{Operation: Upgrade, Name: "shop", Namespace: "shop", Flags: []string{"--timeout", "10m"}, Shown: []string{"--timeout", "10m"}}, keys: "enter tab values- tab"},
	{name: "upgrade-revision", in: Input{Operation: Upgrade, Name: "shop", Namespace: "shop"}, keys: "enter tab down"},
	{name: "rollback", in: Input{Operation: Rollback, Name: "shop", Namespace: "shop"}, whole: true},
	{name: "plan", in: Input{Operation: Upgrade, Name: "shop", Namespace: "shop"}, keys: "enter enter", whole: true},
	{name: "plan-end", in: Input{Operation: Upgrade, Name: "shop", Namespace: "shop"}, keys: "enter enter end"},
	{name: "plan-refused", in: Input{Operation: Upgrade, Name: "shop", Namespace: "shop"}, keys: "enter enter", refuse: errors.New("2 conflicts\nDeployment/api is owned by release other\nService/api is owned by release other")},
	{name: "uninstall", in: Input{Operation: Uninstall, Name: "shop", Namespace: "shop"}},
	{name: "uninstall-name", in: Input{Operation: Uninstall, Name: "shop", Namespace: "shop"}, keys: "enter sh", whole: true},
	{name: "test", in: Input{Operation: Test, Name: "shop", Namespace: "shop"}},
}

// TestGolden compares the forms and the plan before the start with golden files, at all sizes, some in all colours. Dark and
// light have the same text as without colour.
func TestGolden(t *testing.T) {
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			draw := func(w, h int, look theme.Options) string {
				r := open(t, w, h, look, v.in)
				r.source.refuse = v.refuse
				return r.press(v.keys).View().Content
			}
			for _, size := range sizes {
				plain := ansi.Strip(draw(size[0], size[1], bare))
				golden.Compare(t, fmt.Sprintf("%s-%dx%d", v.name, size[0], size[1]), plain)
				for n, line := range strings.Split(plain, "\n") {
					if w := ansi.StringWidth(line); w > size[0] {
						t.Errorf("line %d has %d cells", n, w)
					}
				}
				for name, look := range map[string]theme.Options{"dark": dark, "light": light} {
					if got := ansi.Strip(draw(size[0], size[1], look)); golden.Trim(got) != golden.Trim(plain) {
						t.Errorf("%s at %v differs from the colourless screen:\n%s", name, size, got)
					}
				}
			}
			if v.whole {
				golden.Compare(t, v.name+"-dark", draw(100, 30, dark))
				golden.Compare(t, v.name+"-light", draw(100, 30, light))
				golden.Compare(t, v.name+"-bare", draw(100, 30, bare))
			}
			ascii := bare
			ascii.ASCII = true
			if got := draw(100, 30, ascii); strings.ContainsFunc(got, func(r rune) bool { return r >= utf8.RuneSelf }) {
				t.Errorf("LOCKSTEP_ASCII leaves other characters:\n%s", got)
			}
		})
	}
}

// TestColourless: NO_COLOR leaves no colour.
func TestColourless(t *testing.T) {
	for _, v := range views {
		for seq := range strings.SplitSeq(open(t, 100, 30, bare, v.in).press(v.keys).View().Content, "\x1b[") {
			params, _, ok := strings.Cut(seq, "m")
			if ok && slices.ContainsFunc(strings.Split(params, ";"), func(p string) bool { return len(p) == 2 && strings.ContainsAny(p[:1], "34") || len(p) == 3 }) {
				t.Errorf("%s: colour in ESC[%sm", v.name, params)
			}
		}
	}
}
