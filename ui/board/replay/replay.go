// Package replay plays the record of a run, forwards and backwards. Its central types are Player,
// the record with a clock, and Replay, its keys and timeline. Replay is not a mode: the board's
// keys keep working.
package replay

import (
	"context"
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Part is the heading of the keys of a replay.
const Part = "in a replay"

// Replay plays a record on a screen.
type Replay struct {
	*screen.Screen
	*Player
	ctx     context.Context
	refresh func() tea.Cmd // updates everything derived from the events
	timer   int            // number of the current timer, to ignore older ones
	Line    canvas.Rect
}

// New returns a replay; it calls refresh after each change of position.
func New(ctx context.Context, s *screen.Screen, p *Player, refresh func() tea.Cmd) *Replay {
	return &Replay{Screen: s, Player: p, ctx: ctx, refresh: refresh}
}

// Begin shows the state at the current position and starts to play.
func (r *Replay) Begin() tea.Cmd { return tea.Batch(r.moveTo(0, r.At()), r.playNext()) }

// Keys returns the keys of a replay; they take precedence over the board's and the inspector's.
func (r *Replay) Keys() []keys.Binding {
	by := func(do func(int) tea.Cmd, n int) func() tea.Cmd { return func() tea.Cmd { return do(n) } }
	speed := func(by float64) func() tea.Cmd { return func() tea.Cmd { return r.setSpeed(by) } }
	return []keys.Binding{
		{Keys: "space", Hint: r.playHint, Do: r.playOrPause, About: "play or pause; at the end, play again"},
		{Keys: "right", Hint: keys.Always("next event"), Do: by(r.pauseBy, 1), About: "next event"},
		{Keys: ".", Hint: keys.Always("next group"), Do: by(r.pauseAtGroup, 1), About: "next group status change"},
		{Keys: "left", Hint: keys.Always("previous event"), Do: by(r.pauseBy, -1), About: "previous event"},
		{Keys: ",", Hint: keys.Always("previous group"), Do: by(r.pauseAtGroup, -1), About: "previous group status change"},
		{Keys: "!", Hint: keys.When("next failure", r.hasFailure), Do: by(r.pauseAtFailure, 1), About: "next failure"},
		{Keys: "@", Do: by(r.pauseAtFailure, -1), About: "previous failure"},
		{Keys: "+ =", Label: "+", Hint: keys.When("faster", func() bool { return r.speed < fastest }), Do: speed(2), About: "twice as fast, up to 64×"},
		{Keys: "-", Hint: keys.When("slower", func() bool { return r.speed > slowest }), Do: speed(0.5), About: "half as fast, down to 1×"},
		{Keys: "<", Do: by(r.PauseAt, 1), About: "to the beginning"},
		{Keys: ">", Do: by(r.PauseAt, len(r.events)), About: "to the end"},
	}
}

func (r *Replay) playHint() string {
	if r.playing {
		return "pause"
	}
	return "play"
}

func (r *Replay) hasFailure() bool { return slices.ContainsFunc(r.events, IsFailure) }

// Played is the number of the timer that expired: the next event is due.
type Played int

func (r *Replay) played(msg Played) tea.Cmd {
	if int(msg) != r.timer || !r.playing {
		return nil
	}
	from := r.At()
	to := max(r.due(), min(from+1, len(r.events))) // the clock may be slightly behind the timer
	r.at.Store(int64(to))                          // without changing the clock
	return tea.Batch(r.moveTo(from, to), r.playNext())
}

// playNext starts the timer for the next event while playing. Events in quick succession are
// drawn together, as in a live run.
func (r *Replay) playNext() tea.Cmd {
	if r.atEnd() {
		r.pause()
	}
	if !r.playing {
		return nil
	}
	r.timer++
	n, ctx, wait := r.timer, r.ctx, max(r.wait(), screen.BatchEvery)
	return func() tea.Msg {
		if !screen.Sleep(ctx, wait) {
			return nil
		}
		return Played(n)
	}
}

func (r *Replay) playOrPause() tea.Cmd {
	if r.playing {
		r.pause()
		return nil
	}
	from := r.At()
	r.play()
	return tea.Batch(r.moveTo(from, r.At()), r.playNext())
}

// setSpeed multiplies the speed, within its limits.
func (r *Replay) setSpeed(by float64) tea.Cmd {
	r.time, r.since = r.Now(), r.clock()
	r.speed = min(max(r.speed*by, slowest), fastest)
	return r.playNext()
}

// PauseAt pauses at a position and shows its state.
func (r *Replay) PauseAt(at int) tea.Cmd {
	from := r.At()
	r.Stop(at)
	return r.moveTo(from, r.At())
}

func (r *Replay) pauseBy(n int) tea.Cmd { return r.PauseAt(r.At() + n) }

// pauseAtGroup pauses at the next or previous status change of a group; without one, at the end or the
// beginning.
func (r *Replay) pauseAtGroup(by int) tea.Cmd {
	at := r.next(r.At(), by, IsGroup)
	if at == 0 && by > 0 {
		at = len(r.events)
	}
	return r.PauseAt(at)
}

// pauseAtFailure pauses at the next or previous failure, cyclically.
func (r *Replay) pauseAtFailure(by int) tea.Cmd {
	from := r.At()
	if r.next(from, by, IsFailure) == 0 {
		from = 0
		if by < 0 {
			from = len(r.events) + 1
		}
	}
	at := r.next(from, by, IsFailure)
	if at == 0 {
		return r.Say(theme.Quiet, "no failures in this run")
	}
	cmd := r.PauseAt(at)
	if n := r.Graph.ByKey[r.events[at-1].Unit()]; n != nil {
		r.Follow, r.Sel = false, screen.Spot{Unit: n.Unit()}
	}
	return cmd
}

// moveTo shows the state at a position. To go back, it applies all events from the start: the
// reducer cannot undo one.
func (r *Replay) moveTo(from, to int) tea.Cmd {
	events, follow := r.events, r.Follow
	var cmds []tea.Cmd
	if to < from {
		r.Rewind()
		r.Absorb(events[:to])
		r.Flash.Text, r.Follow = "", follow
	} else {
		cmds = r.Absorb(events[from:to])
	}
	r.Ended = to == len(events)
	return tea.Batch(append(cmds, r.refresh())...)
}

func (r *Replay) Update(msg tea.Msg) tea.Cmd {
	if due, ok := msg.(Played); ok {
		return r.played(due)
	}
	return nil
}
