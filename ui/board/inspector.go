package board

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/picture"
)

const partInspector = "in the inspector"

// inspectorBindings are the keys that mean something else in the inspector.
func inspectorBindings() []binding {
	scroll := func(by int) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd { m.insp.Scroll(by); return nil }
	}
	turn := func(by inspector.Tab) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd { return m.openTab((m.insp.Tab + by + inspector.Tabs) % inspector.Tabs) }
	}
	return []binding{
		{keys: []string{"tab", "right", "l"}, label: "tab", hint: always("next tab"), do: turn(1), about: "next tab; also right and l"},
		{keys: []string{"shift+tab", "left", "h"}, label: "shift-tab", do: turn(-1), about: "previous tab; also left and h"},
		{keys: []string{"up", "k"}, label: "up k", do: scroll(-1), about: "scroll up"},
		{keys: []string{"down", "j"}, label: "down j", do: scroll(1), about: "scroll down"},
		{keys: []string{"pgup", "ctrl+b"}, label: "page up", do: scroll(-10), about: "scroll up by a page"},
		{keys: []string{"pgdown", "ctrl+f"}, label: "page down", do: scroll(10), about: "scroll down by a page"},
		{keys: []string{"home", "g"}, label: "home g", do: func(m *model) tea.Cmd { m.insp.Scroll(-m.insp.Page.Last); return nil }, about: "to the beginning"},
		{keys: []string{"end", "G"}, label: "end G", do: func(m *model) tea.Cmd { m.insp.Scroll(m.insp.Page.Last); return nil }, about: "to the end; logs are followed there"},
		{keys: []string{"J"}, label: "J", do: func(m *model) tea.Cmd { return m.move(1) }, about: "inspect the next line of the board"},
		{keys: []string{"K"}, label: "K", do: func(m *model) tea.Cmd { return m.move(-1) }, about: "inspect the line before"},
		{keys: []string{"esc", "enter"}, label: "esc", hint: always("close"), do: (*model).escape, about: "close"},
	}
}

// inspect opens the inspector on what is selected. At the end of a run that
// nobody has looked at, it leaves.
func (m *model) inspect() tea.Cmd {
	if m.leaveOnEnter() {
		return m.quit()
	}
	if m.group() == nil {
		return m.say(theme.Quiet, "there is nothing to inspect yet")
	}
	m.follow = false
	m.insp = inspector.New(m.ctx, m.opts.Inspector)
	m.show()
	return nil
}

func (m *model) closeInspector() {
	if m.insp == nil {
		return
	}
	m.insp.Stop()
	m.insp = nil
}

func (m *model) openTab(t inspector.Tab) tea.Cmd {
	about, ok := m.subject()
	return tea.Batch(m.insp.Open(t, about, ok), m.tick())
}

// subject is the object that the tabs are about: the selected one, or of the
// selected group the one that needs looking at.
func (m *model) subject() (plan.Object, bool) {
	if o := m.object(); o != nil {
		return o.Object, true
	}
	n := m.group()
	if n == nil || len(n.Objects) == 0 {
		return plan.Object{}, false
	}
	if w := picture.Worst(n); w != nil {
		return w.Object, true
	}
	for _, o := range n.Objects {
		switch o.Object.Kind {
		case "Deployment", "StatefulSet", "DaemonSet", "Job", "Pod":
			return o.Object, true
		}
	}
	return n.Objects[0].Object, true
}

// reload asks again after the selection has moved.
func (m *model) reload() {
	if m.insp != nil {
		about, ok := m.subject()
		m.queue(m.insp.Turn(about, ok))
		m.queue(m.tick())
	}
}

// clickTab opens the tab under the mouse.
func (m *model) clickTab(at tea.Mouse) tea.Cmd {
	if at.Y != m.lay.pane.Y {
		return nil
	}
	places := m.tabPlaces()
	if k := slices.IndexFunc(places, func(r canvas.Rect) bool { return r.Has(at.X, at.Y) }); k >= 0 {
		return m.openTab(inspector.Tab(k))
	}
	return nil
}
