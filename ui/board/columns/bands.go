package columns

import (
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/screen"
)

// band is a part of the board with some of its columns. Layers that do not fit side by side are
// drawn in bands below each other.
type band struct {
	area        canvas.Rect // of the cards, on the screen
	columns     []cards.Column
	title       int // the row of the titles
	lane, lanes int // the first row for edges that skip columns or come from other bands, and how many there are
}

// thinLine is the minimum width of a group that is drawn as one line.
const thinLine = 14

// bandStyles are how groups can be drawn in bands, the best first: the narrowest and the lowest card.
var bandStyles = []struct{ width, rows int }{{graph.TightCard, cards.MinCardRows}, {graph.TightCard, 1}, {thinLine, 1}}

// placeBanded lays the board out in bands, if all groups then fit as cards or lines. It depends only on the
// plan, so that nothing moves during the run.
func (b *Board) placeBanded() bool {
	cols := b.columns()
	if b.Detail != screen.Auto || b.Narrow() || len(cols) == 0 {
		return false
	}
	if b.allFitAsCards(cols) {
		return b.Widths().tight && b.placeWhole(cols)
	}
	if b.width()/thinLine*b.Room < len(b.Visible()) {
		return false
	}
	var splits []split
	for _, style := range bandStyles {
		splits = append(splits, b.splitWidest(cols, style.width))
	}
	for _, b.maxLanes = range []int{8, 3, 1} { // an edge that is drawn matters more than a larger card
		for i, style := range bandStyles {
			parts, limit := splits[i].parts, splits[i].limit
			if heights := b.heights(parts, style.rows); heights != nil {
				b.LinesOnly = limit < graph.TightCard
				b.placeBands(parts, heights, limit)
				return true
			}
		}
	}
	return false
}

// placeWhole lays the board out in bands of cards with padding, if there are rows for all that they show.
func (b *Board) placeWhole(cols []int) bool {
	s, left := b.splitWidest(cols, graph.MinCard), b.Room
	b.maxLanes = 8
	heights := make([]int, len(s.parts))
	for k, part := range s.parts {
		heights[k] = b.bandHeight(part, b.NeededRows)
		left -= b.bandHeight(part, b.FullRows)
	}
	if left < 0 {
		return false
	}
	b.placeBands(s.parts, heights, s.limit)
	return true
}

// bandHeight returns how many rows a band takes with cards of the given heights.
func (b *Board) bandHeight(part []int, rowsOf func(*graph.Node) int) (rows int) {
	for _, i := range part {
		full := 0
		for _, n := range b.ShownIn(i) {
			full += rowsOf(n)
		}
		rows = max(rows, full)
	}
	return rows + 1 + b.lanesOf(part)
}

// split is the columns of bands, with cards up to a width.
type split struct {
	parts [][]int
	limit int
}

// splitWidest divides columns into the fewest bands with cards of at least a width, and makes the cards as wide as
// that many bands allow.
func (b *Board) splitWidest(cols []int, least int) split {
	out := split{b.splitColumns(cols, least), least}
	if len(out.parts)*2 > b.Room { // each has a title and a group
		return out
	}
	for most := longNames; out.limit < most; {
		limit := (out.limit + most + 1) / 2
		if parts := b.splitColumns(cols, limit); len(parts) == len(out.parts) {
			out = split{parts, limit}
		} else {
			most = limit - 1
		}
	}
	return out
}

// splitColumns divides columns into bands that fit the screen with cards of a width.
func (b *Board) splitColumns(cols []int, limit int) (out [][]int) {
	for from := 0; from < len(cols); {
		to := from + 1
		for ; to < len(cols); to++ {
			if b.bandRoom(cols[from:to+1], limit) < 0 {
				break
			}
		}
		out = append(out, cols[from:to])
		from = to
	}
	return out
}

// bandRoom returns how many cells are free next to the columns of a band; negative if they do not fit.
func (b *Board) bandRoom(part []int, limit int) int {
	room := b.room(part, limit) + 1 - b.leftOf(part)
	if last := part[len(part)-1]; last+1 < len(b.Graph.Cols) {
		if right := graph.RightMargin(b.Graph.Cols[last]); right > 0 {
			room -= right + 1
		}
	}
	return room
}

