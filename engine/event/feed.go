package event

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Feed is the record of an operation: it numbers and stamps events, keeps them
// all, and hands them to any number of readers, each at its own pace. Publish
// never waits for a reader, and no reader misses an event. Its zero value is
// ready to use.
type Feed struct {
	mu     sync.Mutex
	events []Event
	closed bool
	more   chan struct{} // closed when events or closed change
}

// Publish stamps e with the next number and the present time and appends it.
// After Close it does nothing.
func (f *Feed) Publish(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	e.Seq = uint64(len(f.events)) + 1
	e.Time = time.Now().UTC()
	f.events = append(f.events, e)
	f.wake()
}

// Close ends the record; readers get what is left and then the end. It may be
// called more than once.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wake()
}

// wake needs f.mu.
func (f *Feed) wake() {
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// Events returns a copy of all events so far.
func (f *Feed) Events() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// Reader returns a reader that starts at the first event. It needs no closing.
func (f *Feed) Reader() *Reader { return &Reader{feed: f} }

// Reader reads a Feed. One goroutine may use it at a time.
type Reader struct {
	feed *Feed
	next int
}

// Next returns the events since the last call, at least one. It waits for one
// where there is none, and returns false at the end of the feed or of ctx. The
// slice must not be changed.
func (r *Reader) Next(ctx context.Context) ([]Event, bool) {
	for {
		batch, more := r.poll()
		if len(batch) > 0 {
			return batch, true
		}
		if more == nil {
			return nil, false
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// poll returns what is there now, or else a channel to wait on, nil at the end.
func (r *Reader) poll() ([]Event, <-chan struct{}) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.events); r.next < n {
		batch := f.events[r.next:n:n]
		r.next = n
		return batch, nil
	}
	if f.closed {
		return nil, nil
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return nil, f.more
}
