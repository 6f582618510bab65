package run

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// checkIndexes compares the indexes of the stage with a scan of all groups.
func (x *simulation) checkIndexes() {
	m := x.m
	s := m.stage
	if s == nil || m.windingDown() {
		return
	}
	startable, over := []*group{}, true
	for _, g := range s.groups {
		if g.attempt.number == 0 && g.pendingDependencies == 0 && !g.status.Over() {
			startable = append(startable, g)
		}
		over = over && g.status.Over()
		if g.status == event.Applied && g.attempt.notDone != notDone(g) {
			x.r.fail("%v has %d objects that are not done, but its counter is %d", g.Unit, notDone(g), g.attempt.notDone)
		}
		if c := g.cohort; c != nil {
			due := (&cohort{waves: slices.Clone(c.waves)}).due()
			if want := s.dueIn(c); !slices.Equal(due, want) {
				x.r.fail("R15a: %d groups are due in the cohort of %v, want %d", len(due), g.Unit, len(want))
			} else if len(want) > 0 {
				x.r.fail("R15a: a wave of %v is due, but not queued", want[0].Unit)
			}
		}
	}
	if listed := slices.DeleteFunc(slices.Clone(s.candidates), func(g *group) bool { return g.attempt.number > 0 }); !slices.Equal(listed, startable) {
		x.r.fail("R14: %d groups are listed as startable, want %d", len(listed), len(startable))
	}
	if s.allEnded() != over {
		x.r.fail("allEnded is %t, want %t", s.allEnded(), over)
	}
	for _, g := range s.groups[:s.appliedCount] {
		if !g.isApplied() {
			x.r.fail("%v counts as applied", g.Unit)
		}
	}
}

func notDone(g *group) (n int) {
	for _, o := range g.objects {
		if !g.stage.done(o) {
			n++
		}
	}
	return n
}

// dueIn scans all groups of a cohort for those whose wave may be queued.
func (s *stage) dueIn(c *cohort) []*group {
	var lowest plan.Rank
	var due []*group
	found := false
	for _, g := range s.groups {
		if g.cohort != c || g.status != event.Running || g.attempt.rechecking {
			continue
		}
		rank, waits, ok := g.nextWave()
		if !ok {
			continue
		}
		order := rank.Compare(lowest)
		if g.stage.removes() {
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
