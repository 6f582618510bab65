package replay

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// Draw draws whether it plays, the speed, the time, a line with failures and pauses, and the
// current event.
func (r *Replay) Draw() {
	p, cv, y := r.Player, r.Canvas, r.H-2
	glyph, times := r.Theme.Mark(string(event.Paused)).Glyph, "×"
	if p.playing {
		glyph = r.Theme.Lines.Arrow
	}
	if r.Theme.ASCII {
		times = "x"
	}
	x := cv.Put(1, y, theme.Accent, glyph) + 1
	x = cv.Put(x, y, theme.Strong, times+strconv.FormatFloat(p.speed, 'f', -1, 64)) + 2
	x = cv.Put(x, y, theme.Text, canvas.Clock(p.Now().Sub(p.Start()))+" of "+canvas.Clock(p.end().Sub(p.Start()))) + 2
	end := r.W - 1
	count := fmt.Sprintf("%d of %d", p.At(), len(p.events))
	if r.W >= 100 {
		description := canvas.Pad(canvas.Fit(r.Describe(p.events[p.At()-1]), r.W/3, r.Theme.Lines.Ellipsis), r.W/3)
		end = cv.PutRight(end, y, theme.Text, description) - 2
		count = "event " + count
	}
	wide := len(fmt.Sprint(len(p.events))) - len(fmt.Sprint(p.At()))
	end = cv.PutRight(end, y, theme.Quiet, count) - 2 - wide
	r.Line = canvas.Rect{X: x, Y: y, W: max(end-x, 0), H: 1}
	r.drawLine(r.Line)
}

func (r *Replay) drawLine(area canvas.Rect) {
	if area.W < 4 {
		return
	}
	p, l := r.Player, r.Theme.Lines
	cell := func(t time.Time) int { return min(int(p.Fraction(t)*float64(area.W)), area.W-1) }
	now := cell(p.Now())
	r.Canvas.Rule(area.X, area.Y, now, theme.Accent, l.Bar)
	r.Canvas.Put(area.X+now, area.Y, theme.Accent, l.Half)
	r.Canvas.Rule(area.X+now+1, area.Y, area.W-now-1, theme.Faint, l.Rest)
	mark := func(status event.Status, is func(event.Event) bool) {
		m := r.Theme.Mark(string(status))
		for _, e := range p.events {
			if is(e) {
				r.Canvas.Put(area.X+cell(e.Time), area.Y, m.Role, m.Glyph)
			}
		}
	}
	mark(event.Paused, func(e event.Event) bool { return e.Kind == event.KindRun && e.Status == event.Paused })
	mark(event.Failed, IsFailure) // drawn over pauses
}

// Describe returns an event in a few words: its subject and its status.
func (r *Replay) Describe(e event.Event) string {
	word := ""
	if e.Status != "" {
		word = r.Theme.Mark(string(e.Status)).Word
	}
	about := e.Group
	switch n := r.Graph.ByKey[e.Unit()]; {
	case e.Object != nil:
		about = r.Graph.Object(*e.Object)
	case n != nil:
		about = n.Name
	case e.Kind == event.KindCommand:
		about = string(e.Command)
	case about == "":
		about = string(e.Kind)
	}
	switch e.Kind {
	case event.KindDiagnosis:
		about, word = about+":", cmp.Or(e.Message, "the cause no longer holds")
	case event.KindDrift:
		word = phrase.Drift(e.Drift)
	case event.KindLog:
		word = "logs"
	case event.KindWaiting:
		about, word = "waiting for", about
	case event.KindWarning:
		word = e.Message
	}
	return canvas.Clean(about + " " + word)
}

// Click goes to the time at a point of the timeline.
func (r *Replay) Click(x, y int) (cmd tea.Cmd, ok bool) {
	if !r.Line.Has(x, y) {
		return nil, false
	}
	return r.PauseAt(r.positionAt((float64(x-r.Line.X) + 0.5) / float64(r.Line.W))), true
}
