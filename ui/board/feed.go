package board

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/screen"
)

// Source provides the events of an operation; *event.Reader implements it.
type Source interface {
	// Next returns the events since the last call, at least one. It blocks until there is
	// one, and returns false at the end of the record or when ctx is done.
	Next(ctx context.Context) ([]event.Event, bool)
}

// recordedEvents is a Source of events from a record.
type recordedEvents struct{ events []event.Event }

func (s *recordedEvents) Next(context.Context) ([]event.Event, bool) {
	events := s.events
	s.events = nil
	return events, len(events) > 0
}

type feed struct {
	ctx    context.Context
	source Source
	polled time.Time // when the last batch arrived
	later  bool      // it watches the release after the operation
}

// batchMsg is a batch of events; more is false for the last one.
type batchMsg struct {
	events []event.Event
	more   bool
	later  bool // after the operation
}

// poll waits for the next events, and at least screen.BatchEvery after the last
// batch, which limits the frame rate of a busy run.
func (f *feed) poll() tea.Cmd {
	ctx, source, later, fresh := f.ctx, f.source, f.later, f.polled.Add(screen.BatchEvery)
	return func() tea.Msg {
		if !screen.Sleep(ctx, time.Until(fresh)) {
			return nil
		}
		events, more := source.Next(ctx)
		if !more && ctx.Err() != nil {
			return nil
		}
		return batchMsg{events, more, later}
	}
}
