package view

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// group holds the last observations of a group's objects, possibly from an earlier revision.
type group struct {
	*plan.Group
	last  map[plan.Object]run.Observation
	fresh map[plan.Object]bool // whether each planned object has been observed in this revision
	count map[event.Status]int // planned objects with each status
	// expiring are the Jobs that the cluster deletes after they have finished.
	expiring map[plan.Object]bool
	status   event.Status // published
	message  string       // published
}

func newGroup(g *plan.Group, expiring map[plan.Object]bool, old *group) *group {
	n := &group{Group: g, expiring: expiring, last: map[plan.Object]run.Observation{}, fresh: map[plan.Object]bool{}, count: map[event.Status]int{}}
	if old != nil {
		n.last, n.status, n.message = old.last, old.status, old.message
	}
	for _, o := range g.Objects {
		n.fresh[o] = false
		n.count[n.last[o].Status]++
	}
	return n
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

// derive computes the status of the group from its objects. For a failed group it also returns the reason.
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
	isDone := func(o plan.Object) bool {
		return g.last[o].Status == event.Ready || g.last[o].Status == event.Gone && g.expiring[o]
	}
	if !slices.ContainsFunc(g.Objects, func(o plan.Object) bool { return !isDone(o) }) {
		return event.Ready, ""
	}
	return event.Running, ""
}
