package board

import (
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
)

// outlook is what is to be expected of the run, reckoned anew each second: for a
// large plan that is too much work for every frame.
type outlook struct {
	at   time.Time
	seq  uint64
	text string
	slow map[event.Unit]forecast.Slow
}

// expected is the outlook now; that of a run of which nothing is known says nothing.
func (m *model) expected() outlook {
	now := m.Now()
	if !forecast.Known(&m.State) {
		return outlook{}
	}
	if age := now.Sub(m.outlook.at); age < 0 || age >= time.Second || m.outlook.seq > m.State.Seq || m.outlook.at.IsZero() {
		m.outlook = m.lookOut(now)
	}
	if m.State.Run != event.Running || m.State.Status != event.Running {
		return outlook{}
	}
	return m.outlook
}

func (m *model) lookOut(now time.Time) outlook {
	out := outlook{at: now, seq: m.State.Seq, slow: map[event.Unit]forecast.Slow{}}
	f, ok := forecast.Of(&m.State, now)
	if !ok {
		return out
	}
	out.text = f.String()
	if _, left, long := strings.Cut(out.text, ", "); long && m.w < 90 {
		out.text = left
	}
	for n, s := range f.Slow {
		out.slow[s.Group.Unit()] = s
		if n > 0 {
			continue
		}
		name := s.Group.ID
		if node := m.Graph.ByKey[s.Group.Unit()]; node != nil {
			name = node.Name
		}
		out.text = join(m.Theme, name+" "+s.String(), out.text)
	}
	return out
}
