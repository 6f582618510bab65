package screen

import (
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
)

// outlook is the forecast of the run. It is updated once a second: for a large plan, computing it for
// every frame would be too slow.
type outlook struct {
	at   time.Time
	seq  uint64
	Text string
	slow map[event.Unit]forecast.Timing
}

// Slow reports whether a group takes longer than last time.
func (o outlook) Slow(u event.Unit) bool {
	_, slow := o.slow[u]
	return slow
}

// Outlook returns the current forecast; it is empty if there is none.
func (s *Screen) Outlook() outlook {
	now := s.Now()
	if !forecast.HasHistory(&s.State) {
		return outlook{}
	}
	if age := now.Sub(s.outlook.at); age < 0 || age >= time.Second || s.outlook.seq > s.State.Seq || s.outlook.at.IsZero() {
		s.outlook = s.estimate(now)
	}
	if s.State.Run != event.Running || s.State.Status != event.Running {
		return outlook{}
	}
	return s.outlook
}

func (s *Screen) estimate(now time.Time) outlook {
	out := outlook{at: now, seq: s.State.Seq, slow: map[event.Unit]forecast.Timing{}}
	f, ok := forecast.Estimate(&s.State, now)
	if !ok {
		return out
	}
	out.Text = f.String()
	for n, g := range f.Slow {
		out.slow[g.Group.Unit()] = g
		if n > 0 {
			continue
		}
		name := g.Group.ID
		if node := s.Graph.ByKey[g.Group.Unit()]; node != nil {
			name = node.Name
		}
		out.Text = s.Join(name+" "+g.String(), out.Text)
	}
	return out
}
