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
	waves  waveHeap
}

// queuedWave is the current wave of a group in a cohort.
type queuedWave struct {
	group    *group
	index    int // of the group in the cohort
	rank     plan.Rank
	inFlight bool // sent, but not all of its requests are answered
}

func (c *cohort) join(g *group) {
	g.memberships = append(g.memberships, membership{c, len(c.groups)})
	c.groups = append(c.groups, g)
}

// membership is a group's membership in a cohort. A retried group is in several cohorts: the
// groups that it first started with still wait for its waves.
type membership struct {
	*cohort
	index int // of the group in the cohort
}

// queueWave queues the group's current wave in its cohorts. It must be called after each change
// of that wave.
func (g *group) queueWave() {
	if rank, inFlight, ok := g.nextWave(); ok {
		for _, m := range g.memberships {
			heap.Push(&m.waves, queuedWave{g, m.index, rank, inFlight})
		}
	}
}

// due returns the groups whose next wave has the lowest rank, or none while a wave of a
// lower rank is in flight. The caller sends their waves.
func (c *cohort) due() (due []*group) {
	var lowest plan.Rank
	for len(c.waves) > 0 {
		w := c.waves[0]
		switch {
		case !w.valid():
		case w.inFlight || due != nil && w.rank != lowest:
			return due
		case due == nil || due[len(due)-1] != w.group:
			lowest, due = w.rank, append(due, w.group)
		}
		heap.Pop(&c.waves)
	}
	return due
}

func (w queuedWave) valid() bool {
	if w.group.status != event.Running || w.group.attempt.accepted {
		return false
	}
	rank, inFlight, ok := w.group.nextWave()
	return ok && rank == w.rank && inFlight == w.inFlight
}

// nextWave returns the rank of the group's wave in flight, or else of the next one that can be
// sent. ok is false if there is neither.
func (g *group) nextWave() (rank plan.Rank, inFlight, ok bool) {
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
		o := g.byObject[need]
		return o != nil && !(o.request == requestSucceeded && o.status == event.Ready)
	})
}

// waveHeap is a heap: the lowest rank comes first. Within a rank, waves that can be sent come
// before those in flight, then the groups that started first.
type waveHeap []queuedWave

func (h waveHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	order := a.rank.Compare(b.rank)
	if a.group.stage.removes() { // the reverse order of the apply
		order = -order
	}
	if order == 0 && a.inFlight != b.inFlight {
		return b.inFlight
	}
	return cmp.Or(order, cmp.Compare(a.index, b.index)) < 0
}

func (h waveHeap) Len() int      { return len(h) }
func (h waveHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *waveHeap) Push(x any)   { *h = append(*h, x.(queuedWave)) }
func (h *waveHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}
