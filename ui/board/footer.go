package board

import (
	"slices"
	"strings"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
)

// hints returns the keys in the footer: those that work now, without those that resolve a failure.
func (m *model) hints() []keys.Hint {
	return m.filterHints(func(b keys.Binding) bool { return !b.OnFailure || !m.Held() })
}

// failureHints returns the keys that resolve a held failure, for the line below the state.
func (m *model) failureHints() []keys.Hint {
	return m.filterHints(func(b keys.Binding) bool { return b.OnFailure && m.Held() })
}

func (m *model) filterHints(wanted func(keys.Binding) bool) (out []keys.Hint) {
	if m.Modes.Top() != nil {
		return nil // the mode shows its own keys
	}
	for _, b := range m.footerBindings() {
		if b.Hint == nil || !b.Active() || b.Steers && m.ReadOnly() || !wanted(b) {
			continue
		}
		if word := b.Hint(); word != "" {
			out = append(out, keys.Hint{Key: m.footerKey(b), Word: word, Press: b.Key(), Pinned: b.Pinned})
		}
	}
	return out
}

// footerBindings returns the board's keys in the order of the footer: an open inspector's keys
// come first, a replay's keys after q.
func (m *model) footerBindings() []keys.Binding {
	bindings := m.boardKeys()
	if m.insp.Shown {
		own, rest := m.inspectorKeys(), []keys.Binding{}
		at := slices.IndexFunc(own, func(b keys.Binding) bool { return b.Keys == "esc" }) + 1
		for _, b := range bindings {
			switch _, taken := keys.Find(own, b.Key()); {
			case taken:
			case b.Near:
				own = slices.Insert(own, at, b)
				at++
			default:
				rest = append(rest, b)
			}
		}
		bindings = append(own, rest...)
	}
	if m.replay != nil {
		quit := slices.IndexFunc(bindings, func(b keys.Binding) bool { return b.Keys == "q" })
		bindings = slices.Insert(bindings, quit+1, m.replay.Keys()...)
	}
	return bindings
}

// footerKey returns the footer's name of a binding's key.
func (m *model) footerKey(b keys.Binding) string {
	switch l := m.Theme.Lines; b.Key() {
	case "enter":
		return l.Enter
	case "left":
		return l.Left
	case "right":
		return l.Right
	}
	first, _, _ := strings.Cut(b.Name(), ", ")
	return first
}

// drawFooter draws the filter and as many keys as fit, or the line that the user is typing. The
// key for help always fits.
func (m *model) drawFooter() {
	y, cv := m.H-1, m.Canvas
	if line, ok := m.Modes.Top().(keys.Line); ok {
		input, status, hints := line.Line()
		x := cv.Put(1, y, theme.Key, line.Prompt())
		x = cv.PutFit(x, y, m.W-x-1, theme.Text, input.Value())
		for _, hint := range hints {
			if canvas.Width(status+"  "+hint) <= m.W-1-x-2 {
				status += "  " + hint
			}
		}
		cv.PutRight(m.W-1, y, theme.Quiet, canvas.Fit(status, m.W-1-x-2, m.Theme.Lines.Ellipsis))
		return
	}
	x, end, hints := 1, m.W-1, m.hints()
	if m.Filter.On() {
		text := "  " + m.Matches() + "  esc clear"
		query := canvas.Fit("/"+m.Filter.Query, max(m.W*2/3-canvas.Width(text), 1), m.Theme.Lines.Ellipsis)
		end = cv.PutRight(end, y, theme.Stopped, query+text) - 2
	}
	if h := len(hints) - 1; h > 0 && keys.Cells(hints, 2) > end-x { // help is always visible
		help := hints[h]
		m.PutHint(end-help.Width(), y, help, theme.Quiet)
		end -= help.Width() + 2
		hints = hints[:h]
	}
	for _, h := range keys.Fit(hints, end-x, 2) {
		x = m.PutHint(x, y, h, theme.Quiet) + 2
	}
}

// drawFlash draws the flash message above the keys, wrapped.
func (m *model) drawFlash() {
	if m.Flash.Text == "" || m.TooSmall() {
		return
	}
	lines := canvas.Wrap(m.Flash.Text, m.W-2)
	top := max(m.H-1-len(lines), 2)
	lines = lines[:min(len(lines), m.H-1-top)]
	m.Canvas.Blank(canvas.Rect{X: 0, Y: top, W: m.W, H: len(lines)})
	for i, l := range lines {
		m.Canvas.Put(1, top+i, m.Flash.Role, l)
	}
}
