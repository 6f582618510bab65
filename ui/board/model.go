package board

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/theme"
	"lockstep/ui/board/breakpoints"
	"lockstep/ui/board/columns"
	"lockstep/ui/board/dialogs"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/header"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/jump"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/line"
	"lockstep/ui/board/page"
	"lockstep/ui/board/palette"
	"lockstep/ui/board/replay"
	"lockstep/ui/board/screen"
)

// model joins the regions and the modes, which share one screen.
type model struct {
	*screen.Screen
	regions
	modes
	feed
	replay  *replay.Replay // nil unless a record is replayed
	after   afterRun
	frame   string                      // the last frame, reused unless stale
	stale   bool                        // the frame is out of date
	first   bool                        // the user has not seen the screen before
	ticking bool                        // a tick is scheduled
	restart func(context.Context) error // prepares a restart; nil: not possible
	next    func(*event.State) []string // suggests commands at the end; may be nil
	// openRelease and release are set on the board of a stack: openRelease opens the board of a release, and a tab of its inspector;
	// release returns the board, nil if there is none.
	openRelease func(scope string, tab ...inspector.Tab) tea.Cmd
	release     func(scope string) *model
	// back and stackBoard are set on the board of a release: back returns to the stack's board.
	back       func() tea.Cmd
	stackBoard *model
}

type regions struct {
	header *header.Header
	board  *columns.Board
	insp   *inspector.Inspector
	beside int // the width of the inspector beside the board, 0 if it is below
}

// modes can be opened on top of the board.
type modes struct {
	edit           *edit.Edit
	abort, giveUp  *dialogs.Dialog
	breaks         *breakpoints.List
	palette        *palette.Palette
	filter, search *line.Line
	skip           *line.Line // the reason for which failed hooks are skipped
	jump           *jump.Jump
	help, warnings *page.Page
	report         *page.Page
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{feed: feed{ctx: ctx, source: o.Source}, after: afterRun{open: o.WatchAfter}, stale: true, first: o.First}
	m.restart, m.next = o.Restart, o.Next
	s := screen.New(o.Now, screen.Run{Attached: o.Attached, StartedBy: o.StartedBy, Throwaway: o.Restart != nil, Replayed: o.record != nil, Command: o.Command, Abort: m.askAbort, Home: o.Home,
		Leave: screen.Leave{ComeBack: o.ComeBack, Within: o.Unattended, Do: o.leave}})
	m.Screen = s
	m.board = columns.New(s, m.layOut)
	var release func(scope string) inspect.ChangeSource
	if o.Release != nil {
		release = func(scope string) inspect.ChangeSource { changes, _ := o.Release(scope); return changes }
	}
	m.insp = inspector.New(ctx, s, o.Inspector, release, m.board.Show)
	m.insp.Kubectl = o.Kubectl
	m.header = &header.Header{Screen: s, Title: o.Title, Context: o.Context}
	m.modes = modes{
		edit:  edit.New(ctx, s, o.Editor, o.AtQuit),
		abort: dialogs.Abort(s), giveUp: dialogs.GiveUp(s), breaks: breakpoints.New(s), palette: palette.New(s, m.table),
		filter: line.New(s, line.Config{Prompt: "/", Enter: "keep", Esc: "clear", OnInput: m.applyFilter, OnClear: m.clearFilter, Status: s.Matches}),
		search: line.New(s, line.Config{Prompt: "/", Enter: "next", Esc: "close", OnInput: m.insp.Seek, OnClear: m.insp.EndSearch, Status: m.insp.Matches, Next: m.insp.ToMatch}),
		skip:   line.New(s, line.Config{Prompt: "reason: ", Enter: "skip", Esc: "cancel", OnInput: func(string) {}, OnClear: func() {}, Status: func() string { return "may be empty" }, OnAccept: m.skipHooks}),
		jump:   jump.New(s, m.board),
		help:   page.New(s, "keys", m.helpLines), warnings: page.New(s, "warnings", m.warningLines), report: page.New(s, "report", m.reportLines),
	}
	m.help.Columns = true
	if o.record != nil {
		m.replay = replay.New(ctx, s, o.record, m.refresh)
	}
	m.SetTheme(o.Theme)
	return m
}

// Init asks for the first events and, if unknown, for the terminal's background, and shows the
// introduction to a new user.
func (m *model) Init() tea.Cmd {
	var cmds []tea.Cmd
	if m.replay != nil {
		cmds = append(cmds, m.replay.Begin())
	} else {
		cmds = append(cmds, m.poll())
	}
	if m.first {
		cmds = append(cmds, m.SayFor(firstFor, theme.Accent, m.introduction()))
	}
	return tea.Batch(append(cmds, m.AskBackground())...)
}

