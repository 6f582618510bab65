package connect

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Link holds what all connections to an API server share: whether it responds. During an
// outage one request at a time probes it and the others wait; afterwards they are released
// gradually. So an outage costs few requests and does not end in a burst.
//
// There is a gate for the wire and one for each group of the API ("apps/v1"). Aggregated APIs
// have none: their failure says nothing about the API server.
type Link struct {
	cache cache

	mu        sync.Mutex
	found     bool           // a connection was accepted, ever
	known     bool           // a response came, ever
	failures  map[string]int // consecutive, by gate
	gates     map[string]*gate
	listeners map[int]Listener
	next      int
}

// Listener is called when the API server stops responding and when it is back. Its functions
// must neither block nor call the Link.
type Listener struct {
	Away func(since time.Time, reason string)
	Back func()
	// Of limits Trying and Warned to the requests of a connection with these Writes; nil for all.
	Of *Writes
	// Trying is called before a retry after an error response, with the time of the first one.
	Trying func(t Target, since time.Time, answer string)
	// Warned is called with each warning in the response to a write, such as a deprecated
	// version or a violation of PodSecurity.
	Warned func(t Target, warning string)
}

const (
	wire = "" // the gate of all requests

	// lostAfter is the number of consecutive failures that count as an outage.
	lostAfter = 3

	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	// probePause is the longest time between two probes.
	probePause = 2 * time.Second

	// releaseStep is the time per waiting request in which they are released, maxReleaseTime the maximum for all.
	releaseStep    = 10 * time.Millisecond
	maxReleaseTime = 2 * time.Second
)

func newLink() *Link {
	return &Link{failures: map[string]int{}, gates: map[string]*gate{}, listeners: map[int]Listener{}}
}

// gate is a closed gate.
type gate struct {
	since   time.Time
	reason  string
	tries   int // since
	probing bool
	queue   []chan bool // waiting requests; true makes one the prober, false releases it
	last    int         // number of requests released when it opened
}

// Listen adds a listener, and reports a current outage to it.
func (l *Link) Listen(to Listener) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.next
	l.next++
	l.listeners[n] = to
	if g := l.oldest(); g != nil && to.Away != nil {
		to.Away(g.since, g.reason)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listeners, n)
	}
}

// oldest returns the gate that was closed first, or nil.
func (l *Link) oldest() *gate {
	var oldest *gate
	for _, g := range l.gates {
		if oldest == nil || g.since.Before(oldest.since) {
			oldest = g
		}
	}
	return oldest
}

// reach is what is known of an API server.
type reach struct {
	away  bool // it does not respond now
	found bool // a connection was accepted at its address, ever
	known bool // it responded, ever
}

func (l *Link) reach() reach {
	l.mu.Lock()
	defer l.mu.Unlock()
	return reach{away: len(l.gates) > 0, found: l.found || l.known, known: l.known}
}

// tell calls the listeners for the requests with some Writes, with a function that they may not have.
func (l *Link) tell(of *Writes, do func(Listener)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, to := range l.listeners {
		if to.Of == nil || to.Of == of {
			do(to)
		}
	}
}

func (l *Link) trying(of *Writes, t Target, since time.Time, answer string) {
	l.tell(of, func(to Listener) {
		if to.Trying != nil {
			to.Trying(t, since, answer)
		}
	})
}

func (l *Link) warned(of *Writes, t Target, warning string) {
	l.tell(of, func(to Listener) {
		if to.Warned != nil {
			to.Warned(t, warning)
		}
	})
}

// pass lets one request be sent once. The caller must end it.
type pass struct {
	link   *Link
	group  string
	probes []*gate // whose prober it is
}

// enter waits until a request of a group may be sent; first is true for the first try. The error is ctx's.
func (l *Link) enter(ctx context.Context, group string, first bool) (*pass, error) {
	p := &pass{link: l, group: group}
	keys := []string{group, wire} // the wire last: its prober waits for nothing else
	if group == wire {
		keys = keys[1:]
	}
	for _, key := range keys {
		g, err := l.wait(ctx, key, first)
		if err != nil {
			p.end(nothing, time.Time{}, "")
			return nil, err
		}
		if g != nil {
			p.probes = append(p.probes, g)
		}
	}
	return p, nil
}

