package board

import (
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/picture"
)

// A cause is told whole where there is room: rows of the board that nothing needs go
// to the state line, to the pane, and to the cards. Nothing on the board moves up or
// down for the first two: its free rows are at its end.

// stateLines is what the state line says of a failure on as many lines as there is
// room for; nil where one line is all it takes, or all there is.
func (m *model) stateLines(room int) []string {
	if m.State.Run != event.Held && !m.Over() || m.insp != nil {
		return nil
	}
	_, text := m.stateMark()
	first, width := m.stateRoom(), m.w-1-m.stateFrom()
	wrap := func(n int, l string) []string {
		if n == 0 {
			return canvas.WrapAfter(l, first, width)
		}
		return canvas.Wrap(l, width)
	}
	var all, short []string // short: but the first in a line each
	for n, l := range m.failureLines() {
		lines := wrap(n, l)
		all = append(all, lines...)
		if n > 0 {
			lines = []string{canvas.Fit(l, width, m.Theme.Lines.Ellipsis)}
		}
		short = append(short, lines...)
	}
	if len(all) > room {
		all = short
	}
	if len(all) == 0 || len(all) > room {
		all = wrap(0, text)
	}
	if len(all) > room {
		rest := strings.Join(all[room-1:], " ")
		all = append(all[:room-1], canvas.Fit(rest, width, m.Theme.Lines.Ellipsis))
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// failureLines are a line for each failure, where there are several.
func (m *model) failureLines() []string {
	if m.State.Run == event.Held {
		return m.heldLines()
	}
	roots := m.State.Roots()
	if len(roots) < 2 || m.State.Status != event.Failed {
		return nil
	}
	_, text := m.stateMark()
	lines := []string{text[:len(text)-len(m.Graph.Shorten(m.State.Reason()))] + m.State.Outcome}
	for _, r := range roots {
		lines = append(lines, m.Graph.Shorten(r.String()))
	}
	return lines
}

// paneLacks is how many lines more the pane would take to say whole why what is
// selected is not ready.
func (m *model) paneLacks() int {
	if m.reports() {
		return max(len(m.reportLines(m.lay.pane.W-3))-(m.lay.pane.H-1), 0)
	}
	n := m.group()
	if n == nil || m.insp != nil {
		return 0
	}
	about := inspector.Subject{Picture: &m.Picture, Node: n, Object: m.object()}
	return max(len(about.Why(n, about.Object, 0, m.lay.pane.W-3))-(m.lay.pane.H-1), 0)
}

// paneWants is how many lines more the pane would take for all that is known of a
// failure, its last words among that; of what is going on it wants none.
func (m *model) paneWants() int {
	n := m.group()
	if n == nil || m.insp != nil || n.Status != event.Failed {
		return 0
	}
	about := inspector.Subject{Picture: &m.Picture, Node: n, Object: m.object()}
	return max(len(about.Why(n, about.Object, m.h, m.lay.pane.W-3))-(m.lay.pane.H-1), 0)
}

// spend gives rows of the board, which may end at a row, to the reasons on cards, those
// of failures first.
func (m *model) spend(bottom int) {
	for _, failed := range []bool{true, false} {
		for i := range m.lay.cards {
			c := &m.lay.cards[i]
			if (c.n.Status == event.Failed) != failed || c.r.W < 6 {
				continue
			}
			last := i // of the same column: a column has room of its own
			for last+1 < len(m.lay.cards) && m.lay.cards[last+1].r.X == c.r.X {
				last++
			}
			end := m.lay.cards[last].r
			for _, f := range m.lay.folds {
				if f.r.X == end.X {
					end = f.r
				}
			}
			room := bottom - (end.Y + end.H)
			grown := c.wrap(room, m.reasonWidth(c), m.reasonText)
			for j := i + 1; j <= last; j++ {
				m.lay.cards[j].r.Y += grown
			}
			for j := range m.lay.folds {
				if f := &m.lay.folds[j]; f.r.X == c.r.X {
					f.r.Y += grown
				}
			}
			m.lay.rows = max(m.lay.rows, end.Y+end.H+grown-m.lay.board.Y+m.top)
		}
	}
}

// reasonWidth is how wide the reasons on a card may be.
func (m *model) reasonWidth(c *card) int {
	switch {
	case m.accordion():
		return m.w - 9
	case m.lay.tight:
		return c.r.W - 4
	}
	return c.r.W - 6
}

// wrap breaks the reasons of a card into lines of a width, as far as there are rows
// for that, and returns how many that took.
func (c *card) wrap(room, width int, text func(*card, row) string) int {
	grown := 0
	for i := 0; i < len(c.rows) && room > grown; i++ {
		r := c.rows[i]
		if r.kind != reasonRow || r.o != nil && !r.o.InTrouble() && !picture.CutShort(c.n.Status) {
			continue // nothing is wrong with it: it is only under way
		}
		lines := canvas.Wrap(text(c, r), width)
		n := min(len(lines)-1, room-grown)
		if n <= 0 {
			continue
		}
		lines[n] = strings.Join(lines[n:], " ")
		more := make([]row, 0, n)
		for _, l := range lines[1 : n+1] {
			more = append(more, row{kind: reasonRow, o: r.o, text: l, rest: true})
		}
		c.rows[i].text = lines[0]
		c.rows = slices.Insert(c.rows, i+1, more...)
		grown, i = grown+n, i+n
	}
	c.r.H += grown
	return grown
}
