package run

import (
	"cmp"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// named is the object under the name that it has in the cluster.
func (o *objectRun) named() plan.Object {
	obj := o.Object
	if o.name != "" {
		obj.Name = o.name
	}
	return obj
}

// answer takes the API server's answer to a request.
func (r *StageRun) answer(t task, out Outcome, err error) {
	r.busy--
	g, o := t.g, t.o
	if t.n != g.attempt {
		return
	}
	g.pending--
	if err != nil {
		r.setObject(g, o, event.Failed, oneLine(err.Error()), "")
		r.fail(g, o, err.Error(), false)
		return
	}
	o.answered, o.version, o.name, o.since = true, out.Version, out.Name, time.Now()
	if r.Phase.Kind == event.PhaseRemove {
		r.answerDelete(g, o, out)
	} else {
		r.setObject(g, o, event.Applied, "", out.Change)
		if g.await && r.Readiness > 0 {
			r.deadlines = append(r.deadlines, deadline{g, o, g.attempt, r.e.clock.active(o.since) + r.Readiness})
		}
		r.judge(g, o)
	}
	if g.status == event.Running {
		r.send(g)
		r.settle(g)
	}
}

func (r *StageRun) answerDelete(g *groupRun, o *objectRun, out Outcome) {
	switch {
	case out.Change == event.Kept:
		r.setObject(g, o, event.Ready, cmp.Or(out.Message, "kept: helm.sh/resource-policy"), out.Change)
		g.unready--
	case out.Change == event.Absent, o.last.Status == event.Gone:
		r.setObject(g, o, event.Gone, "", out.Change)
		g.unready--
	default:
		r.setObject(g, o, event.Deleting, o.last.Message, out.Change)
	}
}

// observe takes what the watch has seen of an object.
func (r *StageRun) observe(g *groupRun, seen Observation) {
	o := g.index[seen.Object]
	if o == nil || r.era != r.e.era { // a rollback undoes what the stage did
		return
	}
	o.last = seen
	if !o.answered {
		return
	}
	if r.Phase.Kind == event.PhaseRemove {
		switch {
		case r.doneWith(o):
		case seen.Status == event.Gone:
			r.setObject(g, o, event.Gone, "", "")
			g.unready--
			r.leafDone(g)
		case seen.Status == event.Deleting:
			r.setObject(g, o, event.Deleting, seen.Message, "")
		}
	} else {
		r.judge(g, o)
	}
	if g.status == event.Running {
		r.send(g)
		r.settle(g)
	}
}

// judge compares what was last seen of an applied object with its apply (R22).
func (r *StageRun) judge(g *groupRun, o *objectRun) {
	seen := o.last
	if seen.Status == "" || seen.Version != 0 && seen.Version < o.version {
		return
	}
	if r.Phase.Kind == event.PhaseHooks && g.status.Over() {
		return // a hook is left alone once it has run; its delete policy may remove it
	}
	was := o.status
	switch seen.Status {
	case event.Gone:
		r.setObject(g, o, event.InProgress, "it is gone from the cluster", "")
	case event.Deleting:
		r.setObject(g, o, event.InProgress, "it is being deleted", "")
	default:
		r.setObject(g, o, seen.Status, seen.Message, "")
	}
	if !g.await {
		r.leafDone(g)
		return
	}
	if g.status != event.Running {
		return
	}
	switch {
	case o.status == event.Ready && was != event.Ready:
		g.unready--
	case o.status != event.Ready && was == event.Ready:
		g.unready++
	}
	if o.status == event.Failed {
		r.fail(g, o, o.message, true)
	}
}

// leafDone tells that a group that is not waited for has become ready, or is
// gone (R21).
func (r *StageRun) leafDone(g *groupRun) {
	if g.status != event.Applied {
		return
	}
	for _, o := range g.objects {
		if !r.doneWith(o) {
			return
		}
	}
	r.set(g, r.goal(), "")
}

// goal is how a group ends that has come to all it should.
func (r *StageRun) goal() event.Status {
	if r.Phase.Kind == event.PhaseRemove {
		return event.Gone
	}
	return event.Ready
}

// doneWith reports whether nothing is left to wait for of an object.
func (r *StageRun) doneWith(o *objectRun) bool {
	return o.answered && (o.status == event.Ready || o.status == event.Gone)
}

// settle ends a group that has all it should.
func (r *StageRun) settle(g *groupRun) {
	if g.status != event.Running || g.sent < len(g.objects) || g.pending > 0 || g.unready > 0 {
		return
	}
	end := r.goal()
	if !g.await {
		end = event.Applied
	}
	r.set(g, end, "")
	for _, next := range g.after {
		next.left--
	}
	r.leafDone(g)
}

// setObject changes the state of an object and tells, where there is news.
func (r *StageRun) setObject(g *groupRun, o *objectRun, s event.Status, message string, change event.Change) {
	if o.status == s && o.message == message && change == "" {
		return
	}
	o.status, o.message = s, message
	if o.answered && !r.doneWith(o) && s != event.Failed {
		r.e.expectLook(o)
	}
	obj, planned := o.named(), ""
	if o.name != "" {
		planned = o.Name
	}
	r.e.publish(event.Event{Kind: event.KindObject, Phase: r.Phase.Name, Group: g.ID, Object: &obj, Planned: planned, Status: s, Message: message, Change: change})
}
