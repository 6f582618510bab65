package home

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/line"
	"lockstep/ui/board/page"
	"lockstep/ui/board/screen"
)

// model is home. It follows one namespace at a time.
type model struct {
	*screen.Screen
	options Options
	state   *State
	follower
	snapshot Snapshot
	table    table
	view
	modes
	args  []string // what to run after the screen has closed
	frame string
	stale bool
}

// view is what of the table is in view.
type view struct {
	top      int // the first release in view
	runsTop  int // the first run in view
	selected int // the row of state.Selected
}

// modes can be opened on top of the table.
type modes struct {
	filter, namespace *line.Line
	help              *page.Page
	namespaces        []string  // to choose from
	form              keys.Mode // nil unless a form is open
}

// follower receives the snapshots of the source.
type follower struct {
	ctx       context.Context
	stop      context.CancelFunc
	snapshots chan Snapshot // holds the latest one
	number    int           // counts the namespaces that were followed
	polled    int           // the number of the one that poll waits for
	ended     chan struct{}
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{options: o, state: o.State, stale: true}
	m.ctx = ctx
	m.Screen = screen.New(o.Now, screen.Run{Abort: func() tea.Cmd { return m.quit() }})
	m.modes = modes{
		filter: line.New(m.Screen, line.Config{Prompt: "/", Enter: "keep", Esc: "clear", OnInput: m.setFilter, OnClear: func() { m.setFilter("") }, Status: m.matches}),
		namespace: line.New(m.Screen, line.Config{Prompt: "namespace: ", Enter: "open", Esc: "cancel", OnInput: func(string) {}, OnClear: func() {},
			Status: m.suggested, OnAccept: keys.Run(m.openNamespace), Other: []keys.Binding{{Keys: "tab", About: "complete", Do: keys.Run(m.complete)}}}),
		help: page.New(m.Screen, "keys", m.helpLines),
	}
	m.help.Columns = true
	m.SetTheme(o.Theme)
	m.follow()
	return m
}

// follow starts to follow the namespace of the state, and stops following another one.
func (m *model) follow() {
	m.close()
	ctx, stop := context.WithCancel(m.ctx)
	shown, ended := make(chan Snapshot, 1), make(chan struct{})
	m.stop, m.snapshots, m.ended = stop, shown, ended
	m.number++
	m.snapshot = Snapshot{}
	m.arrange()
	go func() {
		defer close(ended)
		m.options.Source.Follow(ctx, m.state.scope(), func(s Snapshot) {
			select {
			case <-shown: // nobody needs the one before
			default:
			}
			shown <- s
		})
	}()
}

// close stops following. It does not wait: a process that does not answer must not delay a key.
func (m *model) close() {
	if m.stop != nil {
		m.stop()
	}
}

// snapshotMsg is a snapshot of the namespace with a number.
type snapshotMsg struct {
	Snapshot
	number int
}

// poll waits for the next snapshot.
func (m *model) poll() tea.Cmd {
	shown, number, ended := m.snapshots, m.number, m.ended
	m.polled = number
	return func() tea.Msg {
		select {
		case s := <-shown:
			screen.Sleep(m.ctx, screen.BatchEvery)
			select {
			case s = <-shown:
			default:
			}
			return snapshotMsg{s, number}
		case <-ended:
			return nil
		}
	}
}

// tickMsg redraws the ages.
type tickMsg struct{}

const tickEvery = time.Second

func tick() tea.Cmd { return tea.Tick(tickEvery, func(time.Time) tea.Msg { return tickMsg{} }) }

func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.poll(), tick(), m.AskBackground()}
	if o := m.options; o.Notice != "" {
		cmds = append(cmds, m.SayFor(noticeFor, o.NoticeRole, o.Notice))
	}
	if m.state.History != nil {
		cmds = append(cmds, m.openHistory(*m.state.History))
	}
	if m.state.Past != nil {
		cmds = append(cmds, m.openPast())
	}
	if m.options.Open != nil {
		cmds = append(cmds, m.open(*m.options.Open))
	}
	return tea.Batch(cmds...)
}

// noticeFor is how long the end of the last command is shown.
const noticeFor = 20 * time.Second

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.stale = true
	cmd := m.handle(msg)
	m.show()
	if m.polled != m.number {
		cmd = tea.Batch(cmd, m.poll())
	}
	return m, cmd
}

func (m *model) handle(msg tea.Msg) tea.Cmd {
	if m.Take(msg) {
		return nil
	}
	switch msg := msg.(type) {
	case snapshotMsg:
		if msg.number == m.number {
			m.snapshot = msg.Snapshot
			m.snapshot.Runs = withHealth(msg.Runs, msg.Releases)
			m.arrange()
			return tea.Batch(m.poll(), m.forward(msg))
		}
	case namespacesMsg:
		m.namespaces = msg
	case tickMsg:
		return tea.Batch(tick(), m.forward(msg))
	case tea.KeyPressMsg:
		return m.press(msg)
	case tea.PasteMsg:
		if top := m.Modes.Top(); top != nil {
			return top.Update(msg)
		}
	case tea.MouseClickMsg:
		return m.click(msg.Mouse())
	case tea.MouseWheelMsg:
		return m.wheel(msg)
	default:
		return m.forward(msg)
	}
	return nil
}

