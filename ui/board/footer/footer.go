// Package footer draws the last line of the screen, the keys that work now or the line
// that the user types, and the short message above it. It has no types.
package footer

import (
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// DrawFlash draws the short message above the keys, wrapped.
func DrawFlash(s *screen.Screen) {
	if s.Flash.Text == "" || s.TooSmall() {
		return
	}
	lines := canvas.Wrap(canvas.Clean(s.Flash.Text), s.W-2)
	top := max(s.H-1-len(lines), 2)
	lines = lines[:min(len(lines), s.H-1-top)]
	s.Canvas.Blank(canvas.Rect{X: 0, Y: top, W: s.W, H: len(lines)})
	for i, l := range lines {
		s.Canvas.Put(1, top+i, s.Flash.Role, l)
	}
}

// Draw draws as many keys as fit, help always, and the filter.
func Draw(s *screen.Screen, hints []keys.Hint, query string) {
	y, cv := s.H-1, s.Canvas
	if typed, ok := s.Modes.Top().(keys.Line); ok {
		input, found := typed.Line()
		x := cv.Put(1, y, theme.Key, typed.Prompt())
		cv.PutFit(x, y, s.W-x-1, theme.Text, input.Value())
		cv.PutRight(s.W-1, y, theme.Quiet, found)
		return
	}
	x, end := 1, s.W-1
	if query != "" {
		end = cv.PutRight(end, y, theme.Stopped, canvas.Fit("/"+query+"  esc clears", s.W/2, s.Theme.Lines.Ellipsis)) - 2
	}
	if h := len(hints); h > 1 { // help is always visible
		rest := hints[h-1]
		if keys.Cells(hints, 2) > end-x {
			s.PutHint(end-rest.Width(), y, rest, theme.Quiet)
			end -= rest.Width() + 2
			hints = hints[:h-1]
		}
	}
	kept := 0 // room reserved for later hints with Stays
	for _, h := range hints {
		if h.Stays {
			kept += h.Width() + 2
		}
	}
	for _, h := range hints {
		if h.Stays {
			kept -= h.Width() + 2
		}
		if x+h.Width()+kept > end {
			continue
		}
		x = s.PutHint(x, y, h, theme.Quiet) + 2
	}
}
