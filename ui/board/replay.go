package board

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/graph"
)

const partReplay = "in a replay"

// Replay shows a recorded run again, read-only, back and forth. Source, Command and
// Now of the options are not used.
func Replay(ctx context.Context, p *Player, o Options) error { return Run(ctx, o.replaying(p)) }

func (o Options) replaying(p *Player) Options {
	o.player, o.Source, o.Command, o.Now = p, nil, nil, p.now
	return o
}

// Show shows what events have come to, read-only. Source, Command and Now of the
// options are not used.
func Show(ctx context.Context, events []event.Event, o Options) error {
	last := time.Time{}
	if len(events) > 0 {
		last = events[len(events)-1].Time
	}
	o.Source, o.Command, o.Now = &told{events}, nil, func() time.Time { return last }
	return Run(ctx, o)
}

// told is a Source of what has happened.
type told struct{ events []event.Event }

func (s *told) Next(context.Context) ([]event.Event, bool) {
	events := s.events
	s.events = nil
	return events, len(events) > 0
}

// replayBindings are the keys that only a replay has, or that mean something else
// in one, with the inspector open, too.
func replayBindings() []binding {
	by := func(n int) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd { return m.turnTo(m.player.At() + n) }
	}
	group := func(by int) func(*model) tea.Cmd { return func(m *model) tea.Cmd { return m.turnToGroup(by) } }
	failure := func(by int) func(*model) tea.Cmd { return func(m *model) tea.Cmd { return m.turnToFailure(by) } }
	return []binding{
		{keys: []string{"space"}, label: "space", hint: playHint, do: (*model).playOrHalt, about: "play, or stand still; at the end: play again from the beginning"},
		{keys: []string{"left"}, label: "left", hint: always("back"), do: by(-1), about: "back by an event"},
		{keys: []string{"right"}, label: "right", hint: always("on"), do: by(1), about: "on by an event"},
		{keys: []string{","}, label: ",", hint: always("group back"), do: group(-1), about: "back to where something became of a group"},
		{keys: []string{"."}, label: ".", hint: always("group on"), do: group(1), about: "on to where something becomes of a group"},
		{keys: []string{"x"}, label: "x", hint: when("failure", (*model).fails), do: failure(1), about: "on to the next failure; after the last: to the first"},
		{keys: []string{"X"}, label: "X", do: failure(-1), about: "back to the failure before"},
		{keys: []string{"+", "="}, label: "+", hint: when("faster", func(m *model) bool { return m.player.speed < fastest }), do: func(m *model) tea.Cmd { return m.accelerate(2) }, about: "twice as fast, up to 64 times"},
		{keys: []string{"-"}, label: "-", hint: when("slower", func(m *model) bool { return m.player.speed > slowest }), do: func(m *model) tea.Cmd { return m.accelerate(0.5) }, about: "half as fast, down to as fast as it was"},
		{keys: []string{"<"}, label: "<", do: func(m *model) tea.Cmd { return m.turnTo(1) }, about: "to the beginning"},
		{keys: []string{">"}, label: ">", do: func(m *model) tea.Cmd { return m.turnTo(len(m.player.events)) }, about: "to the end"},
	}
}

func playHint(m *model) string {
	if m.player.moving {
		return "stand still"
	}
	return "play"
}

// fails reports whether there is a failure to jump to.
func (m *model) fails() bool {
	return slices.ContainsFunc(m.player.events, isFailure)
}

// playedMsg tells that the next event of a replay is due, unless something else has
// been done with it since.
type playedMsg int

// played takes the events that have come due.
func (m *model) played(msg playedMsg) tea.Cmd {
	if int(msg) != m.armed || !m.player.moving {
		return nil
	}
	from := m.player.At()
	to := max(m.player.due(), min(from+1, len(m.player.events))) // the clock is a little behind the timer
	m.player.passes(to)
	return tea.Batch(m.goFrom(from, to), m.playOn())
}

// playOn waits for the next event, if time goes by. Events that come soon after each
// other are drawn at once, as those of a run are.
func (m *model) playOn() tea.Cmd {
	if m.player.atEnd() {
		m.player.halt()
	}
	if !m.player.moving {
		return nil
	}
	m.armed++
	n, ctx, wait := m.armed, m.ctx, max(m.player.wait(), batchEvery)
	return func() tea.Msg {
		if !sleep(ctx, wait) {
			return nil
		}
		return playedMsg(n)
	}
}

func (m *model) playOrHalt() tea.Cmd {
	if m.player.moving {
		m.player.halt()
		return nil
	}
	from := m.player.At()
	m.player.move()
	return tea.Batch(m.goFrom(from, m.player.At()), m.playOn(), m.tick())
}

func (m *model) accelerate(by float64) tea.Cmd {
	m.player.accelerate(by)
	return m.playOn()
}

// turnTo stands still where so many events have happened.
func (m *model) turnTo(at int) tea.Cmd {
	from := m.player.At()
	m.player.Stop(at)
	return m.goFrom(from, m.player.At())
}

// turnToGroup stands still where something became of a group, or else at the end.
func (m *model) turnToGroup(by int) tea.Cmd {
	at := m.player.next(m.player.At(), by, isGroup)
	if at == 0 && by > 0 {
		at = len(m.player.events)
	}
	return m.turnTo(at)
}

// turnToFailure stands still at the next failure, in a circle.
func (m *model) turnToFailure(by int) tea.Cmd {
	if !m.fails() {
		return m.say(theme.Quiet, "nothing fails in this run")
	}
	at := m.player.next(m.player.At(), by, isFailure)
	switch {
	case at > 0:
	case by > 0:
		at = m.player.next(0, by, isFailure)
	default:
		at = m.player.next(len(m.player.events)+1, by, isFailure)
	}
	cmd := m.turnTo(at)
	if n := m.Graph.ByKey[m.player.events[at-1].Unit()]; n != nil {
		m.follow = false
		m.selectNode(n)
	}
	return cmd
}

// goFrom draws the picture as it was when so many events had happened. Going back
// draws it anew: the reducer knows no other way, and needs none.
func (m *model) goFrom(from, to int) tea.Cmd {
	m.stale = true
	events, follow := m.player.events, m.follow
	var cmds []tea.Cmd
	if to < from {
		m.State, m.Graph, m.went, m.outlook = event.State{}, graph.New(&event.State{}), false, outlook{}
		m.absorb(events[:to])
		m.flash.text, m.follow = "", follow
	} else {
		cmds = m.absorb(events[from:to])
	}
	m.Ended = to == len(events)
	cmds = append(cmds, m.settle())
	if m.insp != nil {
		cmds = append(cmds, m.insp.Again())
	}
	return tea.Batch(append(cmds, m.tick())...)
}

// stands reports whether time stands still in a replay.
func (m *model) stands() bool { return m.player != nil && !m.player.moving }

// drawBadge says that nothing of this happens now.
func (m *model) drawBadge(x int) int {
	if m.player == nil {
		return x
	}
	const badge = " REPLAY "
	m.canvas.Mark(x, 0, len(badge))
	return m.canvas.Put(x, 0, theme.Accent, badge) + 1
}
