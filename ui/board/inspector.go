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
	does := func(do func(*inspector.Inspector)) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd { do(m.insp); return nil }
	}
	scroll := func(by int) func(*model) tea.Cmd { return does(func(i *inspector.Inspector) { i.Scroll(by) }) }
	turn := func(by inspector.Tab) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd { return m.openTab((m.insp.Tab + by + inspector.Tabs) % inspector.Tabs) }
	}
	inLogs := func(m *model) bool { return m.insp.Tab == inspector.TabLogs }
	return []binding{
		{keys: []string{"tab", "right"}, label: "tab", hint: always("next tab"), do: turn(1), about: "next tab; also right"},
		{keys: []string{"shift+tab", "left"}, label: "shift-tab", do: turn(-1), about: "previous tab; also left"},
		{keys: []string{"esc"}, label: "esc", hint: escHint, do: (*model).escape, about: "end the search, or close"},
		{keys: []string{"enter"}, label: "enter", do: (*model).shutInspector, about: "close"},
		{keys: []string{"up", "k"}, label: "up k", do: scroll(-1), about: "scroll up"},
		{keys: []string{"down", "j"}, label: "down j", do: scroll(1), about: "scroll down"},
		{keys: []string{"pgup", "ctrl+b"}, label: "page up", do: scroll(-10), about: "scroll up by a page"},
		{keys: []string{"pgdown", "ctrl+f"}, label: "page down", do: scroll(10), about: "scroll down by a page"},
		{keys: []string{"home", "g"}, label: "home g", do: func(m *model) tea.Cmd { m.insp.Scroll(-m.insp.Page.Last); return nil }, about: "to the beginning"},
		{keys: []string{"end", "G"}, label: "end G", do: func(m *model) tea.Cmd { m.insp.Scroll(m.insp.Page.Last); return nil }, about: "to the end; logs are followed there"},
		{keys: []string{"J"}, label: "J", do: func(m *model) tea.Cmd { return m.move(1) }, about: "inspect the next line of the board"},
		{keys: []string{"K"}, label: "K", do: func(m *model) tea.Cmd { return m.move(-1) }, about: "inspect the line before"},
		{keys: []string{"/"}, label: "/", hint: when("search", func(m *model) bool { return !m.searches() }), do: (*model).openSearch, about: "search in what the tab shows; esc ends that"},
		{keys: []string{"n"}, label: "n", hint: always("next match"), only: (*model).searches, do: match(1), about: "next match, while something is searched for; else it steps"},
		{keys: []string{"N"}, label: "N", hint: always("match before"), only: (*model).searches, do: match(-1), about: "the match before"},
		{keys: []string{"]"}, label: "]", hint: when("next pod", func(m *model) bool { return m.insp.SeveralPods() }), only: inLogs, do: does(func(i *inspector.Inspector) { i.TurnPod(1) }), about: "logs of the next pod alone"},
		{keys: []string{"["}, label: "[", only: inLogs, do: does(func(i *inspector.Inspector) { i.TurnPod(-1) }), about: "logs of the pod before"},
		{keys: []string{"}"}, label: "}", hint: when("next container", func(m *model) bool { return m.insp.SeveralContainers() }), only: inLogs, do: does(func(i *inspector.Inspector) { i.TurnContainer(1) }), about: "logs of the next container alone"},
		{keys: []string{"{"}, label: "{", only: inLogs, do: does(func(i *inspector.Inspector) { i.TurnContainer(-1) }), about: "logs of the container before"},
		{keys: []string{"0"}, label: "0", hint: when("all logs", func(m *model) bool { return m.insp.Chosen() }), only: inLogs, do: does((*inspector.Inspector).AllLogs), about: "logs of all pods and containers"},
		{keys: []string{"T"}, label: "T", hint: when("times", func(m *model) bool { return m.insp.HasTimes() }), only: inLogs, do: does(func(i *inspector.Inspector) { i.Times = !i.Times }), about: "when each line of a log was written; again: without"},
		{keys: []string{"w"}, label: "w", hint: wrapHint, only: wraps, do: does(func(i *inspector.Inspector) { i.Cut = !i.Cut }), about: "cut lines that are too long; again: break them"},
	}
}

// wraps reports whether the open tab is text that is broken after its width.
func wraps(m *model) bool {
	return m.insp.Tab == inspector.TabLogs || m.insp.Tab == inspector.TabManifest || m.insp.Tab == inspector.TabEvents
}

func wrapHint(m *model) string {
	if m.insp.Cut {
		return "wrap lines"
	}
	return "cut lines"
}

func escHint(m *model) string {
	if m.searches() {
		return "end search"
	}
	return "close"
}

func (m *model) shutInspector() tea.Cmd {
	m.closeInspector()
	m.show()
	return nil
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
		m.insp = inspector.New(m.ctx, m.opts.Inspector, m.changes)
		m.show()
	}
	return true
}

// openDiff opens the diff; where it is open, it is looked up anew.
func (m *model) openDiff() tea.Cmd {
	if m.insp != nil && m.insp.Tab == inspector.TabDiff {
		m.changes.Forget(m.selected())
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
	return tea.Batch(m.insp.Open(t, about, ok), m.askAhead(), m.tick())
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
	m.queue(m.askAhead())
	if m.insp != nil {
		about, ok := m.item()
		m.queue(m.insp.Turn(about, ok))
		m.queue(m.tick())
	}
}

// askAhead asks for what the diff that is shown needs and is not known: the tab, or
// the pane below the board.
func (m *model) askAhead() tea.Cmd {
	if m.insp != nil && m.insp.Tab == inspector.TabDiff || m.foresees() {
		return m.changes.Ask(m.selected())
	}
	return nil
}

// foresees reports whether the pane says by itself what is going to happen to what is
// selected: while nothing goes on that would overtake it.
func (m *model) foresees() bool {
	stands := m.State.Run == event.Paused || m.State.Run == event.Held || m.planOnly()
	return stands && m.insp == nil && m.looksAhead()
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