// introduction tells a new user what the screen shows, and how to steer a run.
func (m *model) introduction() string {
	return m.Join("above: groups by layer", "below: the selected group", "p pause, n step, g go to a group, ? all keys")
}

// firstFor is how long the introduction stays, while the run lasts.
const firstFor = 20 * time.Second

// tickMsg redraws the running times.
type tickMsg struct{}

const (
	tickEvery      = time.Second
	tickEveryStill = 10 * time.Second
)

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.stale = true
	was := m.Sel
	cmd := m.handle(msg)
	if m.Sel != was {
		cmd = tea.Batch(cmd, m.insp.SelectionChanged())
	}
	return m, tea.Batch(cmd, m.insp.QueryChanges(), m.tick())
}

func (m *model) handle(msg tea.Msg) tea.Cmd {
	if m.Take(msg) {
		if _, resized := msg.(tea.WindowSizeMsg); resized {
			m.board.Show()
		}
		return nil
	}
	switch msg := msg.(type) {
	case batchMsg:
		if msg.afterRun {
			return m.observe(msg)
		}
		return m.absorb(msg)
	case restartMsg:
		return m.restartOrStop(msg)
	case watchStartedMsg:
		return m.watchStarted(msg)
	case tickMsg:
		m.ticking = false
		return m.insp.Refresh()
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

// forward passes a message to the inspector, the edit and the replay; each ignores the messages of the
// others.
func (m *model) forward(msg tea.Msg) tea.Cmd {
	cmds := []tea.Cmd{m.insp.Update(msg), m.edit.Update(msg)}
	if m.replay != nil {
		cmds = append(cmds, m.replay.Update(msg))
	}
	return tea.Batch(cmds...)
}

// absorb adds a batch of events to the picture.
func (m *model) absorb(b batchMsg) tea.Cmd {
	m.polled = time.Now()
	cmds := m.Absorb(b.events)
	if slices.ContainsFunc(b.events, edit.Accepted) {
		m.edit.Applied()
	}
	m.Ended = m.Ended || !b.more
	cmds = append(cmds, m.refresh())
	if b.more && m.source != nil {
		cmds = append(cmds, m.poll())
	}
	if m.Over() && m.Flash.Text == m.introduction() {
		m.Flash.Text = ""
	}
	if m.QuitAtEnd && m.Over() {
		cmds = append(cmds, m.quit())
	}
	cmds = append(cmds, m.startWatch())
	return tea.Batch(cmds...)
}

// refresh updates everything derived from the events.
func (m *model) refresh() tea.Cmd {
	m.UpdateOutcomes()
	m.Count()
	m.Refilter()
	cmds := []tea.Cmd{m.edit.Update(keys.Changed{})}
	for _, open := range slices.Clone(m.Modes) {
		cmds = append(cmds, open.Update(keys.Changed{}))
	}
	if m.Follow {
		m.board.FollowRun()
	}
	m.board.Show()
	return tea.Batch(append(cmds, m.insp.Update(keys.Changed{}))...)
}

// tick schedules a tick while the screen shows running times.
func (m *model) tick() tea.Cmd {
	still := m.replay != nil && !m.replay.Playing()
	if m.ticking || still || !m.HasRunningTimes() && !m.insp.Refreshes() {
		return nil
	}
	m.ticking = true
	every := tickEvery
	if m.Theme.Still {
		every = tickEveryStill
	}
	return tea.Tick(every, func(time.Time) tea.Msg { return tickMsg{} })
}

// View draws a frame, unless nothing has changed since the last one.
func (m *model) View() tea.View {
	if m.stale {
		m.draw()
	}
	return m.Frame(m.frame)
}

func (m *model) draw() {
	m.stale = false
	if m.W <= 0 || m.H <= 0 {
		m.frame = ""
		return
	}
	m.Clear()
	if m.TooSmall() {
		m.header.DrawTooSmall()
	} else {
		m.layOut()
		m.header.Draw(m.failureHints())
		m.board.Draw()
		m.drawPane()
		if m.replay != nil {
			m.replay.Draw()
		}
		m.drawFooter()
	}
	for _, open := range m.Modes {
		open.Draw()
	}
	m.DrawFlash()
	m.frame = m.Canvas.String()
}
