package board

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/picture"
)

const partInspector = "in the inspector"

// tab is a page of the inspector.
type tab int

const (
	tabWhy tab = iota
	tabEvents
	tabPods
	tabLogs
	tabManifest
	tabGates
	tabTimings
	tabs
)

var tabNames = [tabs]string{"why", "events", "pods", "logs", "manifest", "gates", "timings"}

// asks reports whether the tab's content has to be asked of the cluster.
func (t tab) asks() bool {
	return t == tabEvents || t == tabPods || t == tabLogs || t == tabManifest
}

// inspection is the open inspector.
type inspection struct {
	tab    tab
	page   pageOf
	about  plan.Object // what the cluster was asked about
	n      int         // counts questions, so that a late answer is told from a new one
	cancel context.CancelFunc
	busy   bool
	asked  time.Time
	text   []string // the answer, clean
	note   string   // why there is none
	tail   *logTail
}

// pageOf is where a scrolled text is.
type pageOf struct {
	top, last int
	end       bool // stays at the end as text is added
}

func (i *inspection) scroll(by int) {
	i.page.top = min(max(i.page.top+by, 0), i.page.last)
	i.page.end = i.tab == tabLogs && i.page.top == i.page.last
}

// inspectorBindings are the keys that mean something else in the inspector.
func inspectorBindings() []binding {
	scroll := func(by int) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd { m.insp.scroll(by); return nil }
	}
	turn := func(by tab) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd { return m.openTab((m.insp.tab + by + tabs) % tabs) }
	}
	return []binding{
		{keys: []string{"tab", "right", "l"}, label: "tab", hint: always("next tab"), do: turn(1), about: "next tab; also right and l"},
		{keys: []string{"shift+tab", "left", "h"}, label: "shift-tab", do: turn(-1), about: "previous tab; also left and h"},
		{keys: []string{"up", "k"}, label: "up k", do: scroll(-1), about: "scroll up"},
		{keys: []string{"down", "j"}, label: "down j", do: scroll(1), about: "scroll down"},
		{keys: []string{"pgup", "ctrl+b"}, label: "page up", do: scroll(-10), about: "scroll up by a page"},
		{keys: []string{"pgdown", "ctrl+f"}, label: "page down", do: scroll(10), about: "scroll down by a page"},
		{keys: []string{"home", "g"}, label: "home g", do: func(m *model) tea.Cmd { m.insp.scroll(-m.insp.page.last); return nil }, about: "to the beginning"},
		{keys: []string{"end", "G"}, label: "end G", do: func(m *model) tea.Cmd { m.insp.scroll(m.insp.page.last); return nil }, about: "to the end; logs are followed there"},
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
	m.insp = &inspection{}
	m.show()
	return nil
}

func (m *model) closeInspector() {
	if m.insp == nil {
		return
	}
	m.insp.stop()
	m.insp = nil
}

func (i *inspection) stop() {
	if i.cancel != nil {
		i.cancel()
		i.cancel = nil
	}
}

func (m *model) openTab(t tab) tea.Cmd {
	m.insp.tab = t
	m.insp.page = pageOf{end: t == tabLogs}
	return m.ask()
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
	if m.insp == nil {
		return
	}
	if o, ok := m.subject(); m.insp.tab.asks() && ok && o == m.insp.about {
		return
	}
	m.insp.page = pageOf{end: m.insp.tab == tabLogs}
	m.queue(m.ask())
}

// loading reports whether the inspector shows something that goes stale.
func (m *model) loading() bool {
	return m.insp != nil && m.opts.Inspector != nil && (m.insp.tab == tabEvents || m.insp.tab == tabPods)
}

// refreshEvery is how often events and pods are looked up anew.
const refreshEvery = 3 * time.Second

func (m *model) refresh() tea.Cmd {
	if !m.loading() || m.insp.busy || time.Since(m.insp.asked) < refreshEvery {
		return nil
	}
	i := m.insp
	i.n++
	return m.question(i.tab, i.about)
}

// ask begins to look up what the open tab shows.
func (m *model) ask() tea.Cmd {
	i := m.insp
	i.stop()
	i.n++
	i.text, i.note, i.busy, i.tail = nil, "", false, nil
	o, ok := m.subject()
	i.about = o
	switch {
	case !i.tab.asks() || !ok:
		return nil
	case m.opts.Inspector == nil:
		i.note = "only the cluster knows, and this screen is not connected to it"
		return nil
	}
	i.busy = true
	return tea.Batch(m.question(i.tab, o), m.tick())
}

// loadedMsg answers the n-th question.
type loadedMsg struct {
	n    int
	text []string
	err  error
}

// askTimeout is how long an answer may take.
const askTimeout = 15 * time.Second

func (m *model) question(t tab, o plan.Object) tea.Cmd {
	i, insp := m.insp, m.opts.Inspector
	i.stop()
	i.asked = time.Now()
	if t == tabLogs {
		return m.followLogs(o)
	}
	ctx, cancel := context.WithTimeout(m.ctx, askTimeout)
	i.cancel = cancel
	n := i.n
	return func() tea.Msg {
		defer cancel()
		var text []string
		var err error
		switch t {
		case tabEvents:
			text, err = insp.Events(ctx, o)
		case tabPods:
			text, err = insp.Pods(ctx, o)
		case tabManifest:
			var manifest string
			manifest, err = insp.Manifest(ctx, o)
			text = strings.Split(maskSecrets(o, strings.TrimRight(manifest, "\n")), "\n")
		}
		return loadedMsg{n, text, err}
	}
}

func (m *model) loaded(a loadedMsg) {
	i := m.insp
	if i == nil || a.n != i.n {
		return
	}
	m.stale = true
	i.busy = false
	i.text, i.note = cleanLines(a.text), ""
	if a.err != nil {
		i.note = "cannot look that up: " + a.err.Error()
	} else if len(i.text) == 0 || len(i.text) == 1 && i.text[0] == "" {
		i.text, i.note = nil, "there is nothing"
	}
}

func cleanLines(lines []string) []string {
	var out []string
	for _, l := range lines {
		for s := range strings.SplitSeq(strings.TrimRight(l, "\r\n"), "\n") {
			out = append(out, canvas.Clean(s))
		}
	}
	return out
}

// clickTab opens the tab under the mouse.
func (m *model) clickTab(at tea.Mouse) tea.Cmd {
	if at.Y != m.lay.pane.Y {
		return nil
	}
	places := m.tabPlaces()
	if k := slices.IndexFunc(places, func(r canvas.Rect) bool { return r.Has(at.X, at.Y) }); k >= 0 {
		return m.openTab(tab(k))
	}
	return nil
}

// errText is an error for the inspector; the end of its context is none.
func errText(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	return "the log cannot be followed: " + err.Error()
}
