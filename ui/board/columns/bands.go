package columns

import (
	"slices"

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
// only, so that nothing moves while the run continues.
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

// placeBands places the cards of all bands. What a band does not need of its rows
// others get that need more, those where work is first.
func (b *Board) placeBands(runs [][]int, heights []int, limit int) {
	b.Whole, b.Tight = true, limit < graph.MinCard
	whole := b.Area
	placed := make([][]cards.Card, len(runs))
	rows := make([]int, len(runs))
	place := func(k, height int) {
		ws := b.widthsOf(runs[k], limit)
		ws.spread(&b.Graph, b.W-1-ws.end())
		b.Area, b.Cards = canvas.Rect{X: whole.X, Y: whole.Y, W: whole.W, H: height - 1}, nil
		own := band{b.Area, b.across(ws, runs[k][0])}
		for _, p := range own.columns {
			b.PlaceColumn(p, b.lanes())
		}
		placed[k], rows[k] = b.Cards, b.lanes()+1
		for _, c := range b.Cards {
			rows[k] = max(rows[k], c.Rect.Y+c.Rect.H+1)
		}
		b.bands[k] = own
	}
	b.bands = make([]band, len(runs))
	total, order := 0, make([]int, len(runs))
	spare := 0
	for k := range runs {
		place(k, heights[k])
		order[k], total = k, total+heights[k]
		spare += heights[k] - rows[k]
	}
	slices.SortStableFunc(order, func(x, y int) int { return b.urgency(runs[x]) - b.urgency(runs[y]) })
	for _, k := range order {
		was := rows[k]
		place(k, was+spare)
		spare -= rows[k] - was
	}
	b.Area, b.Cards, b.Columns = whole, nil, nil
	y := whole.Y
	for k := range b.bands {
		own := &b.bands[k]
		own.area = canvas.Rect{X: whole.X, Y: y + 1, W: whole.W, H: rows[k] - 1}
		for i := range placed[k] {
			placed[k][i].Rect.Y += own.area.Y
		}
		b.Cards, b.Columns = append(b.Cards, placed[k]...), append(b.Columns, own.columns...)
		y += rows[k]
	}
	b.Rows, b.Top = total, 0
}

// urgency ranks columns by the group that needs looking at most.
func (b *Board) urgency(cols []int) int {
	if n := b.pressing(cols); n != nil {
		return cards.Rank(n)
	}
	return len(cols)
}

// drawBands draws each band as its own board.
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
