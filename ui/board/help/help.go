// Package help builds the text of the pages about keys, glyphs and warnings. Its one type
// is Help.
package help

import (
	"strings"

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

func New(s *screen.Screen, table func() []keys.Key) *Help { return &Help{Screen: s, keys: table} }

// keyRoom and nameRoom are the widths of the first two columns: keys and names of commands.
const keyRoom, nameRoom = 12, 20

// Keys returns the key table as lines.
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
		name := canvas.Line{{Role: theme.Key, Text: canvas.Pad(k.Keys, keyRoom)}, {Role: theme.Text, Text: k.About}}
		if room := width - keyRoom - nameRoom; k.More != "" && room >= nameRoom {
			name[1].Text = canvas.Pad(k.About, nameRoom)
			for _, part := range canvas.Wrap(k.More, room) {
				out = append(out, append(name, canvas.Piece{Role: theme.Quiet, Text: part}))
				name = canvas.Line{{Text: strings.Repeat(" ", keyRoom+nameRoom)}}
			}
			continue
		}
		out = append(out, name)
	}
	return append(out, h.legend()...)
}

// legend says what the glyphs mean.
func (h *Help) legend() []canvas.Line {
	out := []canvas.Line{nil, canvas.Plain(theme.Strong, "glyphs")}
	add := func(role theme.Role, glyph, word string) {
		out = append(out, canvas.Labelled(canvas.Piece{Role: role, Text: glyph}, 12, theme.Text, word, 1<<10)...)
	}
	for _, s := range []string{"ready", "in-progress", "applied", "waiting", "held", "failed", "skipped", "unchanged", "rolled-back"} {
		mark := h.Theme.Mark(s)
		add(mark.Role, mark.Glyph, mark.Word)
	}
	add(theme.Stopped, h.Theme.Lines.Break, "breakpoint")
	add(theme.Key, h.Theme.Lines.Next, "next step")
	return out
}

// Warnings returns the warnings as lines.
func (h *Help) Warnings(width int) []canvas.Line {
	if len(h.State.Warnings) == 0 {
		return []canvas.Line{canvas.Plain(theme.Quiet, "No warnings")}
	}
	var out []canvas.Line
	for _, w := range h.State.Warnings {
		out = append(out, canvas.Labelled(canvas.Piece{Role: theme.Stopped, Text: w.Rule}, 6, theme.Text, w.Message, width-6)...)
	}
	return out
}
