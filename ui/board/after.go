package board

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// afterRun watches the release after the operation while the screen stays open. It
// updates the objects, but not the operation's outcome.
type afterRun struct {
	open func(context.Context) (Source, error) // nil once called, or if nothing is watched
	feed feed
}

// watchStartedMsg is the result of afterRun.open.
type watchStartedMsg struct {
	source Source
	err    error
}

// startWatch starts to watch the release once the operation is over.
func (m *model) startWatch() tea.Cmd {
	switch {
	case m.after.open == nil, !m.HasReport(), m.QuitAtEnd:
		return nil
	case m.State.Release == event.NoRelease, m.State.Operation.Name == "test":
		return nil
	case m.State.Operation.Name == "uninstall" && m.State.Status == event.Succeeded:
		return nil
	}
	open, ctx := m.after.open, m.ctx
	m.after.open = nil
	return func() tea.Msg {
		source, err := open(ctx)
		return watchStartedMsg{source, err}
	}
}

// watchStarted shows the objects as they are observed from now on.
func (m *model) watchStarted(msg watchStartedMsg) tea.Cmd {
	if msg.err != nil {
		m.NotLive = "not watched: " + canvas.Clean(msg.err.Error())
		return nil
	}
	m.Observed = m.State.Snapshot()
	m.Graph = graph.New(m.Observed)
	m.after.feed = feed{ctx: m.ctx, source: msg.source, afterRun: true}
	return tea.Batch(m.refresh(), m.after.feed.poll())
}

// observe adds a batch of events after the operation.
func (m *model) observe(b batchMsg) tea.Cmd {
	m.after.feed.polled = time.Now()
	for _, e := range b.events {
		m.Observed.Observe(e)
	}
	cmd := m.refresh()
	if !b.more {
		m.NotLive = "no longer watched"
		return cmd
	}
	return tea.Batch(cmd, m.after.feed.poll())
}
