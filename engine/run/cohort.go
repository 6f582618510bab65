package run

import (
	"cmp"
	"container/heap"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// cohort is a set of groups that started at the same moment. Their waves are sent kind by
// kind, as if they were one group. Groups that have ended or wait for a CRD to be established
// do not delay the others.
//
// Rule R15a: groups that start together are applied kind by kind across all of them
type cohort struct {
	groups []*group
	turns  turns
}

// turn is the current wave of a group in a cohort.
type turn struct {
	group *group
	place int // of the group in the cohort
	rank  plan.Rank
	waits bool // for the answers to its requests
}

func (c *cohort) join(g *group) {
	g.seats = append(g.seats, seat{c, len(c.groups)})
	c.groups = append(c.groups, g)
}

// seat is the place of a group in a cohort. A retried group is in several cohorts: the groups
// that it first started with still wait for its waves.
type seat struct {
	*cohort
	place int
}

// updateTurn updates the group's current wave in its cohorts. It must be called after each
// change of that wave.
func (g *group) updateTurn() {
	if rank, waits, ok := g.nextWave(); ok {
		for _, s := range g.seats {
			heap.Push(&s.turns, turn{g, s.place, rank, waits})
		}
	}
}

// due returns the groups whose next wave has the lowest rank, or none while a wave of a
// lower rank is in flight. The caller sends their waves.
func (c *cohort) due() (due []*group) {
	var lowest plan.Rank
	for len(c.turns) > 0 {
		t := c.turns[0]
		switch {
		case !t.valid():
		case t.waits || due != nil && t.rank != lowest:
			return due
		case due == nil || due[len(due)-1] != t.group:
			lowest, due = t.rank, append(due, t.group)
		}
		heap.Pop(&c.turns)
	}
	return due
}

func (t turn) valid() bool {
	if t.group.status != event.Running || t.group.attempt.accepted {
		return false
	}
	rank, waits, ok := t.group.nextWave()
	return ok && rank == t.rank && waits == t.waits
}

// nextWave returns the rank of the group's wave in flight, or else of the next one that can be
// sent. ok is false if there is neither.
func (g *group) nextWave() (rank plan.Rank, waits, ok bool) {
	a := &g.attempt
	if a.pending > 0 {
		return g.ranks[a.wave-1], true, true
	}
	if a.wave == len(g.def.Waves) || !g.established(g.def.Waves[a.wave]) {
		return rank, false, false
	}
	return g.ranks[a.wave], false, true
}

// established reports whether the CRDs that a wave needs are established (R17).
func (g *group) established(w plan.Wave) bool {
	return !slices.ContainsFunc(w.Established, func(need plan.Object) bool {
		o := g.index[need]
		return o != nil && !(o.reply == replyTaken && o.status == event.Ready)
	})
}

// turns is a heap: the lowest rank comes first. Within a rank, waves that can be sent come
// before those in flight, then the groups that started first.
type turns []turn

func (ts turns) Less(i, j int) bool {
	a, b := ts[i], ts[j]
	order := a.rank.Compare(b.rank)
	if a.group.stage.removes() { // the reverse order of the apply
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
