package view

import (
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// observe publishes the events that an observation causes.
func (v *View) observe(unit event.Unit, ob run.Observation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.observeLocked(unit, ob)
}

// observeLocked is observe for callers that hold v.mu.
func (v *View) observeLocked(unit event.Unit, ob run.Observation) {
	g := v.groups[unit.Group]
	if g == nil {
		return
	}
	if ob.Trouble {
		v.explainer.diagnoseNow(target{unit, ob.Object})
	}
	if ob.Pods != nil {
		g.pods[ob.Object] = *ob.Pods
		if v.explainer.seePods(target{unit, ob.Object}, *ob.Pods) {
			v.feed.Publish(event.Event{Kind: event.KindDiagnosis, Phase: unit.Phase, Group: unit.Group, Object: &ob.Object})
		}
		ob = g.ready[ob.Object]
	}
	if ob.Status == "" || ob.Status == event.Applying {
		return
	}
	v.publishDrift(unit, g, ob)
	delete(g.ready, ob.Object)
	delete(g.vanished, ob.Object)
	if ob, ok := v.judge(unit, g, ob); ok {
		v.publish(unit, g, ob)
	}
}

// judge returns an observation with the status that the view gives it, or false if it changes nothing.
func (v *View) judge(unit event.Unit, g *group, ob run.Observation) (run.Observation, bool) {
	if ob.Status == event.Deleting && v.result(g, ob.Object) != "" { // it is expected, and the result stays known
		return ob, false
	}
	if ob.Status == event.Deleting && v.revision.rel.Info.Status == rcommon.StatusDeployed {
		ob.Status, ob.Message = event.InProgress, phrase.BeingDeleted(ob.Message) // diagnosed like any object that is not ready
	}
	if ob.Status == event.Gone {
		ob.Status, ob.Message = v.absent(g, ob.Object)
		if last, seen := g.last[ob.Object]; seen && ob.Status == event.Failed && last.Status != event.Failed {
			// An uninstall may have started without its record having been read yet.
			ob.Status, ob.Message = event.InProgress, "deleted from the cluster"
			g.vanished[ob.Object] = true
			time.AfterFunc(2*pollInterval, func() { v.failIfStillAbsent(unit, ob.Object) })
		}
	}
	if ob.AwaitsStatus && ob.StatusWrite == "" && ob.Status == event.Ready && v.revision.rel.Info.Status.IsPending() {
		ob.Status, ob.Message = event.InProgress, "its controller has written no status yet" // the operation waits for it
	}
	if g.WaitOf(ob.Object).Never {
		ob = ob.NotAwaited()
	}
	if ob.Status == event.Ready {
		if g.ready[ob.Object] = ob; v.awaitsPods(unit, g, ob) {
			return ob, false
		}
		ob = v.judgeRestarts(unit, g, ob)
	}
	failure := v.explainer.observe(target{unit, ob.Object}, ob.Status == event.InProgress || ob.Status == event.Failed)
	if failure != "" && ob.Status == event.InProgress {
		ob.Status, ob.Message = event.Failed, failure
	}
	return ob, true
}

// publish records a judged observation, and publishes the changes of the object and of its group.
func (v *View) publish(unit event.Unit, g *group, ob run.Observation) {
	ob.Since = g.since(ob)
	before, known := g.record(ob)
	st, message := g.derive()
	unstarted := func(st event.Status) bool { return st == "" || st == event.Waiting || st == event.Skipped }
	if !unstarted(st) && unstarted(g.status) { // every group starts with Running
		v.publishGroup(unit, g, event.Running, "")
	}
	if ob.Status != event.Ready {
		ob.Note = ""
		if ob.ReadyBy != event.NotAwaited {
			ob.ReadyBy = ""
		}
	}
	if !known || before.Status != ob.Status || before.Message != ob.Message || before.Progress != ob.Progress || before.ReadyBy != ob.ReadyBy || before.Note != ob.Note || !before.Since.Equal(ob.Since) {
		v.feed.Publish(event.Event{Kind: event.KindObject, Phase: unit.Phase, Group: unit.Group, Object: &ob.Object, Status: ob.Status, Message: ob.Message, Progress: ob.Progress, ReadyBy: ob.ReadyBy, Note: ob.Note, Since: ob.Since})
	}
	if st != g.status || message != g.message {
		v.publishGroup(unit, g, st, message)
	}
	if fresh, planned := g.fresh[ob.Object]; planned && !fresh {
		g.fresh[ob.Object] = true
		if v.unseen--; v.unseen == 0 {
			close(v.seen)
		}
	}
}

func (v *View) publishGroup(unit event.Unit, g *group, st event.Status, message string) {
	g.status, g.message = st, message
	v.feed.Publish(event.Event{Kind: event.KindGroup, Phase: unit.Phase, Group: unit.Group, Status: st, Message: message})
}

// failIfStillAbsent makes a deleted object count as failed, unless it exists again or the release is being uninstalled.
func (v *View) failIfStillAbsent(unit event.Unit, o plan.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if g := v.groups[unit.Group]; g != nil && g.vanished[o] {
		status, message := v.absent(g, o)
		v.observeLocked(unit, run.Observation{Object: o, Status: status, Message: message})
	}
}

// explain publishes why an object is not ready, unless it has become ready meanwhile. If waiting will not help, the object counts as
// failed, because a view has no timeout.
func (v *View) explain(t target, found run.Finding) {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.groups[t.Group]
	if g == nil {
		return
	}
	last := g.last[t.object]
	if last.Status != event.InProgress && last.Status != event.Failed {
		return
	}
	isFailure := found.Degraded
	if found.Cause != "" && last.Status == event.InProgress && len(last.Finalizers) > 0 {
		found.Degraded = true // somebody deletes it, see judge
	}
	e := found.Event()
	e.Phase, e.Group, e.Object = t.Phase, t.Group, &t.object
	v.feed.Publish(e)
	if last.Status == event.InProgress && isFailure {
		last.Trouble = false // it has just been diagnosed
		v.observeLocked(t.Unit, last)
	}
}
