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
	open  func(context.Context) (Source, error) // nil once called, or if the screen keeps its last state
	polls feed
}

// laterMsg is the result of open.
type laterMsg struct {
	source Source
	err    error
}

// startLater starts to watch the release once the operation is over.
func (m *model) startLater() tea.Cmd {
	switch {
	case m.later.open == nil, !m.HasReport(), m.QuitAtEnd:
		return nil
	case m.State.Release == event.NoRelease, m.State.Operation.Name == "test":
		return nil
	case m.State.Operation.Name == "uninstall" && m.State.Status == event.Succeeded:
		return nil
	}
	open, ctx := m.later.open, m.ctx
	m.later.open = nil
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
	m.later.polls = feed{ctx: m.ctx, source: msg.source, later: true}
	return tea.Batch(m.settle(), m.later.polls.poll())
}

func (m *model) observe(b batchMsg) tea.Cmd {
	m.later.polls.polled = time.Now()
	for _, e := range b.events {
		m.Later.Observe(e)
	}
	cmd := m.settle()
	if !b.more {
		m.NotLive = "no longer watched"
		return cmd
	}
	return tea.Batch(cmd, m.later.polls.poll())
}