// leftOf returns the x of a band's first column.
func (b *Board) leftOf(part []int) int {
	if part[0] == 0 {
		return 1
	}
	return 1 + b.Graph.LeftMargin(part[0], part[len(part)-1])
}

// lanesOf returns how many rows a band has for edges.
func (b *Board) lanesOf(part []int) int {
	return min(b.Graph.LanesOf(part[0], part[len(part)-1]), b.maxLanes)
}

// heights divides the rows of the board among bands, nil if groups of a number of rows do not fit: each gets that much,
// and of the other rows as much as it needs, up to its share.
func (b *Board) heights(parts [][]int, rows int) []int {
	out, left := make([]int, len(parts)), b.Room
	for k, part := range parts {
		for _, i := range part {
			out[k] = max(out[k], rows*len(b.ShownIn(i)))
		}
		out[k] += 1 + b.lanesOf(part)
		left -= out[k]
	}
	if left < 0 {
		return nil
	}
	wanted := make([]int, len(parts))
	for k, part := range parts {
		wanted[k] = max(b.bandHeight(part, b.NeededRows)-out[k], 0)
	}
	for i, k := range cards.Order(len(parts), func(x, y int) int { return wanted[x] - wanted[y] }) { // those that need the least first
		more := min(wanted[k], left/(len(parts)-i))
		if rows == 1 {
			more -= more % (cards.MinCardRows - 1) // a line becomes a card
		}
		out[k], left = out[k]+more, left-more
	}
	return out
}

// placeBands places the cards of all bands. Rows that no band needs go to reasons, the most urgent first.
func (b *Board) placeBands(parts [][]int, heights []int, limit int) {
	b.ShowsAll, b.NoFolds, b.Tight = true, true, limit < graph.MinCard
	whole, room := b.Area, b.Room
	placed := make([][]cards.Card, len(parts))
	rows := make([]int, len(parts))
	b.bands = make([]band, len(parts))
	free := whole.H
	for k, part := range parts {
		ws := b.widthsOf(part, limit)
		b.spread(ws, b.bandRoom(part, limit))
		own := band{columns: b.across(ws, part[0], b.leftOf(part)), lanes: b.lanesOf(part)}
		b.bands[k] = own
		b.Room, b.Cards = heights[k]-1-own.lanes, nil
		for _, p := range own.columns {
			b.PlaceColumn(p, 0)
		}
		placed[k] = b.Cards
		rows[k] = 1 + own.lanes + bottomOf(b.Cards)
		free -= rows[k]
	}
	b.Room = room
	for _, k := range cards.Order(len(parts), func(x, y int) int { return b.rank(parts[x]) - b.rank(parts[y]) }) {
		was := bottomOf(placed[k])
		for j := range parts { // the finished cards of other bands give up rows
			if lacks := b.Lacks(placed[k], was+free); j != k && lacks > 0 {
				height := bottomOf(placed[j])
				b.Lower(placed[j], lacks)
				lower := height - bottomOf(placed[j])
				rows[j], free = rows[j]-lower, free+lower
			}
		}
		b.WrapReasonsOf(placed[k], was+free)
		grown := bottomOf(placed[k]) - was
		rows[k], free = rows[k]+grown, free-grown
	}
	b.Cards, b.Columns, b.Rows, b.Top = nil, nil, whole.H-free, 0
	y := whole.Y
	for k := range b.bands {
		own := &b.bands[k]
		own.lane, own.title = y, y+own.lanes
		own.area = canvas.Rect{X: whole.X, Y: own.title + 1, W: whole.W, H: rows[k] - 1 - own.lanes}
		for i := range placed[k] {
			placed[k][i].Rect.Y += own.area.Y
		}
		b.Cards, b.Columns = append(b.Cards, placed[k]...), append(b.Columns, own.columns...)
		y += rows[k]
	}
}

// bottomOf returns the row below some cards.
func bottomOf(own []cards.Card) (y int) {
	for _, c := range own {
		y = max(y, c.Rect.Y+c.Rect.H)
	}
	return y
}

// rank returns the rank of the most urgent group in some columns.
func (b *Board) rank(cols []int) int { return cards.Rank(b.mostUrgent(cols)) }
