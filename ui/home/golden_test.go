package home

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/golden"
)

var (
	sizes = [][2]int{{60, 20}, {80, 24}, {100, 30}, {160, 45}, {200, 50}}
	dark  = theme.Options{Background: theme.Dark}
	light = theme.Options{Background: theme.Light}
	bare  = theme.Options{Depth: theme.None}
)

// TestGolden compares home with golden files: each state at all sizes without colour, and some also in dark, light and without
// colour (NO_COLOR). The text must not depend on the colours.
func TestGolden(t *testing.T) {
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			for _, size := range sizes {
				w, h := size[0], size[1]
				plain := s.open(t, w, h, bare).text()
				golden.Compare(t, fmt.Sprintf("%s-%dx%d", s.name, w, h), plain)
				if coloured := s.open(t, w, h, dark).text(); golden.Trim(coloured) != golden.Trim(plain) {
					t.Errorf("with colours, %d×%d differs:\n%s", w, h, coloured)
				}
			}
			if slices.Contains([]string{"runs", "three", "denied", "away"}, s.name) {
				golden.Compare(t, s.name+"-dark", s.open(t, 100, 30, dark).View().Content)
				golden.Compare(t, s.name+"-light", s.open(t, 100, 30, light).View().Content)
				golden.Compare(t, s.name+"-bare", s.open(t, 100, 30, bare).View().Content)
			}
		})
	}
}

// TestEverySize draws every state at every size: no line is wider than the screen and none is missing. With LOCKSTEP_ASCII there
// are only ASCII characters.
func TestEverySize(t *testing.T) {
	ascii := bare
	ascii.ASCII = true
	for _, s := range states {
		r := s.open(t, 100, 30, ascii)
		for w := 20; w <= 200; w += 9 {
			for _, h := range []int{5, 10, 12, 19, 20, 36, 50} {
				r.send(tea.WindowSizeMsg{Width: w, Height: h})
				text := r.text()
				lines := strings.Split(text, "\n")
				if len(lines) != h {
					t.Fatalf("%s at %d×%d has %d lines", s.name, w, h, len(lines))
				}
				for _, l := range lines {
					if canvas.Width(ansi.Strip(l)) > w {
						t.Fatalf("%s at %d×%d: %q is too wide", s.name, w, h, l)
					}
				}
				if i := strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }); i >= 0 {
					t.Fatalf("%s at %d×%d: %q is not ASCII:\n%s", s.name, w, h, text[i:i+4], text)
				}
			}
		}
	}
}
