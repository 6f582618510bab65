package columns

import (
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/screen"
)

// Where layers do not fit beside each other, they stand in bands below each other, as
// long as there is room for their cards.

// band is a part of the board with some of its columns.
type band struct {
	area    canvas.Rect // below the titles, on the screen
	columns []cards.Column
}

// leastCard is how high the lowest card is.
const leastCard = 3

// banded lays the board out in bands if all groups fit as cards then: by what is planned
// only, so that nothing moves while the run goes on.
func (b *Board) banded() bool {
	cols := b.columns()
	if b.Detail != screen.AsFits || b.Narrow() || len(cols) == 0 || b.wholeAsCards(cols) {
		return false
	}
	limit := graph.TightCard
	least := b.runs(cols, limit)
	for limit < graph.MaxCard && len(b.runs(cols, limit+1)) == len(least) {
		limit++
	}
	runs := b.runs(cols, limit)
	heights := b.heights(runs)
	for k, run := range runs {
		for _, i := range run {
			if leastCard*len(b.shownIn(i))+b.lanes() > heights[k]-1 {
				return false
			}
		}
	}
	b.placeBands(runs, heights, limit)
	return true
}

// runs divides columns into as many that fit beside each other with cards of a width.
func (b *Board) runs(cols []int, limit int) (out [][]int) {
	for from := 0; from < len(cols); {
		to := from + 1
		for ; to < len(cols); to++ {
			if ws := b.widthsOf(cols[from:to+1], limit); ws.end() > b.W-1 {
				break
			}
		}
		out = append(out, cols[from:to])
		from = to
	}
	return out
}

// widthsOf is how wide columns are that stand beside each other.
func (b *Board) widthsOf(cols []int, limit int) Widths {
	ws := Widths{cols: cols, Card: make([]int, len(b.Graph.Cols)), gutter: make([]int, len(b.Graph.Cols)), tight: limit < graph.MinCard}
	ws.set(&b.Graph, limit)
	return ws
}

// heights is how high bands are, titles included: as high as they would like to be, as
// long as the others get their share.
func (b *Board) heights(runs [][]int) []int {
	out := make([]int, len(runs))
	left := b.Area.H
	for k, run := range runs {
		wanted := 0
		for _, i := range run {
			wanted = max(wanted, b.columnRows(i)+1)
		}
		out[k] = min(wanted, left/(len(runs)-k))
		left -= out[k]
	}
	return out
}

// placeBands places the cards of all bands.
func (b *Board) placeBands(runs [][]int, heights []int, limit int) {
	b.Whole, b.Tight = true, limit < graph.MinCard
	whole := b.Area
	y := whole.Y
	for k, run := range runs {
		ws := b.widthsOf(run, limit)
		ws.spread(&b.Graph, b.W-1-ws.end())
		own := band{canvas.Rect{X: whole.X, Y: y + 1, W: whole.W, H: heights[k] - 1}, b.across(ws, run[0])}
		from := len(b.Cards)
		b.Area = own.area
		b.Columns = append(b.Columns, own.columns...)
		for _, p := range own.columns {
			b.PlaceColumn(p, b.lanes())
		}
		for i := range b.Cards[from:] {
			b.Cards[from+i].Rect.Y += own.area.Y
		}
		b.bands = append(b.bands, own)
		y += heights[k]
	}
	b.Area = whole
	b.Rows, b.Top = y-whole.Y, 0
}

// drawBands draws each band as a board of its own.
func (b *Board) drawBands() {
	whole, columns, rows := b.Area, b.Columns, b.Rows
	defer func() { b.Area, b.Columns, b.Rows = whole, columns, rows }()
	b.Rows = 0 // nothing is out of view
	for _, own := range b.bands {
		b.Area, b.Columns = own.area, own.columns
		b.drawTitles()
		b.drawGraph()
	}
}
