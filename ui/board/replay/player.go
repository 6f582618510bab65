package replay

import (
	"sync/atomic"
	"time"

	"lockstep/engine/event"
)

// How fast a replay can be made with keys, as a multiple of how fast it was.
const (
	Slowest = 1
	Fastest = 64
)

// Player is the record of a run that is played again: how many of its events have
// happened by now, and how time goes by in it. Where nobody has turned it back, it
// goes from its beginning to its end, and stays there.
type Player struct {
	events []event.Event
	at     atomic.Int64 // how many of them have happened
	speed  float64
	moving bool
	// time is what time it was in the record when time.Now was since; while it
	// does not move, it is that time.
	time, since time.Time
	clock       func() time.Time
}

// NewPlayer plays the events of a run, of which there is at least one. Speed 2 is
// twice as fast as it was; 0 begins at its end.
func NewPlayer(events []event.Event, speed float64) *Player {
	p := &Player{events: events, speed: speed, clock: time.Now}
	if speed <= 0 {
		p.speed = Slowest
		p.seek(len(events))
		return p
	}
	p.seek(1)
	p.move()
	return p
}

// Events are those of the record, Speed how many times as fast it is played, Moving
// whether time goes by.
func (p *Player) Events() []event.Event { return p.events }
func (p *Player) Speed() float64        { return p.speed }
func (p *Player) Moving() bool          { return p.moving }

// At is how many events have happened. It may be asked at any time by anybody.
func (p *Player) At() int { return int(p.at.Load()) }

// Stop keeps the player where so many events have happened.
func (p *Player) Stop(at int) {
	p.moving = false
	p.seek(at)
}

// Passed is how long the run had been going on by then.
func (p *Player) Passed() time.Duration { return p.events[p.At()-1].Time.Sub(p.Start()) }

func (p *Player) Start() time.Time { return p.events[0].Time }
func (p *Player) end() time.Time   { return p.events[len(p.events)-1].Time }
func (p *Player) atEnd() bool      { return p.At() == len(p.events) }

// Now is the present time of the record.
func (p *Player) Now() time.Time {
	if !p.moving {
		return p.time
	}
	t := p.time.Add(time.Duration(float64(p.clock().Sub(p.since)) * p.speed))
	if end := p.end(); t.After(end) {
		return end
	}
	return t
}

// seek goes to where so many events have happened, one at the least.
func (p *Player) seek(at int) {
	at = min(max(at, 1), len(p.events))
	p.at.Store(int64(at))
	p.time, p.since = p.events[at-1].Time, p.clock()
}

// move lets time go by, from the beginning where it has come to the end.
func (p *Player) move() {
	if p.atEnd() {
		p.seek(1)
	}
	p.since, p.moving = p.clock(), len(p.events) > 1
}

// halt lets time stand still.
func (p *Player) halt() { p.time, p.moving = p.Now(), false }

// accelerate makes time go by so many times as fast, within what keys can do.
func (p *Player) accelerate(by float64) {
	p.time, p.since = p.Now(), p.clock()
	p.speed = min(max(p.speed*by, Slowest), Fastest)
}

// due is how many events have happened by now, time having gone by.
func (p *Player) due() int {
	now, n := p.Now(), p.At()
	for n < len(p.events) && !p.events[n].Time.After(now) {
		n++
	}
	return n
}

// wait is how long it is, for who looks at it, until the next event happens.
func (p *Player) wait() time.Duration {
	if p.atEnd() {
		return 0
	}
	return time.Duration(float64(p.events[p.At()].Time.Sub(p.Now())) / p.speed)
}

// passes takes events as they come due: time continues where it is.
func (p *Player) passes(n int) { p.at.Store(int64(n)) }

// next is how many events have happened by the next one that is of interest, behind
// so many or, where by is -1, before them; 0 if there is none.
func (p *Player) next(from, by int, interesting func(event.Event) bool) int {
	for n := from + by; n >= 1 && n <= len(p.events); n += by {
		if interesting(p.events[n-1]) {
			return n
		}
	}
	return 0
}

// byTime is how many events have happened when a part of the record's time is over.
func (p *Player) byTime(part float64) int {
	t := p.Start().Add(time.Duration(part * float64(p.end().Sub(p.Start()))))
	n := 1
	for n < len(p.events) && !p.events[n].Time.After(t) {
		n++
	}
	return n
}

// Part is how much of the record's time is over at a time, from 0 to 1.
func (p *Player) Part(t time.Time) float64 {
	total := p.end().Sub(p.Start())
	if total <= 0 {
		return 1
	}
	return min(max(float64(t.Sub(p.Start()))/float64(total), 0), 1)
}

// What there is to jump to.
func IsGroup(e event.Event) bool { return e.Kind == event.KindGroup }

func IsFailure(e event.Event) bool {
	return e.Status == event.Failed && (e.Kind == event.KindGroup || e.Kind == event.KindOperation)
}
