package view

import (
	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// group is a group with the last observations of its objects, also those made in an
// earlier revision.
type group struct {
	*plan.Group
	last    map[plan.Object]run.Observation
	fresh   map[plan.Object]bool // for planned objects: observed in this revision
	count   map[event.Status]int // planned objects by their last status
	status  event.Status         // published
	message string               // published
}

func newGroup(g *plan.Group, old *group) *group {
	now := &group{Group: g, last: map[plan.Object]run.Observation{}, fresh: map[plan.Object]bool{}, count: map[event.Status]int{}}
	if old != nil {
		now.last, now.status, now.message = old.last, old.status, old.message
	}
	for _, o := range g.Objects {
		now.fresh[o] = false
		now.count[now.last[o].Status]++
	}
	return now
}

// record stores an observation, and returns the previous one.
func (g *group) record(ob run.Observation) (before run.Observation, known bool) {
	before, known = g.last[ob.Object]
	g.last[ob.Object] = ob
	if _, planned := g.fresh[ob.Object]; planned {
		g.count[before.Status]--
		g.count[ob.Status]++
	}
	return before, known
}

// derive returns the status of the group, given its objects, and the reason.
func (g *group) derive() (event.Status, string) {
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
