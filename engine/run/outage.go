package run

import (
	"fmt"
	"time"

	"lockstep/engine/event"
)

// outage is that the API server does not answer, in its zero value that it does.
type outage struct {
	since    time.Time
	reason   string
	reported bool
	reportAt time.Time // when that is told, or told again; zero for never
}

const (
	// tellAfter is how long the API server may be away without a word.
	tellAfter = 2 * time.Second
	// catchUp is how long it may take after an outage until what has happened
	// meanwhile is seen.
	catchUp = 2 * time.Second
)

// keepTime lets the clocks count or stand still: both while the run is paused or
// held (R25), that of readiness also while the API server is away (R53).
func (m *machine) keepTime() {
	idle := m.steering.reported == event.Paused || m.steering.reported == event.Held
	if idle {
		m.clock.stop(m.now)
	} else {
		m.clock.resume(m.now)
	}
	if idle || !m.outage.since.IsZero() {
		m.readiness.stop(m.now)
	} else {
		m.readiness.resume(m.now)
	}
}

// lose takes in that the API server has not answered since a time.
func (m *machine) lose(since time.Time, reason string) {
	if !m.outage.since.IsZero() {
		return
	}
	if since.After(m.now) || since.Before(m.readiness.start) {
		since = m.now
	}
	m.outage = outage{since: since, reason: reason, reportAt: since.Add(tellAfter)}
	m.readiness.stop(since)
}

// find takes in that the API server answers again.
func (m *machine) find() {
	o := m.outage
	if o.since.IsZero() {
		return
	}
	m.outage = outage{}
	m.keepTime()
	m.readiness.idle += min(catchUp, m.now.Sub(o.since))
	if o.reported {
		m.publish(event.Event{Kind: event.KindServer, Status: event.Back,
			Message: fmt.Sprintf("the API server is reachable again after %s", m.now.Sub(o.since).Round(time.Second))})
	}
}

// reportOutage publishes an outage when it is due.
func (m *machine) reportOutage() {
	o := &m.outage
	if o.reportAt.IsZero() || m.now.Before(o.reportAt) {
		return
	}
	o.reported, o.reportAt = true, time.Time{}
	if m.opts.Heartbeat > 0 {
		o.reportAt = m.now.Add(m.opts.Heartbeat)
	}
	m.publish(event.Event{Kind: event.KindServer, Status: event.Away, Since: o.since, Message: o.text(m.now) + "; waiting"})
}

func (o *outage) text(now time.Time) string {
	return fmt.Sprintf("the API server has been unreachable for %s (%s)", now.Sub(o.since).Round(time.Second), oneLine(o.reason))
}

// state is what an outage adds to the state of an object.
func (o *outage) state(now time.Time) string {
	if o.since.IsZero() {
		return ""
	}
	return "; " + o.text(now)
}
