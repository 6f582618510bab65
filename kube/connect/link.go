package connect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/parallel"
)

// Link is the state that all connections to an API server share: whether it responds, and the cache. During an outage
// one request at a time probes the API server and the others wait; afterwards they are released gradually. So an outage
// costs few requests and does not end in a burst. Expired credentials are an outage too, until new ones can be read.
//
// There is a gate for the server and one for each group version ("apps/v1"). A failing aggregated API closes no gate,
// because it says nothing about the API server.
type Link struct {
	cache cache
	agent string // the User-Agent of all requests, "lockstep/3f9c21d4": it tells runs apart in the audit log

	mu        sync.Mutex
	connected bool                                 // a connection has been accepted
	responded bool                                 // a response has arrived that accepts the credentials; then connected is true too
	answered  time.Time                            // when the last response arrived
	proven    map[string]time.Time                 // when the last good response arrived, by gate
	served    map[metav1.GroupVersionResource]bool // resources of which a response has arrived
	failures  map[string]int                       // consecutive, by gate
	gates     map[string]*gate
	listeners map[int]Listener
	nextID    int
}

// Listener is notified of outages, retries and warnings on a Link. Its functions may be nil. They must neither block nor
// call the Link.
type Listener struct {
	// Unreachable is called when the API server stops responding, Reachable when it responds again. since is when the first
	// request was sent that failed, proven when the last response arrived before: the API server, or the connection, may have
	// hung since then.
	Unreachable func(since, proven time.Time, reason string)
	Reachable   func()
	// Writes limits Retrying and Warning to the requests of the connection with these Writes; nil for all.
	Writes *Writes
	// Retrying is called before a retry after an error response, with its reason. since is the time of the first one.
	Retrying func(t Target, since time.Time, reason string)
	// Warning is called with each warning in the response to a write, such as a deprecated version or a violation of
	// PodSecurity.
	Warning func(t Target, warning string)
}

const (
	serverGate = "" // the gate of all requests

	// lostAfter is the number of consecutive failures that count as an outage.
	lostAfter = 3
	// silence is how long a request without a response has waited, and no other request got one, if that alone counts as
	// an outage: a connection can hang without being closed. It is shorter than a Lease waits for its renewal.
	silence = 3 * time.Second

	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
	// maxProbeBackoff limits the time between two probes.
	maxProbeBackoff = 2 * time.Second

	// Waiting requests are released at random within releaseStep per request, at most maxReleaseTime.
	releaseStep    = 10 * time.Millisecond
	maxReleaseTime = 2 * time.Second
)

func newLink() *Link {
	return &Link{agent: fmt.Sprintf("lockstep/%08x", rand.Uint32()), proven: map[string]time.Time{}, served: map[metav1.GroupVersionResource]bool{}, failures: map[string]int{}, gates: map[string]*gate{}, listeners: map[int]Listener{}}
}

// gate is a closed gate: requests wait for it, except for one that probes.
type gate struct {
	since   time.Time
	proven  time.Time // see Listener.Unreachable
	reason  string
	tries   int // since it was closed
	probing bool
	queue   []waiter
	waited  int // requests that were waiting when it opened
}

// waiter is a request in the queue of a gate.
type waiter struct {
	turn    chan bool // true makes it the prober, false releases it
	streams bool
}

// Listen adds a listener. During an outage it calls Unreachable at once.
func (l *Link) Listen(to Listener) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.nextID
	l.nextID++
	l.listeners[id] = to
	if g := l.oldest(); g != nil && to.Unreachable != nil {
		to.Unreachable(g.since, g.proven, g.reason)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listeners, id)
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

// KnowServer says that the address and the credentials are right, although the API server has not responded yet: from the first
// request on, an outage is waited out (R53).
func (l *Link) KnowServer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connected, l.responded = true, true
}

// linkState is the known state of an API server.
type linkState struct {
	unreachable bool // it does not respond now
	connected   bool // it has accepted a connection
	responded   bool // it has responded and accepted the credentials
}

func (l *Link) state() linkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return linkState{unreachable: len(l.gates) > 0, connected: l.connected, responded: l.responded}
}

// serves reports whether a response has shown that the API server serves a resource.
func (l *Link) serves(r metav1.GroupVersionResource) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served[r]
}

func (l *Link) setServed(r metav1.GroupVersionResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served[r] = true
}

func (l *Link) notifyRetry(w *Writes, t Target, since time.Time, reason string) {
	l.notify(w, func(to Listener) {
		if to.Retrying != nil {
			to.Retrying(t, since, reason)
		}
	})
}

func (l *Link) notifyWarning(w *Writes, t Target, warning string) {
	l.notify(w, func(to Listener) {
		if to.Warning != nil {
			to.Warning(t, warning)
		}
	})
}

// notify calls do for each listener that wants to know about the requests of a connection.
func (l *Link) notify(w *Writes, do func(Listener)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, to := range l.listeners {
		if to.Writes == nil || to.Writes == w {
			do(to)
		}
	}
}

// pass is the permission to send a request once. The caller must call end.
type pass struct {
	link   *Link
	group  string
	probes []*gate // the gates that this request probes
}

// enter waits until a request of a group version may be sent; first is true for the first try. The only error is ctx's.
func (l *Link) enter(ctx context.Context, group string, first, streams bool) (*pass, error) {
	p := &pass{link: l, group: group}
	keys := []string{group, serverGate} // serverGate last, so that its prober has nothing else to wait for
	if group == serverGate {
		keys = keys[1:]
	}
	for _, key := range keys {
		g, err := l.wait(ctx, key, first, streams)
		if err != nil {
			p.end(inconclusive, time.Time{}, "")
			return nil, err
		}
		if g != nil {
			p.probes = append(p.probes, g)
		}
	}
	return p, nil
}

