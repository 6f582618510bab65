package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/golden"
)

var (
	sizes = [][2]int{{60, 20}, {80, 24}, {100, 30}, {160, 45}, {200, 50}}
	dark  = theme.Options{Background: theme.Dark}
	light = theme.Options{Background: theme.Light}
	bare  = theme.Options{Depth: theme.None}
)

// view is a moment of a recorded run, and the keys pressed then.
type view struct {
	name string
	run  string
	n    int // events of the run, 0 for all
	keys string
	opts []func(*Options)
	// replay means that the run is replayed, paused at event n.
	replay bool
	// asks means that the keys query the cluster.
	asks bool
}

// views are the golden screens.
var views = []view{
	{name: "starting", run: "sandbox-install", n: 1},
	{name: "running", run: "sandbox-install", n: 63},
	{name: "finished", run: "sandbox-install"},
	{name: "report", run: "sandbox-install", keys: "up o", opts: []func(*Options){next}},
	{name: "report-upgrade", run: "sandbox-upgrade", opts: []func(*Options){next}},
	{name: "report-failed", run: "failed", keys: "o", opts: []func(*Options){next}},
	{name: "breakpoint", run: "sandbox-breakpoint"},
	{name: "breakpoints", run: "sandbox-breakpoint", keys: "B"},
	{name: "held", run: "sandbox-held"},
	{name: "rolling-back", run: "sandbox-rollback", n: 160},
	{name: "rolled-back", run: "sandbox-rollback"},
	{name: "go-to", run: "sandbox-rollback", keys: "g right right right"},
	{name: "failed", run: "failed"},
	{name: "retried", run: "retried"},
	{name: "abort-dialog", run: "sandbox-held", keys: "a"},
	{name: "give-up-dialog", run: "sandbox-held", keys: "G"},
	{name: "inspector", run: "sandbox-held", keys: "f enter"},
	{name: "filter", run: "sandbox-held", keys: "/ a p i"},
	{name: "help", run: "sandbox-held", keys: "?"},
	{name: "warnings", run: "running", keys: "w"},
	{name: "read-only", run: "running", opts: []func(*Options){readOnly}},
	{name: "pane-diff", run: "sandbox-breakpoint", opts: []func(*Options){answered}},
	{name: "diff", run: "sandbox-breakpoint", keys: "enter", opts: []func(*Options){answered}, asks: true},
	{name: "diff-object", run: "sandbox-breakpoint", keys: "down d", opts: []func(*Options){answered}, asks: true},
	{name: "manifest", run: "sandbox-breakpoint", keys: "down y", opts: []func(*Options){answered}, asks: true},
	{name: "replay", run: "sandbox-rollback", n: 117, replay: true},
	{name: "replay-inspector", run: "sandbox-held", replay: true, keys: "! enter"},
	{name: "logs", run: "sandbox-held", keys: "f l", opts: []func(*Options){answered}, asks: true},
	{name: "logs-of-one", run: "sandbox-held", keys: "f l ] ] }", opts: []func(*Options){answered}, asks: true},
	{name: "logs-search", run: "sandbox-held", keys: "f l / f a t a l enter enter", opts: []func(*Options){answered}, asks: true},
	{name: "pods", run: "sandbox-held", keys: "f v tab", opts: []func(*Options){answered}, asks: true},
	{name: "kubectl", run: "sandbox-held", keys: "f l D", opts: []func(*Options){answered}, asks: true},
	{name: "commands", run: "sandbox-held", keys: ":", opts: []func(*Options){answered}, asks: true},
	{name: "commands-found", run: "sandbox-held", keys: ": l o g", opts: []func(*Options){answered}, asks: true},
	{name: "diff-held", run: "sandbox-held", keys: "f d", opts: []func(*Options){answered}, asks: true},
}

func (v view) open(t testing.TB, w, h int, l theme.Options) *rig {
	s := v.begin(t, w, h, l)
	if v.asks {
		s.settle() // load the diff in the pane
	}
	for key := range strings.FieldsSeq(v.keys) {
		s.press(key)
		if v.asks {
			s.settle()
		}
	}
	return s
}

// next returns suggested commands.
func next(o *Options) {
	o.Next = func(*event.State) []string {
		return []string{"lockstep status shop -n shop", "lockstep replay 20261120-213500-shop"}
	}
}

func (v view) begin(t testing.TB, w, h int, l theme.Options) *rig {
	if v.replay {
		return replayed(t, v.run, v.n, append(v.opts, look(l))...).resized(w, h)
	}
	return newScreen(t, w, h, recorded(t, v.run, v.n), append(v.opts, look(l))...)
}

// whole are the screens that are compared at every size and in every colour.
var whole = []string{"running", "breakpoint", "held", "diff", "logs", "report", "help"}

// TestGolden compares all screens with golden files: without colour in a small and a large terminal,
// some at all sizes and in dark and light. Dark and light must have the same text.
func TestGolden(t *testing.T) {
	for _, v := range views {
		compareAll := func(t *testing.T) {
			all := slices.Contains(whole, v.name)
			for _, size := range sizes {
				w, h := size[0], size[1]
				if !all && w != 80 && w != 160 {
					continue
				}
				plain := v.open(t, w, h, bare).View().Content
				golden.Compare(t, fmt.Sprintf("%s-%dx%d", v.name, w, h), ansi.Strip(plain))
				for name, l := range map[string]theme.Options{"dark": dark, "light": light} {
					coloured := v.open(t, w, h, l).View().Content
					if got, want := ansi.Strip(coloured), ansi.Strip(plain); golden.Trim(got) != golden.Trim(want) {
						t.Errorf("%s at %d×%d differs from the colourless screen:\n%s", name, w, h, got)
					}
				}
			}
			if !all {
				return
			}
			golden.Compare(t, v.name+"-dark", v.open(t, 100, 30, dark).View().Content)
			golden.Compare(t, v.name+"-light", v.open(t, 100, 30, light).View().Content)
			golden.Compare(t, v.name+"-bare", v.open(t, 100, 30, bare).View().Content)
		}
		t.Run(v.name, func(t *testing.T) { inBubble(t, compareAll) })
	}
}

// TestColourless checks that NO_COLOR leaves no colour on any screen.
func TestColourless(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, v := range views {
			s := v.open(t, 100, 30, bare)
			for seq := range strings.SplitSeq(s.View().Content, "\x1b[") {
				params, _, ok := strings.Cut(seq, "m")
				if !ok || strings.ContainsFunc(params, func(r rune) bool { return r != ';' && (r < '0' || r > '9') }) {
					continue
				}
				for p := range strings.SplitSeq(params, ";") {
					if len(p) == 2 && strings.ContainsAny(p[:1], "34") || len(p) == 3 {
						t.Fatalf("%s: colour in ESC[%sm", v.name, params)
					}
				}
			}
		}
	})
}

// TestASCII checks that LOCKSTEP_ASCII leaves only ASCII on any screen, whatever the cluster sends and
// the user types.
func TestASCII(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, v := range views {
			for _, size := range sizes {
				if testing.Short() && size[0] != 80 {
					continue
				}
				l := bare
				l.ASCII = true
				s := v.open(t, size[0], size[1], l)
				for i, b := range []byte(s.text()) {
					if b >= utf8.RuneSelf {
						t.Fatalf("%s at %v: %q at %d:\n%s", v.name, size, b, i, s.text())
					}
				}
				within(t, s, v.name)
			}
		}
	})
}