// forward passes a message to the open modes; each ignores those of the others.
func (m *model) forward(msg tea.Msg) tea.Cmd {
	var cmds []tea.Cmd
	for _, open := range slices.Clone(m.Modes) {
		cmds = append(cmds, open.Update(msg))
	}
	return tea.Batch(cmds...)
}

// press runs the binding of a key in the topmost mode, or of the table.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	name, top := k.String(), m.Modes.Top()
	if top == nil {
		if b, ok := keys.Find(m.keys(), name); ok {
			return b.Press(m.Explain)
		}
		return m.unknown(name)
	}
	if b, ok := keys.Find(top.Keys(), name); ok {
		return b.Press(m.Explain)
	}
	switch top.(type) {
	case *history, *past: // they take no text
		return m.unknown(name)
	}
	return top.Update(k)
}

// unknown says that a key has no binding.
func (m *model) unknown(name string) tea.Cmd {
	return m.Explain(name + " is no key here; ? shows all keys")
}

func (m *model) click(at tea.Mouse) tea.Cmd {
	if at.Button != tea.MouseLeft || m.Modes.Covers() || m.TooSmall() {
		return nil
	}
	for _, b := range m.Buttons {
		if b.Rect.Has(at.X, at.Y) {
			if b, ok := keys.Find(m.keys(), b.Key); ok {
				return b.Press(m.Explain)
			}
		}
	}
	if n, ok := m.rowAt(at.Y); ok {
		if n == m.selected {
			return m.enter()
		}
		m.selectRow(n)
	}
	return nil
}

func (m *model) wheel(msg tea.MouseWheelMsg) tea.Cmd {
	if m.Modes.Covers() {
		return m.Modes.Top().Update(msg)
	}
	switch msg.Button {
	case tea.MouseWheelUp:
		m.move(-3)
	case tea.MouseWheelDown:
		m.move(3)
	}
	return nil
}

// arrange makes the table from the snapshot, and keeps the selection.
func (m *model) arrange() {
	m.table = newTable(&m.snapshot, m.state.Filter, m.state.Sort, m.name)
	if n := slices.IndexFunc(m.table.rows, func(r row) bool { return r.id() == m.state.Selected }); n >= 0 {
		m.selected = n
	}
	m.selected = min(max(m.selected, 0), max(len(m.table.rows)-1, 0))
}

// selectRow selects a row.
func (m *model) selectRow(n int) {
	m.selected = min(max(n, 0), max(len(m.table.rows)-1, 0))
	if r := m.row(); r != nil {
		m.state.Selected = r.id()
	}
}

func (m *model) move(by int) { m.selectRow(m.selected + by) }

// row returns the selected row, nil if the table is empty.
func (m *model) row() *row {
	if m.selected >= len(m.table.rows) {
		return nil
	}
	return &m.table.rows[m.selected]
}

// release returns the selected release, nil if none is.
func (m *model) release() *Release {
	if r := m.row(); r != nil {
		return r.release
	}
	return nil
}

// show scrolls to the selected row, and asks for what is in view.
func (m *model) show() {
	l, runs := m.layOut(), m.table.runs
	m.runsTop = scroll(m.runsTop, m.selected, runs, l.runs.H)
	m.top = scroll(m.top, m.selected-runs, len(m.table.rows)-runs, l.releases.H)
	var inView []Key
	for _, r := range m.table.rows[runs+m.top : min(runs+m.top+l.releases.H, len(m.table.rows))] {
		if r.release != nil {
			inView = append(inView, r.release.Key)
		}
	}
	var selected Key
	if r := m.release(); r != nil {
		selected = r.Key
	}
	m.options.Source.Need(inView, selected)
}

// scroll returns the first of n rows to show in room lines, so that the selected one is in view if it is one of them.
func scroll(top, selected, n, room int) int {
	if selected >= 0 && selected < n {
		top = max(min(top, selected), selected-room+1)
	}
	return max(min(top, n-room), 0)
}

func (m *model) setFilter(query string) {
	m.state.Filter = query
	m.arrange()
	if query != "" { // what was found stays selected without the filter
		m.selectRow(m.selected)
		if r := m.row(); r != nil && r.isStack() && !matches(wordsOf(query), r.stack.Name) {
			m.move(1) // to the stack's release that was found
		}
	}
}

// matches says how many releases match the filter, and how many runs if some do.
func (m *model) matches() string {
	runs := 0
	for _, r := range m.table.rows[:m.table.runs] {
		if r.part == nil {
			runs++
		}
	}
	found := text.Count(m.table.releases(), "release")
	if runs > 0 {
		found = text.Count(runs, "run") + ", " + found
	}
	return found
}

func (m *model) View() tea.View {
	if m.stale {
		m.draw()
	}
	return m.Frame(m.frame)
}

// helpLines returns the table of keys, those of the topmost screen first.
func (m *model) helpLines(width int) []canvas.Line {
	all := Doc()
	if first := m.partOnTop(); first != "" {
		isFirst := func(k keys.Key) bool { return k.Part == first }
		isLater := func(k keys.Key) bool { return k.Part != first }
		all = append(slices.DeleteFunc(slices.Clone(all), isLater), slices.DeleteFunc(all, isFirst)...)
	}
	return keys.Table(all, width)
}

// partOnTop returns the heading of the keys of the history or of the past runs if one is open, else "".
func (m *model) partOnTop() string {
	for _, open := range slices.Backward(m.Modes) {
		switch open.(type) {
		case *history:
			return partHistory
		case *past:
			return partPast
		}
	}
	return ""
}
