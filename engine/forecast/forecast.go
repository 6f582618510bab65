package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
)

// Forecast is the expected duration of a run if its groups take as long as usual (event.Phase.Usual).
type Forecast struct {
	// Usual is the total duration, Left the remaining part. A group without a history counts as zero.
	Usual, Left time.Duration
	// Slow are the running groups that take much longer than usual, the slowest first.
	Slow []Slow
}

// Slow is a group with its actual and its usual duration.
type Slow struct {
	Group       *event.GroupState
	Took, Usual time.Duration
}

// A group is slow if it takes slowBy longer than usual, or a quarter longer if that is more:
// an early warning before a timeout (R25).
const (
	slowBy    = 5 * time.Second
	slowShare = 4
)

// Estimate returns the forecast of a run at a time. ok is false without a history of the
// remaining groups, or if the run is paused, held, aborted, rolling back or over.
func Estimate(s *event.State, now time.Time) (f Forecast, ok bool) {
	for _, p := range phases(s) {
		ok = ok || slices.ContainsFunc(p.Groups, func(g *event.GroupState) bool {
			_, known := p.Usual[g.ID]
			return known && !g.Status.Over()
		})
	}
	if !ok {
		return Forecast{}, false
	}
	f.Slow, _ = SlowGroups(s, now)
	usual := usualLengths(s)
	f.Usual = Length(s, usual)
	f.Left = Length(s, func(g *event.GroupState) time.Duration {
		switch {
		case g.Status.Over():
			return 0
		case g.Started.IsZero():
			return usual(g)
		}
		return max(usual(g)-now.Sub(g.Started), 0)
	})
	return f, true
}

// phases returns the phases of the forecast, nil unless the run is running.
func phases(s *event.State) []*event.PhaseState {
	if s.Status != event.Running || s.Run != event.Running {
		return nil
	}
	return forward(s)
}

// SlowGroups returns the slow groups at a time, as in a Forecast. No other group becomes slow before
// next, unless new phases are announced; zero means unknown.
func SlowGroups(s *event.State, now time.Time) (slow []Slow, next time.Time) {
	running := phases(s)
	if running == nil {
		return nil, time.Time{}
	}
	next = now.Add(slowBy) // groups that start later cannot be slow earlier
	for _, p := range running {
		for _, g := range p.Groups {
			usual, known := p.Usual[g.ID]
			if !known || g.Status.Over() || g.Started.IsZero() {
				continue
			}
			limit := usual + max(slowBy, usual/slowShare)
			if took := now.Sub(g.Started); took > limit {
				slow = append(slow, Slow{g, took, usual})
			} else if due := g.Started.Add(limit); due.Before(next) {
				next = due
			}
		}
	}
	slices.SortStableFunc(slow, func(a, b Slow) int { return cmp.Compare(b.Took-b.Usual, a.Took-a.Usual) })
	return slow, next
}

// Known reports whether there is any history to forecast from.
func Known(s *event.State) bool {
	return slices.ContainsFunc(s.Phases, func(p *event.PhaseState) bool { return len(p.Usual) > 0 })
}

func usualLengths(s *event.State) Lengths {
	phases := map[string]*event.PhaseState{}
	for _, p := range s.Phases {
		phases[p.Name] = p
	}
	return func(g *event.GroupState) time.Duration { return phases[g.Phase].Usual[g.ID] }
}

// String formats the forecast: "usually 41s, 12s left".
func (f Forecast) String() string {
	if left := f.Left.Round(time.Second); left > 0 {
		return fmt.Sprintf("usually %s, %s left", wholeSeconds(f.Usual), left)
	}
	return fmt.Sprintf("usually %s, already longer", wholeSeconds(f.Usual))
}

// String compares the durations: "slower than usual: 25s, usually 8s".
func (s Slow) String() string {
	return fmt.Sprintf("slower than usual: %s, usually %s", wholeSeconds(s.Took), wholeSeconds(s.Usual))
}

// Differs reports whether a group took much longer or shorter than usual: by half a second
// and by a tenth.
func (s Slow) Differs() bool { return Differ(s.Took, s.Usual) }

// Differ reports whether two durations of a group differ by more than noise.
func Differ(a, b time.Duration) bool {
	return (a - b).Abs() >= max(minDelta, min(a, b)/minShare)
}

// The smallest difference that is not noise.
const (
	minDelta = time.Second / 2
	minShare = 10
)

// wholeSeconds rounds to seconds, at least one.
func wholeSeconds(d time.Duration) time.Duration { return max(d.Round(time.Second), time.Second) }
