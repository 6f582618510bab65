package board

import (
	"fmt"
	"strconv"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// footerRows is how many rows stand below all others: the keys, and in a replay the
// time line.
func (m *model) footerRows() int {
	if m.player != nil {
		return 2
	}
	return 1
}

// drawTimeline draws how far the replay is: whether it moves and how fast, the time,
// a line with what failed and where the run stood still, and what has just happened.
func (m *model) drawTimeline() {
	p, cv, y := m.player, m.canvas, m.h-2
	if p == nil {
		return
	}
	x := cv.Put(1, y, theme.Accent, m.moves()) + 1
	x = cv.Put(x, y, theme.Strong, m.times("×")+strconv.FormatFloat(p.speed, 'g', 3, 64)) + 2
	x = cv.Put(x, y, theme.Text, canvas.Clock(p.now().Sub(p.begin()))+" of "+canvas.Clock(p.end().Sub(p.begin()))) + 2
	end := m.w - 1
	count := fmt.Sprintf("%d of %d", p.At(), len(p.events))
	if m.w >= 100 {
		said := canvas.Pad(canvas.Fit(m.said(p.events[p.At()-1]), m.w/3, m.Theme.Lines.Ellipsis), m.w/3)
		end = cv.PutRight(end, y, theme.Text, said) - 2
		count = "event " + count
	}
	wide := len(fmt.Sprint(len(p.events))) - len(fmt.Sprint(p.At()))
	end = cv.PutRight(end, y, theme.Quiet, count) - 2 - wide
	m.lay.line = canvas.Rect{X: x, Y: y, W: max(end-x, 0), H: 1}
	m.drawLine(m.lay.line)
}

// drawLine draws the line itself.
func (m *model) drawLine(r canvas.Rect) {
	if r.W < 4 {
		return
	}
	p, l := m.player, m.Theme.Lines
	cell := func(part float64) int { return min(int(part*float64(r.W)), r.W-1) }
	now := cell(p.part(p.now()))
	for i := range r.W {
		switch {
		case i < now:
			m.canvas.Put(r.X+i, r.Y, theme.Accent, l.Bar)
		case i == now:
			m.canvas.Put(r.X+i, r.Y, theme.Accent, l.Half)
		default:
			m.canvas.Put(r.X+i, r.Y, theme.Faint, l.Rest)
		}
	}
	for _, e := range p.events { // a failure is drawn over a stop, which it may have led to
		if e.Kind == event.KindRun && e.Status == event.Paused {
			mark := m.Theme.Mark(string(event.Paused))
			m.canvas.Put(r.X+cell(p.part(e.Time)), r.Y, mark.Role, mark.Glyph)
		}
	}
	for _, e := range p.events {
		if isFailure(e) {
			mark := m.Theme.Mark(string(event.Failed))
			m.canvas.Put(r.X+cell(p.part(e.Time)), r.Y, mark.Role, mark.Glyph)
		}
	}
}

// moves is the sign of a replay that moves, or stands still.
func (m *model) moves() string {
	if m.player.moving {
		return m.Theme.Lines.Arrow
	}
	return m.Theme.Mark(string(event.Paused)).Glyph
}

// times is the sign of multiplication.
func (m *model) times(sign string) string {
	if m.Theme.ASCII {
		return "x"
	}
	return sign
}

// said is an event in a few words.
func (m *model) said(e event.Event) string {
	word := ""
	if e.Status != "" {
		word = m.Theme.Mark(string(e.Status)).Word
	}
	about := e.Group
	switch n := m.Graph.ByKey[e.Unit()]; {
	case e.Object != nil:
		about = graph.ShortObject(*e.Object)
	case n != nil:
		about = n.Name
	case e.Kind == event.KindCommand:
		about = string(e.Command)
	case about == "":
		about = string(e.Kind)
	}
	switch e.Kind {
	case event.KindDiagnosis:
		word = "looked into: " + e.Message
	case event.KindLog:
		word = "logs"
	case event.KindWaiting:
		word = "waited for"
	case event.KindWarning:
		word = e.Message
	}
	return canvas.Clean(about + " " + word)
}

// clickTimeline goes to a moment of the replay.
func (m *model) clickTimeline(at tea.Mouse) (cmd tea.Cmd, ok bool) {
	if m.player == nil || !m.lay.line.Has(at.X, at.Y) {
		return nil, false
	}
	return m.turnTo(m.player.byTime((float64(at.X-m.lay.line.X) + 0.5) / float64(m.lay.line.W))), true
}
