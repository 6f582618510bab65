package board

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// searches reports whether something is searched for in the open tab.
func (m *model) searches() bool { return m.insp != nil && m.insp.Seeks() }

// openSearch lets the user type what is searched for.
func (m *model) openSearch() tea.Cmd {
	m.seeking = true
	m.insp.Search(true)
	return m.query.Focus()
}

// typeSearch takes a key or a paste into what is searched for.
func (m *model) typeSearch(msg tea.Msg) tea.Cmd {
	if k, ok := msg.(tea.KeyPressMsg); ok {
		switch k.String() {
		case "enter", "down", "tab":
			m.stopTyping()
			return nil
		case "esc":
			m.endSearch()
			return nil
		case "ctrl+c":
			m.stopTyping()
			return m.askAbort()
		}
	}
	var cmd tea.Cmd
	m.query, cmd = m.query.Update(msg)
	m.stale = true
	lines, room := m.tabLines()
	m.insp.Seek(m.query.Value(), lines, room)
	return cmd
}

func (m *model) stopTyping() {
	m.seeking = false
	m.query.Blur()
}

// endSearch forgets what was searched for.
func (m *model) endSearch() {
	m.stopTyping()
	m.query.SetValue("")
	m.insp.Search(false)
}

// match goes to the next match, or to the one before.
func match(by int) func(*model) tea.Cmd {
	return func(m *model) tea.Cmd {
		lines, room := m.tabLines()
		if !m.insp.NextMatch(by, lines, room) {
			return m.say(theme.Quiet, "nothing here matches "+canvas.Clean(m.query.Value()))
		}
		return nil
	}
}

// matched says which match was gone to, as of the lines that are shown.
func (m *model) matched(lines []canvas.Line) string {
	if !m.searches() {
		return ""
	}
	at, of := m.insp.Match(lines)
	if of == 0 {
		return "no match"
	}
	return fmt.Sprintf("%d of %d", at, of)
}

// tabLines are the lines of the open tab, and how many of them there is room for.
func (m *model) tabLines() (lines []canvas.Line, room int) {
	body, head := m.tabBody()
	return m.insp.Lines(m.selected(), body.W), max(body.H-len(head), 1)
}
