package connect

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Link is what all connections to one API server know together: whether it
// answers. While it does not, one request at a time tries, the others wait for
// it; afterwards they are let go little by little. So an outage costs few
// requests, and its end no burst.
//
// There is one gate for the wire and one for each group of the API ("apps/v1"). A
// group that somebody else may serve has none: that it is away says nothing of the
// API server, and its requests are errors of their own.
type Link struct {
	cache cache

	mu        sync.Mutex
	met       bool           // somebody has taken a connection, ever
	answered  bool           // anything, ever
	failures  map[string]int // in succession, by gate
	gates     map[string]*gate
	listeners map[int]Listener
	next      int
}

// Listener is told when the API server is lost and when it is back. It must
// neither block nor call the Link.
type Listener struct {
	Away func(since time.Time, reason string)
	Back func()
	// Of limits what Trying and Warned are told of to the requests of those whose
	// writes it notes; nil for all.
	Of *Writes
	// Trying is told of a request that is answered with an error and will be
	// repeated, and for how long it has been.
	Trying func(t Target, since time.Time, answer string)
	// Warned is told what the API server warns of in its answer to a request that
	// writes: a version that will be gone, what PodSecurity would refuse.
	Warned func(t Target, warning string)
}

const (
	wire = "" // the gate of all requests

	// lostAfter is how many requests have to fail in succession until what may
	// have been an accident counts as an outage.
	lostAfter = 3

	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	// probePause is the longest time between two tries while all others wait.
	probePause = 2 * time.Second

	// letGo is how long it takes for each that has waited until it is let go,
	// longestLetGo for all.
	letGo        = 10 * time.Millisecond
	longestLetGo = 2 * time.Second
)

func newLink() *Link {
	return &Link{failures: map[string]int{}, gates: map[string]*gate{}, listeners: map[int]Listener{}}
}

// gate is closed: what it is for is away.
type gate struct {
	since   time.Time
	reason  string
	tries   int // since
	probing bool
	queue   []chan bool // who waits; true makes a prober, false lets go
	last    int         // how many were let go when it opened
}

// Listen tells a listener of what comes, and of an outage under way.
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

// oldest is the gate that has been closed for longest, nil if none is.
func (l *Link) oldest() *gate {
	var oldest *gate
	for _, g := range l.gates {
		if oldest == nil || g.since.Before(oldest.since) {
			oldest = g
		}
	}
	return oldest
}

// isAway reports whether the API server does not answer.
func (l *Link) isAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.gates) > 0
}

// found reports whether anybody has ever taken a connection at the address.
func (l *Link) found() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.met || l.answered
}

// known reports whether the API server has ever answered.
func (l *Link) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// trying tells of a request that will be repeated.
func (l *Link) trying(of *Writes, t Target, since time.Time, answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, to := range l.listeners {
		if to.Trying != nil && (to.Of == nil || to.Of == of) {
			to.Trying(t, since, answer)
		}
	}
}

// warned tells of what the API server warns of.
func (l *Link) warned(of *Writes, t Target, warning string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, to := range l.listeners {
		if to.Warned != nil && (to.Of == nil || to.Of == of) {
			to.Warned(t, warning)
		}
	}
}

// pass is the leave of one request to be sent once. Somebody has to end it.
type pass struct {
	link   *Link
	group  string
	probes []*gate // those that it is the prober of
}

// enter waits until a request of a group may be sent; first means that it has not
// been yet. The error is ctx's.
func (l *Link) enter(ctx context.Context, group string, first bool) (*pass, error) {
	p := &pass{link: l, group: group}
	keys := []string{group, wire} // the wire last: who probes it waits for nothing else
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

// wait waits at one gate, and returns it where the request is its prober now.
func (l *Link) wait(ctx context.Context, key string, first bool) (*gate, error) {
	g, turn := l.stand(key)
	if g == nil {
		return nil, nil
	}
	probes, err := false, error(nil)
	select {
	case probes = <-turn:
		pause := l.pause(g, probes)
		if first { // who has less time tries once all the same: nobody else may ask any more
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
		l.leave(g, turn, probes)
	}
	return nil, err
}

// stand joins the queue of a gate, where that is closed.
func (l *Link) stand(key string) (*gate, chan bool) {
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

// pause is how long to wait still after the turn has come.
func (l *Link) pause(g *gate, probes bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if probes {
		return backoff(g.tries, probePause)
	}
	return rand.N(min(longestLetGo, time.Duration(g.last)*letGo) + 1)
}

// inTime shortens a pause to half of the time that ctx leaves.
func inTime(ctx context.Context, pause time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(pause, time.Until(end)/2)
	}
	return pause
}

// leave leaves a gate without having tried.
func (l *Link) leave(g *gate, turn chan bool, probes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.queue = slices.DeleteFunc(g.queue, func(c chan bool) bool { return c == turn })
	select {
	case probes = <-turn: // its turn came at the same time
	default:
	}
	if probes {
		g.pass()
	}
}

// pass makes the next in the queue the prober.
func (g *gate) pass() {
	g.probing = len(g.queue) > 0
	if g.probing {
		g.queue[0] <- true
		g.queue = g.queue[1:]
	}
}

// outcome is what a try tells about whether there is an API server.
type outcome int

const (
	nothing outcome = iota // it was given up for other reasons
	there                  // it has answered
	busy                   // it, or something before it, has answered that the group is not served now
	lost                   // the connection broke, or nothing came
	refused                // there was nobody to connect to
)

// end takes in what became of the request, which was sent at since. It reports
// whether a gate is closed to it now.
func (p *pass) end(o outcome, since time.Time, reason string) (closed bool) {
	l := p.link
	l.mu.Lock()
	defer l.mu.Unlock()
	away := len(l.gates) > 0
	l.met = l.met || o == there || o == busy || o == lost
	switch o {
	case there:
		l.answered = true
		l.open(wire)
		l.open(p.group)
	case busy:
		if p.group != wire {
			l.open(wire)
		}
		if p.group != wire {
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
		g.pass()
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

// open opens a gate, if it is closed.
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
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
