package board

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/inspector"
)

type (
	// batchMsg brings events; the last one tells that there are no more.
	batchMsg struct {
		events []event.Event
		more   bool
	}
	// tickMsg lets times on the screen go on.
	tickMsg struct{}
	// unflashMsg takes the n-th short message away.
	unflashMsg int
)

const (
	tickEvery      = time.Second
	tickEveryStill = 10 * time.Second
	flashFor       = 5 * time.Second
)

// Update takes a message into the model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
		m.stale = true
		m.show()
	case tea.BackgroundColorMsg:
		if o := m.Theme.Options; o.Background == theme.Detect {
			o.Background = theme.Dark
			if !msg.IsDark() {
				o.Background = theme.Light
			}
			m.setTheme(o)
		}
	case tea.ColorProfileMsg:
		m.setDepth(msg.Profile)
	case batchMsg:
		cmd = m.take(msg)
	case tickMsg:
		m.ticks, m.stale = false, true
		cmd = m.tick()
		if m.insp != nil {
			cmd = tea.Batch(cmd, m.insp.Refresh())
		}
	case unflashMsg:
		if int(msg) == m.flash.n {
			m.flash.text, m.stale = "", true
		}
	case inspector.ChangesMsg:
		m.stale = true
		m.changes.Take(msg)
		cmd = m.askAhead()
	case inspector.LoadedMsg, inspector.LogMsg:
		if m.insp != nil {
			m.stale = true
			cmd = m.insp.Take(msg)
		}
	case writtenMsg:
		m.stale = true
		cmd = m.readWritten(msg)
	case plannedMsg:
		m.stale = true
		m.planned(msg)
	case anewMsg:
		cmd = m.startsAnew(msg)
	case folderMsg:
		cmd = m.sawFolder(msg)
	case revertsMsg:
		m.sawReverts(msg)
	case playedMsg:
		cmd = m.played(msg)
	case tea.KeyPressMsg:
		m.stale = true
		cmd = m.press(msg)
	case tea.PasteMsg:
		if m.typing {
			cmd = m.typeFilter(msg)
		}
	case tea.MouseClickMsg:
		m.stale = true
		cmd = m.click(msg.Mouse())
	case tea.MouseWheelMsg:
		m.stale = true
		m.wheel(msg.Mouse())
	}
	if len(m.queued) > 0 {
		cmd = tea.Batch(append(m.queued, cmd)...)
		m.queued = nil
	}
	return m, cmd
}

// queue adds a command to those that Update returns.
func (m *model) queue(cmd tea.Cmd) { m.queued = append(m.queued, cmd) }

func (m *model) setDepth(p colorprofile.Profile) {
	o := m.Theme.Options
	switch {
	case o.Depth == theme.None:
		return
	case p <= colorprofile.ASCII:
		o.Depth = theme.None
	case p == colorprofile.ANSI:
		o.Depth = theme.Basic
	default:
		o.Depth = m.opts.Theme.Depth
	}
	m.setTheme(o)
}

// poll waits for the next events. Those that come while the last ones are
// still fresh are collected first, which bounds the frames that a busy run
// costs.
func (m *model) poll() tea.Cmd {
	ctx, src, fresh := m.ctx, m.opts.Source, m.polled.Add(batchEvery)
	return func() tea.Msg {
		if !sleep(ctx, time.Until(fresh)) {
			return nil
		}
		events, more := src.Next(ctx)
		if !more && ctx.Err() != nil {
			return nil
		}
		return batchMsg{events, more}
	}
}

// sleep waits, and reports false where ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// take draws a batch of events of a run into the picture.
func (m *model) take(b batchMsg) tea.Cmd {
	m.polled = time.Now()
	cmds := m.absorb(b.events)
	m.Ended = m.Ended || !b.more
	cmds = append(cmds, m.settle())
	if b.more {
		cmds = append(cmds, m.poll())
	}
	if m.leaving && m.Over() {
		cmds = append(cmds, m.quit())
	}
	return tea.Batch(append(cmds, m.tick())...)
}

// absorb draws events into the picture; settle has to follow.
func (m *model) absorb(events []event.Event) (cmds []tea.Cmd) {
	m.stale = true
	announced := false
	for _, e := range events {
		m.State.Apply(e)
		switch {
		case e.Kind == event.KindOperation && e.Status == event.RollingBack:
			m.follow = true // it was asked for: the user wants to see it
		case e.Kind == event.KindRun:
			m.went = false
		case e.Kind == event.KindCommand && e.Command == event.Step && e.Status == event.Accepted:
			m.went = true
		case e.Kind == event.KindPlan:
			announced = true
		case e.Kind == event.KindCommand && e.Command == event.Edit && e.Status == event.Accepted:
			m.edit = nil
			m.follow = true // the plan is another one
		case e.Kind == event.KindCommand && e.Status == event.Refused:
			cmds = append(cmds, m.say(theme.Bad, commandNames[e.Command]+" refused: "+e.Message))
		}
	}
	if announced {
		m.Graph = graph.New(&m.State)
	}
	return cmds
}

// settle makes the screen fit the picture.
func (m *model) settle() tea.Cmd {
	m.Count()
	m.Undone()
	m.match()
	if m.Over() || m.dialog == giveUpDialog && !held(m) {
		m.dialog = noDialog
	}
	if m.Over() {
		m.breaks = nil
		if m.edit != nil {
			m.edit.shown = false
		}
	}
	if m.follow {
		m.chase()
	}
	m.show()
	return tea.Batch(m.lookAround(), m.askAhead())
}

// tick arms the clock where something on the screen goes on with time.
func (m *model) tick() tea.Cmd {
	if m.ticks || m.stands() || !m.Lively() && !(m.insp != nil && m.insp.Loading()) {
		return nil
	}
	m.ticks = true
	every := tickEvery
	if m.Theme.Still {
		every = tickEveryStill
	}
	return tea.Tick(every, func(time.Time) tea.Msg { return tickMsg{} })
}

// say shows a short message in the state line.
func (m *model) say(role theme.Role, text string) tea.Cmd {
	m.flash = flash{text: text, role: role, n: m.flash.n + 1}
	n := m.flash.n
	return tea.Tick(flashFor, func(time.Time) tea.Msg { return unflashMsg(n) })
}
