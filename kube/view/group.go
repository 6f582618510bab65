package view

import (
	"slices"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// absence is what it means for a group that its objects are absent.
type absence struct {
	mayBeGone map[plan.Object]bool // see revision.mayBeGone
	unapplied bool                 // the revision failed before it reached the group
}

// group holds the last observations of a group's objects, possibly from an earlier revision.
type group struct {
	*plan.Group
	absence
	last  map[plan.Object]run.Observation
	ready map[plan.Object]run.Observation // the last observation of each object that was ready by its rule
	// vanished are the objects that were deleted while it is unknown whether the release is being uninstalled.
	vanished map[plan.Object]bool
	pods     map[plan.Object]run.Pods // of the workloads whose pods have been seen
	fresh    map[plan.Object]bool     // whether each planned object has been observed in this revision
	count    map[event.Status]int     // the objects that decide, with each status
	// awaited are the objects that the run waited for, nil if it waited for none.
	awaited []plan.Object
	drift   map[plan.Object][]event.Drift // published
	status  event.Status                  // published
	message string                        // published
}

func newGroup(g *plan.Group, mayBeGone map[plan.Object]bool, old *group) *group {
	n := &group{Group: g, absence: absence{mayBeGone: mayBeGone}, last: map[plan.Object]run.Observation{}, ready: map[plan.Object]run.Observation{},
		vanished: map[plan.Object]bool{}, pods: map[plan.Object]run.Pods{}, fresh: map[plan.Object]bool{}, drift: map[plan.Object][]event.Drift{}, count: map[event.Status]int{}}
	if old != nil {
		n.last, n.vanished, n.pods, n.drift, n.status, n.message = old.last, old.vanished, old.pods, old.drift, old.status, old.message
	}
	for _, o := range g.Objects {
		n.fresh[o] = false
		if !g.WaitOf(o).Never {
			n.awaited = append(n.awaited, o)
		}
	}
	for _, o := range n.decisive() {
		n.count[n.last[o].Status]++
	}
	return n
}

// publishDrift publishes which fields of an object of a deployed revision others have changed, unless they are the same as before.
func (v *View) publishDrift(unit event.Unit, g *group, ob run.Observation) {
	if v.revision.rel.Info.Status != rcommon.StatusDeployed {
		ob.Drift = nil
	}
	same := func(a, b event.Drift) bool { return a.Field == b.Field && a.Gone == b.Gone && a.Manager == b.Manager } // it may write again
	if slices.EqualFunc(ob.Drift, g.drift[ob.Object], same) {
		return
	}
	g.drift[ob.Object] = ob.Drift
	v.feed.Publish(event.Event{Kind: event.KindDrift, Phase: unit.Phase, Group: unit.Group, Object: &ob.Object, Drift: ob.Drift})
}

// decisive returns the objects that decide about the group: those that the run waited for, or all if it waited for none (R22b).
func (g *group) decisive() []plan.Object {
	if g.awaited == nil {
		return g.Objects
	}
	return g.awaited
}

// record stores an observation, and returns the previous one.
func (g *group) record(ob run.Observation) (before run.Observation, known bool) {
	before, known = g.last[ob.Object]
	g.last[ob.Object] = ob
	if _, planned := g.fresh[ob.Object]; planned && (g.awaited == nil || ob.ReadyBy != event.NotAwaited) {
		g.count[before.Status]--
		g.count[ob.Status]++
	}
	return before, known
}

// since returns since when an object is not ready: what it says itself, unless it was not ready before, either.
func (g *group) since(ob run.Observation) time.Time {
	notReady := func(st event.Status) bool { return st == event.InProgress || st == event.Failed }
	before := g.last[ob.Object]
	if notReady(ob.Status) && notReady(before.Status) && !before.Since.IsZero() && (ob.Since.IsZero() || before.Since.Before(ob.Since)) {
		return before.Since
	}
	return ob.Since
}

// derive computes the status of the group from its objects. For a failed group it also returns the reason.
func (g *group) derive() (event.Status, string) {
	objects := g.decisive()
	if g.count[event.Failed] > 0 && g.awaited != nil {
		for _, o := range objects {
			if ob := g.last[o]; ob.Status == event.Failed {
				return event.Failed, o.String() + ": " + ob.Message
			}
		}
	}
	for _, all := range []event.Status{event.Ready, event.Gone, event.Waiting} {
		if g.count[all] == len(objects) {
			if all == event.Waiting && g.unapplied {
				return event.Skipped, "not applied"
			}
			return all, ""
		}
	}
	if g.awaited == nil {
		return event.Applied, event.NotAwaited.Text()
	}
	isDone := func(o plan.Object) bool {
		return g.last[o].Status == event.Ready || g.last[o].Status == event.Gone && g.mayBeGone[o]
	}
	if !slices.ContainsFunc(objects, func(o plan.Object) bool { return !isDone(o) }) {
		return event.Ready, ""
	}
	return event.Running, ""
}
