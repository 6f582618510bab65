// Package help is what the pages say that explain the screen: its keys, its glyphs, the
// warnings. Its one type is Help.
package help

import (
	"fmt"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Help explains the screen.
type Help struct {
	*screen.Screen
	keys func() []keys.Key
}

// New explains keys.
func New(s *screen.Screen, table func() []keys.Key) *Help { return &Help{Screen: s, keys: table} }

// Keys is the key table as lines.
func (h *Help) Keys(width int) []canvas.Line {
	var out []canvas.Line
	part := ""
	for _, k := range h.keys() {
		if k.Part != part {
			if part != "" {
				out = append(out, nil)
			}
			part = k.Part
			out = append(out, canvas.Plain(theme.Strong, part))
		}
		for i, s := range canvas.Wrap(k.About, width-12) {
			label := ""
			if i == 0 {
				label = k.Keys
			}
			out = append(out, canvas.Line{{Role: theme.Key, Text: fmt.Sprintf("%-12s", label)}, {Role: theme.Text, Text: s}})
		}
	}
	return append(out, h.legend()...)
}

// legend says what the glyphs mean.
func (h *Help) legend() []canvas.Line {
	out := []canvas.Line{nil, canvas.Plain(theme.Strong, "glyphs")}
	for _, s := range []string{"ready", "in-progress", "applied", "waiting", "held", "failed", "skipped", "unchanged", "rolled-back"} {
		mark := h.Theme.Mark(s)
		out = append(out, canvas.Line{{Role: mark.Role, Text: fmt.Sprintf("%-11s", mark.Glyph)}, {Role: theme.Text, Text: " " + mark.Word}})
	}
	return append(out, canvas.Line{{Role: theme.Stopped, Text: fmt.Sprintf("%-11s", h.Theme.Lines.Break)}, {Role: theme.Text, Text: " breakpoint"}},
		canvas.Line{{Role: theme.Key, Text: fmt.Sprintf("%-11s", h.Theme.Lines.Next)}, {Role: theme.Text, Text: " what a step lets go"}})
}

// Warnings are the warnings as lines.
func (h *Help) Warnings(width int) []canvas.Line {
	if len(h.State.Warnings) == 0 {
		return []canvas.Line{canvas.Plain(theme.Quiet, "there are none")}
	}
	var out []canvas.Line
	for _, w := range h.State.Warnings {
		for i, s := range canvas.Wrap(w.Message, width-6) {
			rule := ""
			if i == 0 {
				rule = w.Rule
			}
			out = append(out, canvas.Line{{Role: theme.Stopped, Text: fmt.Sprintf("%-6s", rule)}, {Role: theme.Text, Text: s}})
		}
	}
	return out
}
