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
	// afterRun means that source watches the release after the operation.
	afterRun bool
}

// batchMsg is a batch of events; more is false for the last batch.
type batchMsg struct {
	events   []event.Event
	more     bool
	afterRun bool
}

// poll waits for the next events. It leaves at least screen.BatchEvery between batches to limit
// the frame rate of a busy run.
func (f *feed) poll() tea.Cmd {
	ctx, source, afterRun, next := f.ctx, f.source, f.afterRun, f.polled.Add(screen.BatchEvery)
	return func() tea.Msg {
		if !screen.Sleep(ctx, time.Until(next)) {
			return nil
		}
		events, more := source.Next(ctx)
		if !more && ctx.Err() != nil {
			return nil
		}
		return batchMsg{events, more, afterRun}
	}
}
