package view

import (
	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// viewGroup is a group with what was last seen of its objects, in an earlier
// revision, too.
type viewGroup struct {
	*plan.Group
	last   map[plan.Object]run.Observation
	fresh  map[plan.Object]bool // of each planned object whether it was seen in this revision
	count  map[event.Status]int // of planned objects, by what was last seen of them
	status event.Status
	said   string
}

func newViewGroup(g *plan.Group, old *viewGroup) *viewGroup {
	now := &viewGroup{Group: g, last: map[plan.Object]run.Observation{}, fresh: map[plan.Object]bool{}, count: map[event.Status]int{}}
	if old != nil {
		now.last, now.status, now.said = old.last, old.status, old.said
	}
	for _, o := range g.Objects {
		now.fresh[o] = false
		now.count[now.last[o].Status]++
	}
	return now
}

// see notes what was seen of an object, and returns what was before.
func (g *viewGroup) see(ob run.Observation) (was run.Observation, known bool) {
	was, known = g.last[ob.Object]
	g.last[ob.Object] = ob
	if _, planned := g.fresh[ob.Object]; planned {
		g.count[was.Status]--
		g.count[ob.Status]++
	}
	return was, known
}

// judge derives the status of a group from its objects.
func (g *viewGroup) judge() (event.Status, string) {
	if g.count[event.Failed] > 0 {
		for _, o := range g.Objects {
			if ob := g.last[o]; ob.Status == event.Failed {
				return event.Failed, o.String() + ": " + ob.Message
			}
		}
	}
	for _, all := range []event.Status{event.Ready, event.Gone, event.Waiting} {
		if g.count[all] == len(g.Objects) {
			return all, ""
		}
	}
	return event.Running, ""
}
