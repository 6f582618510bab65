package board

import (
	"slices"

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
	bindings := m.footerBindings
	if top := m.Modes.Top(); top != nil { // most modes show their keys themselves
		bindings = top.Keys
	}
	for _, b := range bindings() {
		if b.Hint == nil || !b.Active() || b.Steers && m.ReadOnly() || !wanted(b) {
			continue
		}
		if word := b.Hint(); word != "" {
			out = append(out, keys.Hint{Key: m.KeyName(b), Word: word, Press: b.Key(), Pinned: b.Pinned})
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

// drawFooter draws the filter and the keys, or the line that the user is typing.
func (m *model) drawFooter() {
	query := ""
	if m.Filter.On() {
		query = m.Filter.Query
	}
	m.DrawFooter(m.hints(), query, m.Matches())
}
