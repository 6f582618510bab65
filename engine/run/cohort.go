package run

import (
	"cmp"
	"container/heap"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// cohort has the waves of groups that started, or were retried, at the same moment. Their waves
// are queued kind by kind, as if they were one group. Groups that have ended, or wait until a CRD
// is established, do not delay the others.
//
// Rule R15a: groups that start together are applied kind by kind across all of them
type cohort struct{ waves waveHeap }

// offeredWave is the current wave of a group in a cohort.
type offeredWave struct {
	group   *group
	attempt int // its number
	rank    plan.Rank
	pending bool // queued, but not all of its requests are answered
}

// offerWave offers the group's current wave to its cohort. It must be called after each change
// of that wave.
func (g *group) offerWave() {
	if rank, pending, ok := g.nextWave(); ok {
		heap.Push(&g.cohort.waves, offeredWave{g, g.attempt.number, rank, pending})
	}
}

// due returns the groups whose next wave is first in the order of the heap, or none while an
// earlier wave is pending. The caller queues their waves.
func (c *cohort) due() (due []*group) {
	var first plan.Rank
	for len(c.waves) > 0 {
		w := c.waves[0]
		switch {
		case !w.valid():
		case w.pending || due != nil && w.rank != first:
			return due
		case due == nil || due[len(due)-1] != w.group:
			first, due = w.rank, append(due, w.group)
		}
		heap.Pop(&c.waves)
	}
	return due
}

func (w offeredWave) valid() bool {
	a := &w.group.attempt
	if w.group.status != event.Running || a.rechecking || a.number != w.attempt {
		return false
	}
	rank, pending, ok := w.group.nextWave()
	return ok && rank == w.rank && pending == w.pending
}

// nextWave returns the rank of the group's pending wave, or else of the next one that can be
// queued. ok is false if there is neither.
func (g *group) nextWave() (rank plan.Rank, pending, ok bool) {
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

// waveHeap is a heap.Interface: the lowest rank comes first or, in a removal, the highest. Within a
// rank, waves that can be queued come before pending ones, then groups in plan order.
type waveHeap []offeredWave

func (h waveHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	order := a.rank.Compare(b.rank)
	if a.group.stage.removes() {
		order = -order
	}
	if order == 0 && a.pending != b.pending {
		return b.pending
	}
	return cmp.Or(order, cmp.Compare(a.group.position, b.group.position)) < 0
}

func (h waveHeap) Len() int      { return len(h) }
func (h waveHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *waveHeap) Push(x any)   { *h = append(*h, x.(offeredWave)) }
func (h *waveHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}
