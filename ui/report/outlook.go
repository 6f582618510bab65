package report

import (
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
)

// slow is the sign of a group that takes longer than it usually does. It is no
// status: it follows from the events.
const slow = "slow"

// outlook is what a heartbeat adds of how long the run is still going to take,
// where that is known of earlier ones.
func (t *Text) outlook(now time.Time) string {
	if f, ok := forecast.Of(&t.state, now); ok {
		return "; " + f.String()
	}
	return ""
}

// slowGroups tells, of each group once, that it takes longer than it usually does.
// It is asked with the heartbeat and where a group's state changes, and looks through
// the groups when there may be another one.
func (t *Text) slowGroups(e event.Event) {
	if e.Kind == event.KindPlan {
		t.slowAgain = time.Time{}
	}
	if e.Kind != event.KindWaiting && e.Kind != event.KindGroup || !e.Time.After(t.slowAgain) || !forecast.Known(&t.state) {
		return
	}
	late, again := forecast.Late(&t.state, e.Time)
	t.slowAgain = again
	for _, s := range late {
		if u := s.Group.Unit(); !t.slow[u] {
			t.slow[u] = true
			t.line(e, slow, unitName(&t.state, s.Group)+" "+s.String())
		}
	}
}