// wait waits until a gate is open, or the request becomes its prober. In that case it returns the gate.
func (l *Link) wait(ctx context.Context, key string, first, streams bool) (*gate, error) {
	g, turn := l.joinQueue(key, streams)
	if g == nil {
		return nil, nil
	}
	probes, err := false, error(nil)
	select {
	case probes = <-turn:
		pause := l.pause(g, probes)
		if first { // even a request with a short deadline is sent once
			pause = beforeDeadline(ctx, pause)
		}
		err = parallel.Sleep(ctx, pause)
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

// joinQueue joins the queue of a closed gate. It returns nil if the gate is open.
func (l *Link) joinQueue(key string, streams bool) (*gate, chan bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[key]
	if g == nil {
		return nil, nil
	}
	turn := make(chan bool, 1)
	if g.probing {
		g.queue = append(g.queue, waiter{turn, streams})
	} else {
		g.probing = true
		turn <- true
	}
	return g, turn
}

// pause returns how long a request waits once it has become the prober or was released.
func (l *Link) pause(g *gate, probes bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if probes {
		return backoff(g.tries, maxProbeBackoff)
	}
	return rand.N(min(maxReleaseTime, time.Duration(g.waited)*releaseStep) + 1)
}

// beforeDeadline shortens a pause to at most half of the time until ctx's deadline.
func beforeDeadline(ctx context.Context, pause time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(pause, time.Until(end)/2)
	}
	return pause
}

// leaveQueue leaves the queue of a gate without a try.
func (l *Link) leaveQueue(g *gate, turn chan bool, probes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.queue = slices.DeleteFunc(g.queue, func(w waiter) bool { return w.turn == turn })
	select {
	case probes = <-turn: // its turn came at the same time
	default:
	}
	if probes {
		g.promote()
	}
}

// promote makes the next in the queue the prober: a stream only if there is no other request, because a proxy may hold its response.
func (g *gate) promote() {
	if g.probing = len(g.queue) > 0; !g.probing {
		return
	}
	next := max(0, slices.IndexFunc(g.queue, func(w waiter) bool { return !w.streams }))
	g.queue[next].turn <- true
	g.queue = slices.Delete(g.queue, next, next+1)
}

// outcome says what a try shows about the API server.
type outcome int

const (
	inconclusive outcome = iota // the try ended for other reasons
	responded                   // the API server responded
	busy                        // it, or a proxy in front of it, cannot serve the group version now
	lost                        // the connection broke
	hung                        // no response came, or only a part of it
	refused                     // the connection was refused
	denied                      // the API server did not accept the credentials, which can be read again
)

// end records the outcome of a request that was sent at the given time. It reports whether one of the request's gates is
// now closed.
func (p *pass) end(o outcome, sent time.Time, reason string) (closed bool) {
	l := p.link
	l.mu.Lock()
	defer l.mu.Unlock()
	wasUnreachable := len(l.gates) > 0
	l.connected = l.connected || o == responded || o == busy || o == lost || o == hung || o == denied
	if o == responded || o == busy || o == denied {
		l.answered = time.Now()
	}
	switch o {
	case responded:
		l.responded = true
		l.open(serverGate)
		l.open(p.group)
	case busy:
		if p.group != serverGate {
			l.open(serverGate)
			reason += " for " + strings.TrimPrefix(p.group, "/")
		}
		l.fail(p.group, 1, sent, reason)
	case lost, hung:
		switch alone := !l.answered.After(sent); {
		case alone && time.Since(sent) >= silence:
			l.fail(serverGate, lostAfter, sent, reason)
		case o == lost: // a hung request is only slow if others got a response, such as a watch that a proxy buffers
			l.fail(serverGate, 1, sent, reason)
		}
	case refused, denied:
		l.fail(serverGate, lostAfter, sent, reason)
	}
	for _, g := range p.probes {
		g.tries++
		g.promote()
	}
	switch g := l.oldest(); {
	case g != nil && !wasUnreachable:
		for _, to := range l.listeners {
			if to.Unreachable != nil {
				to.Unreachable(g.since, g.proven, g.reason)
			}
		}
	case g == nil && wasUnreachable:
		for _, to := range l.listeners {
			if to.Reachable != nil {
				to.Reachable()
			}
		}
	}
	return l.gates[p.group] != nil || l.gates[serverGate] != nil
}

// open opens a gate and releases its queue.
func (l *Link) open(key string) {
	l.proven[key] = time.Now()
	delete(l.failures, key)
	g := l.gates[key]
	if g == nil {
		return
	}
	delete(l.gates, key)
	g.waited = len(g.queue)
	for _, w := range g.queue {
		w.turn <- false
	}
	g.queue = nil
}

// fail adds weight to the failures of a gate, and closes it once they reach lostAfter.
func (l *Link) fail(key string, weight int, since time.Time, reason string) {
	l.failures[key] += weight
	if l.failures[key] >= lostAfter && l.gates[key] == nil {
		l.gates[key] = &gate{since: since, proven: l.proven[key], reason: reason}
	}
}

// backoff returns how long to wait before retry n (from 0): twice as long each time, with jitter.
func backoff(n int, limit time.Duration) time.Duration {
	d := min(limit, minBackoff<<min(n, 10))
	return d/2 + rand.N(d/2+1)
}
