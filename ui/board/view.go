package board

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// View draws a frame, unless nothing has changed since the last one.
func (m *model) View() tea.View {
	if m.stale {
		m.draw()
	}
	v := tea.NewView(m.frame)
	v.AltScreen = true
	if !m.Theme.Still {
		v.MouseMode = tea.MouseModeCellMotion
	}
	input, _ := m.typed()
	switch {
	case m.tooSmall():
	case input != nil:
		v.Cursor = tea.NewCursor(min(2+input.Position(), m.w-1), m.h-1)
		v.Cursor.Blink = false
	case m.palette != nil && m.dialog == noDialog:
		v.Cursor = m.palette.cursor
	}
	return v
}

func (m *model) draw() {
	m.stale = false
	if m.w <= 0 || m.h <= 0 {
		m.frame = ""
		return
	}
	if m.canvas == nil {
		m.canvas = canvas.New(m.w, m.h, m.pens)
	}
	m.canvas.Reset(m.w, m.h, m.pens)
	if m.tooSmall() {
		m.drawTooSmall()
	} else {
		m.place()
		m.drawHeader()
		if m.accordion() {
			m.drawList()
		} else {
			m.drawBoard()
		}
		m.drawPane()
		m.drawTimeline()
		m.drawFooter()
	}
	switch {
	case m.dialog != noDialog:
		m.drawDialog()
	case m.palette != nil && !m.tooSmall():
		m.drawPalette()
	case m.pager != nil && !m.tooSmall():
		m.drawPager()
	case m.edit != nil && m.edit.shown && !m.tooSmall():
		m.drawEdit()
	case m.breaks != nil && !m.tooSmall():
		m.drawBreaks()
	}
	m.frame = m.canvas.String()
}

// drawTooSmall says what can be said on a screen without room for a board: the
// state, and how much more is needed. Keys work all the same.
func (m *model) drawTooSmall() {
	mark, text := m.stateMark()
	if m.flash.text != "" {
		text = m.flash.text
	}
	x := m.canvas.PutFit(0, 0, m.w, mark.Role, mark.Glyph+" "+mark.Word)
	m.canvas.PutFit(x+1, 0, m.w-x-1, theme.Text, text)
	m.canvas.PutFit(0, 1, m.w, theme.Quiet, fmt.Sprintf("%d of %d", m.Tally.Done, m.Tally.Total))
	for i, s := range canvas.Wrap(fmt.Sprintf("the terminal is %d×%d, too small for the board: it needs %d×%d", m.w, m.h, smallestWidth, smallestHeight), m.w) {
		m.canvas.Put(0, 2+i, theme.Quiet, s)
	}
}
