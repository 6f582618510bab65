package board

import (
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/page"
)

// press runs the binding of a key in the topmost mode, or on the board if no mode is open. A mode also
// gets the keys that it does not bind.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	name, was := k.String(), m.Sel
	top := m.Modes.Top()
	if top == nil {
		return m.runKey(name)
	}
	b, ok := keys.Find(top.Keys(), name)
	if !ok {
		return top.Update(k)
	}
	cmd := b.Press(m.Explain)
	if m.Sel != was {
		m.board.Show()
	}
	return cmd
}

func (m *model) runKey(name string) tea.Cmd {
	b, ok := keys.Find(m.table(), name)
	switch {
	case ok && name == "ctrl+c" && !m.Steerable(): // nothing to abort
		return m.quit()
	case ok && !(b.Steers && m.ReadOnly()):
		return b.Press(m.Explain)
	case ok:
		return m.Explain("this screen is read-only")
	}
	if does := homeKeys[name]; does != "" && m.State.Operation.IsWatch() {
		return m.Explain(name + " (" + does + ") is a key of home: " + m.wayHome())
	}
	return m.Explain(name + " is no key here; ? shows all keys")
}

// homeKeys are keys of home that are about a release, and what they do.
var homeKeys = map[string]string{"u": "upgrade", "h": "history", "r": "roll back", "x": "uninstall", "T": "test", "i": "install"}

// wayHome says how to get to home.
func (m *model) wayHome() string {
	if m.Home != "" {
		return "esc leads there"
	}
	return text.Program + " home -n " + m.State.Operation.Namespace
}

// table returns the board's table of keys, after those of a replay and of the open
// inspector. The first binding of a key wins.
func (m *model) table() (table []keys.Binding) {
	if m.replay != nil {
		table = m.replay.Keys()
	}
	if m.insp.Shown {
		table = append(table, m.inspectorKeys()...)
	}
	return append(table, m.boardKeys()...)
}

// quit quits, or asks whether to abort if quitting would end the run.
func (m *model) quit() tea.Cmd {
	if !m.CanQuit() {
		return m.askAbort()
	}
	m.insp.Stop()
	return tea.Quit
}

// askAbort closes all modes and asks how to abort. If there is nothing to abort, it quits.
func (m *model) askAbort() tea.Cmd {
	if m.Over() || m.ReadOnly() {
		return m.quit()
	}
	m.Modes = nil
	return m.abort.Open()
}

// escape closes the inspector, clears the filter, or returns to the stack or to home; a run that does not
// need this screen continues.
func (m *model) escape() tea.Cmd {
	switch {
	case m.insp.Shown:
		return m.insp.Close()
	case m.Filter.On():
		m.filter.Clear()
	case m.back != nil:
		return m.back()
	case m.Home != "" && !m.CanQuit() && m.Leave.ComeBack != "":
		return m.LeaveRunning()
	case m.Home != "":
		return m.quit()
	}
	return nil
}

// inspect opens the inspector on the selection, or the board of the selected release.
func (m *model) inspect() tea.Cmd {
	switch n := m.Group(); {
	case m.openRelease == nil || n == nil:
	case n.Step != nil:
		return m.insp.OpenTab(inspector.TabLogs)
	default:
		return m.openRelease(n.ID)
	}
	return m.insp.Open()
}

func (m *model) openFilter() tea.Cmd {
	m.insp.Close()
	return m.filter.Open()
}

func (m *model) openSearch() tea.Cmd {
	m.insp.StartSearch()
	return m.search.Open()
}

func (m *model) applyFilter(query string) {
	m.SetFilter(query)
	m.board.SelectVisible()
}

func (m *model) clearFilter() {
	m.SetFilter("")
	m.board.Show()
}

func (m *model) showKubectl() tea.Cmd {
	line := m.insp.KubectlLine()
	page.New(m.Screen, "copied", func(width int) []canvas.Line { return canvas.WrapWords(line, width) }).Open()
	return tea.SetClipboard(line)
}

// click presses the button or selects the object under the mouse; a click on the selection
// opens the inspector.
func (m *model) click(at tea.Mouse) tea.Cmd {
	if at.Button != tea.MouseLeft || m.Modes.Covers() || m.TooSmall() {
		return nil
	}
	if m.replay != nil {
		if cmd, ok := m.replay.Click(at.X, at.Y); ok {
			return cmd
		}
	}
	for _, b := range m.Buttons {
		if b.Rect.Has(at.X, at.Y) {
			return m.runKey(b.Key)
		}
	}
	switch {
	case m.insp.Shown && m.insp.Area.Has(at.X, at.Y):
		return m.insp.Click(at.X, at.Y)
	case m.board.Click(at.X, at.Y) && !m.insp.Shown:
		return m.inspect()
	}
	return nil
}

func (m *model) wheel(msg tea.MouseWheelMsg) tea.Cmd {
	at := msg.Mouse()
	switch {
	case m.TooSmall():
	case m.Modes.Covers():
		return m.Modes.Top().Update(msg)
	case m.insp.Shown && m.insp.Area.Has(at.X, at.Y):
		m.insp.Wheel(at)
	default:
		m.board.Wheel(at)
	}
	return nil
}
