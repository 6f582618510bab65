package columns

import (
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/screen"
)

// band is a part of the board with some of its columns. Layers that do not fit side by side are
// drawn in bands below each other, if their cards fit.
type band struct {
	area    canvas.Rect // on the screen, without the titles
	columns []cards.Column
}

// placeBanded lays the board out in bands, if all groups then fit as cards. It depends only on the
// plan, so that nothing moves during the run.
func (b *Board) placeBanded() bool {
	cols := b.columns()
	if b.Detail != screen.Auto || b.Narrow() || len(cols) == 0 || b.allFitAsCards(cols) {
		return false
	}
	limit := graph.TightCard
	fewest := len(b.splitColumns(cols, limit))
	for limit < graph.MaxCard && len(b.splitColumns(cols, limit+1)) == fewest {
		limit++
	}
	parts := b.splitColumns(cols, limit)
	heights := b.heights(parts)
	for k, part := range parts {
		for _, i := range part {
			if cards.MinCardRows*len(b.ShownIn(i))+b.lanes() > heights[k]-1 {
				return false
			}
		}
	}
	b.placeBands(parts, heights, limit)
	return true
}

// splitColumns divides columns into bands that fit the screen with cards of a width.
func (b *Board) splitColumns(cols []int, limit int) (out [][]int) {
	for from := 0; from < len(cols); {
		to := from + 1
		for ; to < len(cols); to++ {
			if b.room(cols[from:to+1], limit) < 0 {
				break
			}
		}
		out = append(out, cols[from:to])
		from = to
	}
	return out
}

// heights returns the heights of bands, titles included: as much as each needs, up to its share.
func (b *Board) heights(parts [][]int) []int {
	out := make([]int, len(parts))
	left := b.Area.H
	for k, part := range parts {
		wanted := 0
		for _, i := range part {
			wanted = max(wanted, b.columnRows(i)+1)
		}
		out[k] = min(wanted, left/(len(parts)-k))
		left -= out[k]
	}
	return out
}

// placeBands places the cards of all bands. Rows that a band does not need go to the others, the
// most urgent first.
func (b *Board) placeBands(parts [][]int, heights []int, limit int) {
	b.ShowsAll, b.Tight = true, limit < graph.MinCard
	whole := b.Area
	placed := make([][]cards.Card, len(parts))
	rows := make([]int, len(parts))
	place := func(k, height int) {
		ws := b.widthsOf(parts[k], limit)
		b.spread(ws, b.room(parts[k], limit))
		b.Area, b.Cards = canvas.Rect{X: whole.X, Y: whole.Y, W: whole.W, H: height - 1}, nil
		own := band{b.Area, b.across(ws, parts[k][0])}
		for _, p := range own.columns {
			b.PlaceColumn(p, b.lanes())
		}
		placed[k], rows[k] = b.Cards, b.lanes()+1
		for _, c := range b.Cards {
			rows[k] = max(rows[k], c.Rect.Y+c.Rect.H+1)
		}
		b.bands[k] = own
	}
	b.bands = make([]band, len(parts))
	total, free := 0, 0
	for k := range parts {
		place(k, heights[k])
		total += heights[k]
		free += heights[k] - rows[k]
	}
	for _, k := range cards.Order(len(parts), func(x, y int) int { return b.rank(parts[x]) - b.rank(parts[y]) }) {
		was := rows[k]
		place(k, was+free)
		free -= rows[k] - was
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

// rank returns the rank of the most urgent group in some columns.
func (b *Board) rank(cols []int) int { return cards.Rank(b.mostUrgent(cols)) }

func (b *Board) drawBands() {
	whole, columns, rows := b.Area, b.Columns, b.Rows
	defer func() { b.Area, b.Columns, b.Rows = whole, columns, rows }()
	b.Rows = 0 // nothing is out of view
	for _, own := range b.bands {
		b.Area, b.Columns = own.area, own.columns
		b.drawColumns()
	}
}
