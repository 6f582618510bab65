package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
)

// Forecast predicts the rest of a run, assuming that each group takes as long as last time (event.Phase.Usual).
type Forecast struct {
	// Left is the estimated time until the run ends. A group without a history counts as zero.
	Left time.Duration
	// Slow lists the running groups that take much longer than last time, longest delay first.
	Slow []Timing
}

// Timing compares a group's duration in this run (so far, if it is still running) with its duration last time, that is,
// in the last deployed revision that changed it.
type Timing struct {
	Group      *event.GroupState
	Took, Last time.Duration
}

// A group is slow if it takes longer than last time by more than slowBy and by more than 1/slowShare of that time. The
// limits are low so that the warning usually comes before a timeout (R25).
const (
	slowBy    = 5 * time.Second
	slowShare = 4
)

// Estimate returns the forecast of a run as of now. ok is false if no remaining group has a history, if those with a
// history have no time left and a group without one is running, if an object of a running group has failed or is degraded,
// or if the run is in any state but Running (for example paused or rolling back).
func Estimate(s *event.State, now time.Time) (f Forecast, ok bool) {
	unknown := false // whether a group without a history is running, such as a new hook
	for _, p := range phases(s) {
		for _, g := range p.Groups {
			_, known := p.Usual[g.ID]
			ok = ok || known && !g.Status.Over()
			unknown = unknown || !known && !g.Status.Over() && !g.Started.IsZero()
		}
		if slices.ContainsFunc(p.Groups, degraded) {
			return Forecast{}, false
		}
	}
	if !ok {
		return Forecast{}, false
	}
	f.Slow, _ = SlowGroups(s, now)
	last := lastDuration(s)
	f.Left = TotalDuration(s, func(g *event.GroupState) time.Duration {
		switch {
		case g.Status.Over():
			return 0
		case g.Started.IsZero():
			return last(g)
		}
		return max(last(g)-now.Sub(g.Started), 0)
	})
	if unknown && f.Left.Round(time.Second) == 0 {
		return Forecast{}, false
	}
	return f, true
}

// degraded reports whether an object of a running group has failed or is degraded.
func degraded(g *event.GroupState) bool {
	return !g.Status.Over() && slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return o.Status == event.Failed || o.Degraded })
}

// phases returns the phases of the forecast, or nil if the run is not running.
func phases(s *event.State) []*event.PhaseState {
	if s.Status != event.Running || s.Run != event.Running {
		return nil
	}
	return forwardPhases(s)
}

// SlowGroups returns the groups that are slow at now (see Forecast.Slow). No other group becomes slow before next, unless new
// phases are announced. next is zero if the run is not running.
func SlowGroups(s *event.State, now time.Time) (slow []Timing, next time.Time) {
	forward := phases(s)
	if forward == nil {
		return nil, time.Time{}
	}
	next = now.Add(slowBy) // a group that starts after now cannot be slow before then
	for _, p := range forward {
		for _, g := range p.Groups {
			last, known := p.Usual[g.ID]
			if !known || g.Status.Over() || g.Started.IsZero() {
				continue
			}
			limit := last + max(slowBy, last/slowShare)
			if took := now.Sub(g.Started); took > limit {
				slow = append(slow, Timing{g, took, last})
			} else if due := g.Started.Add(limit); due.Before(next) {
				next = due
			}
		}
	}
	slices.SortStableFunc(slow, func(a, b Timing) int { return cmp.Compare(b.Took-b.Last, a.Took-a.Last) })
	return slow, next
}

// HasHistory reports whether any group has a history.
func HasHistory(s *event.State) bool {
	return slices.ContainsFunc(s.Phases, func(p *event.PhaseState) bool { return len(p.Usual) > 0 })
}

func lastDuration(s *event.State) DurationFunc {
	phases := map[string]*event.PhaseState{}
	for _, p := range s.Phases {
		phases[p.Name] = p
	}
	return func(g *event.GroupState) time.Duration { return phases[g.Phase].Usual[g.ID] }
}

// String formats the forecast: "about 12s left". It is empty if the estimate has run out and some groups are slow: Slow
// then explains why the run has not ended.
func (f Forecast) String() string {
	switch left := f.Left.Round(time.Second); {
	case left > 0:
		return fmt.Sprintf("about %s left", left)
	case len(f.Slow) > 0:
		return ""
	}
	return "should finish any moment"
}

// String describes a slow group: "slower than last time: 25s so far, last time 8s".
func (t Timing) String() string {
	return fmt.Sprintf("slower than last time: %s so far, last time %s", wholeSeconds(t.Took), wholeSeconds(t.Last))
}

// Differs reports whether the two durations differ by more than noise.
func (t Timing) Differs() bool { return Differ(t.Took, t.Last) }

// Difference returns the difference of the two durations as they are shown: to a tenth of a second.
func (t Timing) Difference() time.Duration {
	return t.Took.Round(shown) - t.Last.Round(shown)
}

// shown is the precision in which short durations are shown.
const shown = time.Second / 10

// Differ reports whether two durations of a group differ by more than noise: by more than a tenth of a second (short
// durations are shown to a tenth) and by more than a tenth of the shorter one.
func Differ(a, b time.Duration) bool {
	return (a.Round(shown)-b.Round(shown)).Abs() > shown && (a-b).Abs() > max(shown, min(a, b)/10)
}

// wholeSeconds rounds to seconds, at least one.
func wholeSeconds(d time.Duration) time.Duration { return max(d.Round(time.Second), time.Second) }
