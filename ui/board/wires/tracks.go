package wires

import (
	"cmp"
	"math"
	"slices"
)

// maxRisers limits the vertical lines of a gutter that are arranged; more could not be told apart.
const maxRisers = 24

// assignTracks gives each vertical line of a gutter a track. Lines that do not overlap share one. If there are too few
// tracks, or no order without false connections, the least important lines are lost.
func assignTracks(all []*riser, g Gutter) {
	risers := slices.DeleteFunc(slices.Clone(all), func(r *riser) bool {
		r.x = g.From
		return r.straight()
	})
	for {
		for len(risers) > maxRisers {
			risers = loseOne(risers)
		}
		order, stuck := arrange(risers)
		switch {
		case stuck != nil:
			loseOne(stuck)
		case !fitTracks(order, g):
			loseOne(risers)
		default:
			return
		}
		risers = slices.DeleteFunc(risers, func(r *riser) bool { return r.lost })
	}
}

// straight reports whether a line goes from one source to one target in the same row, and so needs no track.
func (r *riser) straight() bool {
	return !r.up && !r.down && len(r.stems) == 1 && len(r.exits) == 1 && r.stems[0] == r.exits[0]
}

// loseOne marks the least important line as lost and returns the others.
func loseOne(risers []*riser) []*riser {
	weight := func(r *riser) int {
		w := max(len(r.stems), 1) * max(len(r.exits), 1)
		if r.net.bold {
			w += 1 << 20
		}
		return w
	}
	worst := 0
	for i, r := range risers {
		if weight(r) <= weight(risers[worst]) {
			worst = i
		}
	}
	risers[worst].lost = true
	return slices.Delete(slices.Clone(risers), worst, worst+1)
}

// arrange orders lines from left to right with few crossings. A line that starts in a row is left of one that ends in
// the same row, else they would look connected. If that is impossible, it returns the lines in question.
func arrange(risers []*riser) (order, stuck []*riser) {
	left := slices.Clone(risers)
	for len(left) > 0 {
		best, least := -1, math.MaxInt
		for i, r := range left {
			cost, free := 0, true
			for j, o := range left {
				if i != j {
					free = free && !shareRow(o.stems, r.exits)
					cost += r.crossings(o) - o.crossings(r)
				}
			}
			if free && cost < least {
				best, least = i, cost
			}
		}
		if best < 0 {
			return nil, left
		}
		order, left = append(order, left[best]), slices.Delete(left, best, best+1)
	}
	return order, nil
}

func shareRow(a, b []int) bool {
	return slices.ContainsFunc(a, func(row int) bool { return slices.Contains(b, row) })
}

// span returns the rows between which a line is vertical.
func (r *riser) span() (from, to int) {
	from, to = math.MaxInt, math.MinInt
	for _, rows := range [][]int{r.stems, r.exits} {
		for _, row := range rows {
			from, to = min(from, row), max(to, row)
		}
	}
	if r.up {
		from = math.MinInt
	}
	if r.down {
		to = math.MaxInt
	}
	return from, to
}

// crossings counts how often a line and one to its right cross.
func (r *riser) crossings(right *riser) (n int) {
	from, to := r.span()
	for _, row := range right.stems {
		if from < row && row < to {
			n++
		}
	}
	from, to = right.span()
	for _, row := range r.exits {
		if from < row && row < to { // also if they join there: that looks like a crossing
			n++
		}
	}
	return n
}

// fitTracks puts lines into tracks from left to right, and reports whether there are enough.
func fitTracks(order []*riser, g Gutter) bool {
	for i, r := range order {
		r.x = g.From
		from, to := r.span()
		for _, o := range order[:i] {
			if a, b := o.span(); cmp.Compare(max(a, from), min(b, to)) <= 0 {
				r.x = max(r.x, o.x+1)
			}
		}
		if r.x >= g.To {
			return false
		}
	}
	return true
}
