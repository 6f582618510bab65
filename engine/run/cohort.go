package run

import (
	"cmp"
	"container/heap"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// cohort are groups that have started in the same moment: their waves go as if
// they were one group's, kind by kind. One that waits for a definition to be
// established keeps its own group back alone, and one that is over or failed
// nobody.
//
// Rule R15a: what starts together is applied as one, kind by kind
type cohort struct {
	groups []*group
	turns  turns
}

// turn is the wave that a group is at. It counts for as long as the group is there.
type turn struct {
	group *group
	place int // of the group in the cohort
	rank  plan.Rank
	waits bool // for answers to what was sent of the wave
}

// join adds a group that starts.
func (c *cohort) join(g *group) {
	g.seats = append(g.seats, seat{c, len(c.groups)})
	c.groups = append(c.groups, g)
}

// seat is where a group is in a cohort. One that was begun again is in several:
// those that it had started with first go on by it as well.
type seat struct {
	*cohort
	place int
}

// takeTurn tells the group's cohorts which wave it is at. It has to be called after
// whatever may have changed that.
func (g *group) takeTurn() {
	if rank, waits, ok := g.next(); ok {
		for _, s := range g.seats {
			heap.Push(&s.turns, turn{g, s.place, rank, waits})
		}
	}
}

// due returns the groups whose next wave may go: the lowest that is still to come
// of all, and none while a lower one is under way. Whoever asks sends it.
func (c *cohort) due() (due []*group) {
	var lowest plan.Rank
	for len(c.turns) > 0 {
		t := c.turns[0]
		switch {
		case !t.counts():
		case t.waits || due != nil && t.rank != lowest:
			return due
		case due == nil || due[len(due)-1] != t.group:
			lowest, due = t.rank, append(due, t.group)
		}
		heap.Pop(&c.turns)
	}
	return due
}

func (t turn) counts() bool {
	if t.group.status != event.Running || t.group.attempt.accepted {
		return false
	}
	rank, waits, ok := t.group.next()
	return ok && rank == t.rank && waits == t.waits
}

// next returns the rank of the wave of the group that is under way, which waits
// for answers, or else of the one that could go; false where there is neither.
func (g *group) next() (rank plan.Rank, waits, ok bool) {
	a := &g.attempt
	if a.pending > 0 {
		return g.ranks[a.wave-1], true, true
	}
	if a.wave == len(g.def.Waves) || !g.established(g.def.Waves[a.wave]) {
		return rank, false, false
	}
	return g.ranks[a.wave], false, true
}

// established reports whether the definitions are there that a wave needs (R17).
func (g *group) established(w plan.Wave) bool {
	for _, need := range w.Established {
		if o := g.index[need]; o != nil && !(o.reply == replyTaken && o.status == event.Ready) {
			return false
		}
	}
	return true
}

// turns are a heap: the lowest rank comes first, of one rank what may go before what
// waits for answers, and then the groups in the order in which they have started.
type turns []turn

func (ts turns) Less(i, j int) bool {
	a, b := ts[i], ts[j]
	order := a.rank.Compare(b.rank)
	if a.group.stage.removes() { // what was applied last goes first
		order = -order
	}
	if order == 0 && a.waits != b.waits {
		return b.waits
	}
	return cmp.Or(order, cmp.Compare(a.place, b.place)) < 0
}

func (ts turns) Len() int      { return len(ts) }
func (ts turns) Swap(i, j int) { ts[i], ts[j] = ts[j], ts[i] }
func (ts *turns) Push(x any)   { *ts = append(*ts, x.(turn)) }
func (ts *turns) Pop() any {
	last := len(*ts) - 1
	t := (*ts)[last]
	*ts = (*ts)[:last]
	return t
}
