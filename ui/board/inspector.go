package board

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
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
	return m.lookAt(m.firstTab())
}

// firstTab is where the inspector opens: what comes next is looked ahead to.
func (m *model) firstTab() inspector.Tab {
	if m.looksAhead() {
		return inspector.TabDiff
	}
	return inspector.TabWhy
}

// looksAhead reports whether the selected group is still to come, and somebody
// knows what that will do.
func (m *model) looksAhead() bool {
	n := m.group()
	return n != nil && m.opts.Inspector != nil && (n.Status == event.Waiting || n.Status == event.Held)
}

// lookAt opens the inspector, where it is not open, and a tab of it.
func (m *model) lookAt(t inspector.Tab) tea.Cmd {
	if !m.opened() {
		return m.say(theme.Quiet, "there is nothing to inspect yet")
	}
	return m.openTab(t)
}

// opened opens the inspector, where it is not open, and reports whether there is
// anything to inspect.
func (m *model) opened() bool {
	if m.group() == nil {
		return false
	}
	m.follow = false
	if m.insp == nil {
		m.insp = inspector.New(m.ctx, m.opts.Inspector, &m.changes)
		m.show()
	}
	return true
}

// openDiff opens the diff; where it is open, it is looked up anew.
func (m *model) openDiff() tea.Cmd {
	if m.insp != nil && m.insp.Tab == inspector.TabDiff {
		m.insp.Forget(m.selected())
	}
	return m.lookAt(inspector.TabDiff)
}

// openManifest opens the manifest as it is sent, or as it is in the cluster.
func (m *model) openManifest(live bool) tea.Cmd {
	if !m.opened() {
		return m.say(theme.Quiet, "there is nothing to inspect yet")
	}
	m.insp.Live = live
	return m.reopen(inspector.TabManifest)
}

func (m *model) closeInspector() {
	if m.insp == nil {
		return
	}
	m.insp.Stop()
	m.insp = nil
}

// openTab opens a tab; the manifest of what has been applied is that in the
// cluster.
func (m *model) openTab(t inspector.Tab) tea.Cmd {
	if t == inspector.TabManifest {
		o := m.subject()
		m.insp.Live = o != nil && inspector.Applied(o)
	}
	return m.reopen(t)
}

func (m *model) reopen(t inspector.Tab) tea.Cmd {
	about, ok := m.item()
	return tea.Batch(m.insp.Open(t, about, ok), m.insp.Ask(m.selected()), m.tick())
}

// selected is what is selected, as the inspector has it.
func (m *model) selected() inspector.Subject {
	return inspector.Subject{Picture: &m.Picture, Node: m.group(), Object: m.object()}
}

// item is the subject with its place in the plan.
func (m *model) item() (inspector.Item, bool) {
	o := m.subject()
	if o == nil {
		return inspector.Item{}, false
	}
	return m.selected().ItemOf(o), true
}

// subject is the object that the tabs are about: the selected one, or of the
// selected group the one that needs looking at; nil for none.
func (m *model) subject() *event.ObjectState {
	if o := m.object(); o != nil {
		return o
	}
	n := m.group()
	if n == nil || len(n.Objects) == 0 {
		return nil
	}
	if w := picture.Worst(n); w != nil {
		return w
	}
	for _, o := range n.Objects {
		switch o.Object.Kind {
		case "Deployment", "StatefulSet", "DaemonSet", "Job", "Pod":
			return o
		}
	}
	return n.Objects[0]
}

// reload asks again after the selection has moved.
func (m *model) reload() {
	if m.insp != nil {
		about, ok := m.item()
		m.queue(m.insp.Turn(about, ok))
		m.queue(m.insp.Ask(m.selected()))
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
