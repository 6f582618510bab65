package board

import (
	"cmp"
	"slices"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/replay"
)

// everywhere are keys that do the same in all modes; the help names them once.
var everywhere = []string{"up one line", "down one line", "page up", "page down", "abort (asks first)"}

// helpLines returns the key table and the legend.
func (m *model) helpLines(width int) []canvas.Line {
	replaced, shown := map[string]bool{}, map[string]bool{}
	if m.replay != nil {
		for _, b := range m.replay.Keys() {
			replaced[b.Name()] = true
		}
	}
	all := slices.DeleteFunc(m.allKeys(), func(k keys.Key) bool {
		// The replay gives a key another meaning.
		hidden := replaced[k.Keys] && k.Part != replay.Part && k.Part != partInspector || shown[k.About] && slices.Contains(everywhere, k.About)
		shown[k.About] = shown[k.About] || !hidden
		return hidden || k.Part == m.abort.Part() || k.Part == m.giveUp.Part() // the dialogs name their keys
	})
	return append(keys.Table(all, width), m.legend()...)
}

func (m *model) legend() []canvas.Line {
	out := []canvas.Line{nil, canvas.Plain(theme.Strong, "glyphs")}
	add := func(role theme.Role, glyph, word string) {
		out = append(out, canvas.Labelled(canvas.Piece{Role: role, Text: glyph}, keys.Width, theme.Text, word, 1<<10)...)
	}
	for _, s := range []string{"ready", "in-progress", "degraded", "applied", "waiting", "held", "failed", "skipped", "unchanged", "rolled-back"} {
		mark := m.Theme.Mark(s)
		add(mark.Role, mark.Glyph, mark.Word)
	}
	add(theme.Stopped, m.Theme.Lines.Break, "breakpoint")
	add(theme.Key, m.Theme.Lines.Next, "next step")
	return out
}

func (m *model) warningLines(width int) []canvas.Line {
	var out []canvas.Line
	for _, w := range m.State.Warnings {
		out = append(out, canvas.Labelled(canvas.Piece{Role: theme.Stopped, Text: cmp.Or(w.Rule, "!")}, 6, theme.Text, w.Message, width-6)...)
	}
	return out
}