// wait waits at one gate. It returns the gate if the request is now its prober.
func (l *Link) wait(ctx context.Context, key string, first bool) (*gate, error) {
	g, turn := l.joinQueue(key)
	if g == nil {
		return nil, nil
	}
	probes, err := false, error(nil)
	select {
	case probes = <-turn:
		pause := l.pause(g, probes)
		if first { // a request with little time is tried once anyway
			pause = inTime(ctx, pause)
		}
		err = sleep(ctx, pause)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil && probes {
		return g, nil
	}
	if err != nil {
		l.leaveQueue(g, turn, probes)
	}
	return nil, err
}

// joinQueue joins the queue of a closed gate.
func (l *Link) joinQueue(key string) (*gate, chan bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[key]
	if g == nil {
		return nil, nil
	}
	turn := make(chan bool, 1)
	if g.probing {
		g.queue = append(g.queue, turn)
	} else {
		g.probing = true
		turn <- true
	}
	return g, turn
}

// pause returns how long to wait after the turn has come.
func (l *Link) pause(g *gate, probes bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if probes {
		return backoff(g.tries, probePause)
	}
	return rand.N(min(maxReleaseTime, time.Duration(g.last)*releaseStep) + 1)
}

// inTime shortens a pause to half of the time that ctx leaves.
func inTime(ctx context.Context, pause time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(pause, time.Until(end)/2)
	}
	return pause
}

// leaveQueue leaves a gate without a try.
func (l *Link) leaveQueue(g *gate, turn chan bool, probes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.queue = slices.DeleteFunc(g.queue, func(c chan bool) bool { return c == turn })
	select {
	case probes = <-turn: // its turn came at the same time
	default:
	}
	if probes {
		g.promote()
	}
}

// promote makes the next in the queue the prober.
func (g *gate) promote() {
	g.probing = len(g.queue) > 0
	if g.probing {
		g.queue[0] <- true
		g.queue = g.queue[1:]
	}
}

// outcome is what a try says about the API server.
type outcome int

const (
	nothing   outcome = iota // the try ended for other reasons
	responded                // the API server responded
	busy                     // it, or a proxy before it, does not serve the group now
	lost                     // the connection broke, or no response came
	refused                  // the connection was refused
)

// end records the outcome of the request, which was sent at since. It reports whether one of its gates is closed now.
func (p *pass) end(o outcome, since time.Time, reason string) (closed bool) {
	l := p.link
	l.mu.Lock()
	defer l.mu.Unlock()
	away := len(l.gates) > 0
	l.found = l.found || o == responded || o == busy || o == lost
	switch o {
	case responded:
		l.known = true
		l.open(wire)
		l.open(p.group)
	case busy:
		if p.group != wire {
			l.open(wire)
			reason += ", asked for " + strings.TrimPrefix(p.group, "/")
		}
		l.fail(p.group, 1, since, reason)
	case lost:
		l.fail(wire, 1, since, reason)
	case refused:
		l.fail(wire, lostAfter, since, reason)
	}
	for _, g := range p.probes {
		g.tries++
		g.promote()
	}
	switch g := l.oldest(); {
	case g != nil && !away:
		for _, to := range l.listeners {
			if to.Away != nil {
				to.Away(g.since, g.reason)
			}
		}
	case g == nil && away:
		for _, to := range l.listeners {
			if to.Back != nil {
				to.Back()
			}
		}
	}
	return l.gates[p.group] != nil || l.gates[wire] != nil
}

func (l *Link) open(key string) {
	delete(l.failures, key)
	g := l.gates[key]
	if g == nil {
		return
	}
	delete(l.gates, key)
	g.last = len(g.queue)
	for _, turn := range g.queue {
		turn <- false
	}
	g.queue = nil
}

// fail counts a failure, and closes the gate after some.
func (l *Link) fail(key string, weight int, since time.Time, reason string) {
	l.failures[key] += weight
	if l.failures[key] >= lostAfter && l.gates[key] == nil {
		l.gates[key] = &gate{since: since, reason: reason}
	}
}

// backoff is how long to wait before the n-th repetition: twice as long each
// time, and at random, so that requests do not go in step.
func backoff(n int, longest time.Duration) time.Duration {
	d := min(longest, firstPause<<min(n, 10))
	return d/2 + rand.N(d/2+1)
}

// sleep waits. The error is ctx's.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
