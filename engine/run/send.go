package run

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// cohort are groups that have started in the same moment: their waves go as if
// they were one group's, kind by kind. One that waits for a definition to be
// established keeps its own group back alone, and one that is over or failed
// nobody.
//
// Rule R15a: what starts together is applied as one, kind by kind
type cohort struct{ groups []*group }

// due returns the groups whose next wave may go: the lowest that is still to come
// of all, and none while a lower one is under way.
func (c *cohort) due() []*group {
	var lowest plan.Rank
	var due []*group
	found := false
	for _, g := range c.groups {
		if g.status != event.Running || g.attempt.accepted {
			continue
		}
		rank, waits, ok := g.next()
		if !ok {
			continue
		}
		order := rank.Compare(lowest)
		if g.stage.removes() { // what was applied last goes first
			order = -order
		}
		if !found || order < 0 {
			lowest, found, due, order = rank, true, nil, 0
		}
		if order == 0 && !waits {
			due = append(due, g)
		}
	}
	return due
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
		if o := g.index[need]; o != nil && !(o.answered && o.status == event.Ready) {
			return false
		}
	}
	return true
}

// send queues what may go now of the groups that have started with g, and ends g
// where nothing is left to do.
func (s *stage) send(g *group) {
	for _, next := range g.attempt.cohort.due() {
		a := &next.attempt
		w := next.def.Waves[a.wave]
		for _, o := range next.objects[a.sent : a.sent+w.Count] {
			s.queue = append(s.queue, request{s, next, o, a.number})
		}
		a.pending, a.sent, a.wave = w.Count, a.sent+w.Count, a.wave+1
	}
	s.endGroup(g)
}

// pump sends queued requests while there are free places; there is never more
// than one under way for an object, so that a retry waits for what the attempt
// before it has sent (R44).
func (s *stage) pump() {
	for i := 0; i < len(s.queue) && s.busy.requests < s.m.opts.Parallel; {
		r := s.queue[i]
		stale := r.attempt != r.group.attempt.number || r.group.status != event.Running
		if r.object.flying && !stale {
			i++
			continue
		}
		if i == 0 {
			s.queue = s.queue[1:]
		} else {
			s.queue = slices.Delete(s.queue, i, i+1)
		}
		if !stale {
			s.request(r)
		}
	}
}

func (s *stage) request(r request) {
	status := event.Applying
	if s.removes() {
		status = event.Deleting
	}
	s.busy.requests++
	r.object.flying = true
	s.setObject(r.group, r.object, status, "", "")
	s.m.do(sendRequest{r})
}
