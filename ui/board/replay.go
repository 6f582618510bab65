package board

import (
	"context"
	"time"

	"lockstep/engine/event"
)

// Replay shows a recorded run again, read-only, with the times it was recorded
// with. Speed 2 is twice as fast; 0 shows the end at once. Source, Command and
// Now of the options are not used.
func Replay(ctx context.Context, events []event.Event, speed float64, o Options) error {
	p := newPlayer(events, speed)
	o.Source, o.Command, o.Now = p, nil, p.now
	return Run(ctx, o)
}

// player is a Source that hands out recorded events as time goes by.
type player struct {
	events []event.Event
	speed  float64
	start  time.Time // of the replay
	next   int
}

func newPlayer(events []event.Event, speed float64) *player {
	return &player{events: events, speed: speed, start: time.Now()}
}

// now is the present time of the recording.
func (p *player) now() time.Time {
	if len(p.events) == 0 {
		return p.start
	}
	first, last := p.events[0].Time, p.events[len(p.events)-1].Time
	if p.speed <= 0 {
		return last
	}
	t := first.Add(time.Duration(float64(time.Since(p.start)) * p.speed))
	if t.After(last) {
		return last
	}
	return t
}

// Next returns the events that have happened by now.
func (p *player) Next(ctx context.Context) ([]event.Event, bool) {
	if p.next >= len(p.events) {
		return nil, false
	}
	if p.speed > 0 {
		wait := p.events[p.next].Time.Sub(p.now())
		if !sleep(ctx, time.Duration(float64(wait)/p.speed)) {
			return nil, false
		}
	}
	from, now := p.next, p.now()
	for p.next < len(p.events) && !p.events[p.next].Time.After(now) {
		p.next++
	}
	if p.next == from {
		p.next++ // the clock is a little behind the timer
	}
	return p.events[from:p.next:p.next], true
}
