package remote

import (
	"crypto/rand"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/remote/protocol"
)

// A screen of a run in the cluster has no connection to the run. It says every screenEvery that it is open, and counts as closed
// after screenGone without that.
const (
	screenEvery = time.Minute
	screenGone  = 5 * screenEvery / 2
)

// Screens counts the screens that show a run, and publishes their number after each change.
type Screens struct {
	feed *event.Feed

	mu   sync.Mutex
	own  bool                   // the run's own screen is open
	open map[string]*time.Timer // the attached ones by their IDs; the timer is nil if there is a connection
}

// NewScreens returns the screens of a run. own says that the run has one on its own terminal.
func NewScreens(feed *event.Feed, own bool) *Screens {
	return &Screens{feed: feed, own: own, open: map[string]*time.Timer{}}
}

// Consume publishes at the start of the run that its own screen is open: who follows only its events must not count down as if
// nobody was there (R47).
func (s *Screens) Consume(e event.Event) {
	if e.Kind != event.KindOperation || e.Status != event.Running || e.Scope != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own {
		s.feed.Publish(event.Event{Kind: event.KindScreens, Screens: s.count()})
	}
}

// OwnClosed is called when the run's own screen has closed.
func (s *Screens) OwnClosed() {
	s.change(func() { s.own = false })
}

// seen notes that a screen is open, until it is gone or, without a connection, until it was not seen for a while.
func (s *Screens) seen(id string, connected bool) {
	s.change(func() {
		if old := s.open[id]; old != nil {
			old.Stop()
		}
		s.open[id] = nil
		if !connected {
			s.open[id] = time.AfterFunc(screenGone, func() { s.gone(id) })
		}
	})
}

func (s *Screens) gone(id string) { s.change(func() { delete(s.open, id) }) }

// change makes a change, and publishes the number of screens if that has changed.
func (s *Screens) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.count()
	do()
	if now := s.count(); now != before {
		s.feed.Publish(event.Event{Kind: event.KindScreens, Screens: now})
	}
}

// count returns the number of screens. The caller must hold s.mu.
func (s *Screens) count() int {
	if s.own {
		return len(s.open) + 1
	}
	return len(s.open)
}

// OpenScreen tells the run that a screen shows it, or that its lines are followed, until closed is called. Other connections, as of
// lists of runs, do not keep a paused run waiting (R47).
func (r *Run) OpenScreen() (closed func()) {
	request := protocol.Request{Command: event.Command{ID: rand.Text()}, Query: protocol.Query{Type: protocol.ScreenOpen}}
	last := request
	last.Type = protocol.ScreenClosed
	_ = r.requests.put(request) // the count does not matter to this screen
	if r.Local() {
		return func() { _ = r.requests.put(last) } // the end of the connection says it, too
	}
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-r.ended:
				return
			case <-time.After(screenEvery):
				_ = r.requests.put(request)
			}
		}
	}()
	return func() {
		close(stop)
		r.sendBeforeClose(last)
	}
}

// sendBeforeClose sends a request without the queue, whose rest is lost when the connection is closed.
func (r *Run) sendBeforeClose(request protocol.Request) {
	line, err := request.Encode()
	if err != nil {
		return
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = send(r.conn, line) // on an error, the run notices it later
	}()
	select {
	case <-sent:
	case <-time.After(closeTimeout):
	}
}
