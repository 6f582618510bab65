package board

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// A screen that stays open after the operation keeps watching the release (R34b): it
// updates the objects, but not the operation's outcome.

// later is the source of these observations.
type later struct {
	open   func(context.Context) (Source, error) // may be nil
	asked  bool
	events feed
}

// laterMsg is the result of open; observedMsg is a batch of observations.
type (
	laterMsg struct {
		source Source
		err    error
	}
	observedMsg batchMsg
)

// startLater starts to watch the release once the operation is over.
func (m *model) startLater() tea.Cmd {
	switch {
	case m.later.open == nil, m.later.asked, !m.HasReport(), m.QuitAtEnd:
		return nil
	case m.State.Release == event.NoRelease, m.State.Operation.Name == "test":
		return nil
	case m.State.Operation.Name == "uninstall" && m.State.Status == event.Succeeded:
		return nil
	}
	m.later.asked = true
	open, ctx := m.later.open, m.ctx
	return func() tea.Msg {
		source, err := open(ctx)
		return laterMsg{source, err}
	}
}

// laterOpened handles the result of open.
func (m *model) laterOpened(msg laterMsg) tea.Cmd {
	if msg.err != nil {
		m.NotLive = "no longer watched: " + canvas.Clean(msg.err.Error())
		return nil
	}
	m.Later = m.State.Snapshot()
	m.Graph = graph.New(m.Later)
	m.later.events = feed{ctx: m.ctx, source: msg.source}
	return tea.Batch(m.settle(), m.pollLater())
}

func (m *model) pollLater() tea.Cmd {
	poll := m.later.events.poll()
	return func() tea.Msg {
		if batch, ok := poll().(batchMsg); ok {
			return observedMsg(batch)
		}
		return nil
	}
}

func (m *model) observe(msg observedMsg) tea.Cmd {
	m.later.events.polled = time.Now()
	for _, e := range msg.events {
		m.Later.Observe(e)
	}
	cmd := m.settle()
	if !msg.more {
		m.NotLive = "no longer watched"
		return cmd
	}
	return tea.Batch(cmd, m.pollLater())
}
