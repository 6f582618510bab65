package run

import (
	"fmt"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
)

// clock measures active time: the time in which the run was neither paused nor held and, for the
// readiness clock, the API server was reachable (R25).
type clock struct {
	start   time.Time
	idle    time.Duration
	stopped time.Time // zero while it runs
	// lastStop and lastStart are the ends of the last time in which it was stopped.
	lastStop, lastStart time.Time
}

func (c *clock) active(now time.Time) time.Duration {
	if !c.stopped.IsZero() {
		now = c.stopped
	}
	return now.Sub(c.start) - c.idle
}

func (c *clock) stop(now time.Time) {
	if c.stopped.IsZero() {
		c.stopped = now
	}
}

func (c *clock) resume(now time.Time) {
	if !c.stopped.IsZero() {
		c.idle += now.Sub(c.stopped)
		c.lastStop, c.lastStart, c.stopped = c.stopped, now, time.Time{}
	}
}

// stopSince stops the clock. The time since an earlier one does not count.
func (c *clock) stopSince(earlier, now time.Time) {
	c.stop(now)
	from := latest(earlier, c.start)
	counted := c.stopped.Sub(from)
	if from.Before(c.lastStart) {
		counted -= min(c.lastStart.Sub(from), c.lastStart.Sub(c.lastStop))
	}
	c.idle += max(counted, 0)
}

// outage describes an unreachable API server. The zero value means that it is reachable.
type outage struct {
	since    time.Time
	reason   string
	reported bool
	reportAt time.Time // when to publish it next; zero for never
}

const (
	// outageGrace is how long an outage lasts before it is published.
	outageGrace = 2 * time.Second
	// catchUp is how long watches may need after an outage to report missed changes.
	catchUp = 2 * time.Second
)

// updateClocks stops or resumes the clocks: both stop while the run is paused or held, the
// readiness clock also while the API server is unreachable (R25).
func (m *machine) updateClocks() {
	idle := m.steering.reported == event.Paused || m.steering.reported == event.Held
	if idle {
		m.clock.stop(m.now)
	} else {
		m.clock.resume(m.now)
	}
	if idle || !m.outage.since.IsZero() {
		m.readinessClock.stop(m.now)
	} else {
		m.readinessClock.resume(m.now)
	}
}

func (m *machine) serverUnreachable(since, proven time.Time, reason string) {
	if !m.outage.since.IsZero() {
		return
	}
	if since.After(m.now) || since.Before(m.readinessClock.start) {
		since = m.now
	}
	m.outage = outage{since: since, reason: text.CollapseSpace(reason), reportAt: since.Add(outageGrace)}
	m.readinessClock.stopSince(earliest(proven, since), m.now)
}

func (m *machine) serverReachable() {
	o := m.outage
	if o.since.IsZero() {
		return
	}
	m.outage = outage{}
	m.keeping.again = time.Time{}
	m.updateClocks()
	m.readinessClock.idle += min(catchUp, m.now.Sub(o.since))
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
	o.reported = true
	o.reportAt = time.Time{}
	if m.opts.Heartbeat > 0 {
		o.reportAt = m.now.Add(m.opts.Heartbeat)
	}
	m.publish(event.Event{Kind: event.KindServer, Status: event.Away, Since: o.since, Message: phrase.Outage(m.now.Sub(o.since), o.reason) + "; waiting"})
}
