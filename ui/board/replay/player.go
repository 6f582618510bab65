package replay

import (
	"sync/atomic"
	"time"

	"lockstep/engine/event"
)

// The limits of the speed that keys can set; 1 is real time.
const (
	slowest = 1
	fastest = 64
)

// Player is the position in the record of a run, counted in events, with a clock. It stops at the
// end.
type Player struct {
	events  []event.Event
	at      atomic.Int64 // number of events played
	speed   float64
	playing bool
	// time is the record's time at the real time since. While paused, it is the current one.
	time, since time.Time
	clock       func() time.Time
}

// NewPlayer plays the events of a run, at least one. Speed 2 is twice as fast as the run; 0
// starts paused at the end.
func NewPlayer(events []event.Event, speed float64) *Player {
	p := &Player{events: events, speed: speed, clock: time.Now}
	if speed <= 0 {
		p.speed = slowest
		p.seek(len(events))
		return p
	}
	p.seek(1)
	p.play()
	return p
}

func (p *Player) Events() []event.Event { return p.events }
func (p *Player) Playing() bool         { return p.playing }

// At returns the number of events played. It is safe for concurrent use.
func (p *Player) At() int { return int(p.at.Load()) }

// Stop pauses at a position.
func (p *Player) Stop(at int) {
	p.playing = false
	p.seek(at)
}

// Elapsed returns how long the run had taken at the current position.
func (p *Player) Elapsed() time.Duration { return p.events[p.At()-1].Time.Sub(p.Start()) }

func (p *Player) Start() time.Time { return p.events[0].Time }
func (p *Player) end() time.Time   { return p.events[len(p.events)-1].Time }
func (p *Player) atEnd() bool      { return p.At() == len(p.events) }

func (p *Player) Now() time.Time {
	if !p.playing {
		return p.time
	}
	t := p.time.Add(time.Duration(float64(p.clock().Sub(p.since)) * p.speed))
	if end := p.end(); t.After(end) {
		return end
	}
	return t
}

// seek goes to the position after that many events, at least one.
func (p *Player) seek(at int) {
	at = min(max(at, 1), len(p.events))
	p.at.Store(int64(at))
	p.time, p.since = p.events[at-1].Time, p.clock()
}

// play starts the clock; at the end, it starts from the beginning.
func (p *Player) play() {
	if p.atEnd() {
		p.seek(1)
	}
	p.since, p.playing = p.clock(), len(p.events) > 1
}

func (p *Player) pause() { p.time, p.playing = p.Now(), false }

// due returns the number of events up to the current time.
func (p *Player) due() int { return p.until(p.Now(), p.At()) }

// until returns the number of events up to a time, at least n.
func (p *Player) until(t time.Time, n int) int {
	for n < len(p.events) && !p.events[n].Time.After(t) {
		n++
	}
	return n
}

// wait returns the real time until the next event.
func (p *Player) wait() time.Duration {
	if p.atEnd() {
		return 0
	}
	return time.Duration(float64(p.events[p.At()].Time.Sub(p.Now())) / p.speed)
}

// next returns the position of the next interesting event after from, or of the previous one if
// by is -1; 0 if there is none.
func (p *Player) next(from, by int, interesting func(event.Event) bool) int {
	for n := from + by; n >= 1 && n <= len(p.events); n += by {
		if interesting(p.events[n-1]) {
			return n
		}
	}
	return 0
}

// positionAt returns the position at a fraction of the record's time, from 0 to 1.
func (p *Player) positionAt(fraction float64) int {
	return p.until(p.Start().Add(time.Duration(fraction*float64(p.end().Sub(p.Start())))), 1)
}

// Fraction returns how far t is into the record's time, from 0 to 1.
func (p *Player) Fraction(t time.Time) float64 {
	total := p.end().Sub(p.Start())
	if total <= 0 {
		return 1
	}
	return min(max(float64(t.Sub(p.Start()))/float64(total), 0), 1)
}

func IsGroup(e event.Event) bool { return e.Kind == event.KindGroup }

func IsFailure(e event.Event) bool {
	return e.Status == event.Failed && (e.Kind == event.KindGroup || e.Kind == event.KindOperation)
}
