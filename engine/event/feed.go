package event

import (
	"context"
	"iter"
	"sync"
	"time"
)

// Feed numbers and timestamps the events of an operation and delivers them to any number of readers, each at its
// own pace. Publish never waits for a reader, and a reader gets every event from its first one on. The zero
// value is ready to use and keeps all events for later readers.
type Feed struct {
	// Bounded makes the feed drop superseded events, for an operation that never ends. A new
	// reader then starts with events that produce the same State (see compact), with gaps in
	// seq. Existing readers still get every event. Set it before the first event.
	Bounded bool
	// Mask, if set, masks each event before it is recorded. Set it before the first event.
	Mask func(Event) Event
	// OnEvent, if set, is called with each event before any reader gets it. It must not use
	// the feed. Set it before the first event.
	OnEvent func(Event)

	mu     sync.Mutex
	first  *page // where a new reader starts
	last   *page
	count  int // events in first and the pages after it
	limit  int // a Bounded feed is compacted when count exceeds it
	seq    uint64
	closed bool
	more   chan struct{} // closed when there are more events, or closed is set
}

// page is a part of the feed. It can be garbage-collected once neither first nor a reader can reach it.
type page struct {
	events []Event
	next   *page // set once, when the next page is added
}

const (
	pageSize = 256
	// minCompactSize is in events: a bounded feed is not compacted below this number of events.
	minCompactSize = 4 * pageSize
)

// Publish appends an event with the next number and the current time. After Close it does nothing.
func (f *Feed) Publish(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish(e)
}

// Relay appends an event that already has its number and time, such as one from another feed.
func (f *Feed) Relay(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq = e.Seq
	f.append(e)
}

// End publishes the last event and closes the feed atomically.
func (f *Feed) End(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish(e)
	f.closed = true
}

// Close ends the feed; readers still get the remaining events. It may be called more than once.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wake()
}

// publish numbers and timestamps an event. The caller of this and of the
// following methods, up to wake, must hold f.mu.
func (f *Feed) publish(e Event) {
	f.seq++
	e.Seq, e.Time = f.seq, time.Now().UTC()
	f.append(e)
}

// append masks and stores an event.
func (f *Feed) append(e Event) {
	if f.closed {
		return
	}
	if f.Mask != nil {
		e = f.Mask(e)
	}
	if f.OnEvent != nil {
		f.OnEvent(e)
	}
	f.addFirstPage()
	if len(f.last.events) == pageSize {
		f.addPage(nil)
	}
	f.last.events = append(f.last.events, e)
	if f.count++; f.Bounded && f.count > max(f.limit, minCompactSize) {
		f.compact()
	}
	f.wake()
}

// addFirstPage adds the first page if there is none.
func (f *Feed) addFirstPage() {
	if f.first == nil {
		f.first = &page{}
		f.last = f.first
	}
}

// addPage appends a new page. If first is not nil, new readers start there.
func (f *Feed) addPage(first *page) {
	next := &page{events: make([]Event, 0, pageSize)}
	f.last.next, f.last = next, next
	if first != nil {
		first.next, f.first = next, first
	}
}

// compact makes new readers start with a compacted record.
func (f *Feed) compact() {
	kept := compact(f.all())
	f.addPage(&page{events: kept})
	f.count, f.limit = len(kept), 2*len(kept)
}

// all returns a copy of the events.
func (f *Feed) all() []Event {
	var out []Event
	for p := f.first; p != nil; p = p.next {
		out = append(out, p.events...)
	}
	return out
}

// wake wakes all waiting readers.
func (f *Feed) wake() {
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// Events returns a copy of the events so far. A bounded feed returns those it kept.
func (f *Feed) Events() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all()
}

// Reader returns a reader that starts at the first event, or at the first event that a
// bounded feed kept. It need not be closed.
func (f *Feed) Reader() *Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addFirstPage()
	return &Reader{feed: f, page: f.first}
}

// Reader reads a Feed. One goroutine may use it at a time.
type Reader struct {
	feed *Feed
	page *page
	read int // number of events of page that were read
}

// Next returns the events since the last call. It blocks until there is at least one, and returns
// false when ctx is done, or when the feed is closed and all events were read. The slice belongs to the
// caller, but the objects, phases and lines in its events are shared and must not be changed.
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

// All returns the events one by one until ctx is done, or until the feed is closed and all events were read.
func (r *Reader) All(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			batch, ok := r.Next(ctx)
			if !ok {
				return
			}
			for _, e := range batch {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// poll returns the available events, or else a channel to wait on, which is nil at the end.
func (r *Reader) poll() ([]Event, <-chan struct{}) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	var batch []Event
	for {
		if n := len(r.page.events); r.read < n {
			batch = append(batch, r.page.events[r.read:n]...)
			r.read = n
		}
		if r.page.next == nil {
			break
		}
		r.page, r.read = r.page.next, 0
	}
	switch {
	case len(batch) > 0:
		return batch, nil
	case f.closed:
		return nil, nil
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return nil, f.more
}
