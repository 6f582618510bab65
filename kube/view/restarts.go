package view

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
)

// maxUnseen is how long pods that were not seen yet are waited for.
const maxUnseen = time.Second

// awaitsPods reports whether the pods of a workload that is ready by its rule have not been seen yet. The view then waits a
// moment for them: they may show that a container has just restarted.
func (v *View) awaitsPods(unit event.Unit, g *group, ob run.Observation) bool {
	if _, seen := g.pods[ob.Object]; seen || !cluster.KeepsRunning(ob.Object) || ob.Note != "" { // a note says why it has none
		return false
	}
	time.AfterFunc(maxUnseen, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		g := v.groups[unit.Group]
		if g == nil {
			return
		}
		if _, seen := g.pods[ob.Object]; !seen {
			g.pods[ob.Object] = run.Pods{}
			v.observeLocked(unit, g.ready[ob.Object])
		}
	})
	return true
}

// judgeRestarts returns an observation of an object that is ready by its rule as it counts. As in a run, a workload whose
// container has restarted is in progress until the container has run for a while (R22c).
func (v *View) judgeRestarts(unit event.Unit, g *group, ob run.Observation) run.Observation {
	why, until := g.pods[ob.Object].Held(time.Now(), run.StableAfter)
	if why == "" || !ob.RestartsCount() {
		return ob
	}
	ob.Status, ob.Message = event.InProgress, why
	if !until.IsZero() {
		time.AfterFunc(time.Until(until), func() { v.judgeAgain(unit, ob.Object) })
	}
	return ob
}

// judgeAgain publishes an object that is ready by its rule as it counts now.
func (v *View) judgeAgain(unit event.Unit, o plan.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if g := v.groups[unit.Group]; g != nil {
		v.observeLocked(unit, g.ready[o])
	}
}

// noteOldPods publishes the notes of objects that are ready with pods of an old version, because nothing replaces these (R22).
func (v *View) noteOldPods(ctx context.Context) {
	r := v.current()
	for g, o := range event.Objects(r.phases) {
		if !refs.KeepsPods(o) {
			continue
		}
		for _, i := range r.list {
			if f := r.builder.Fact(i); f != nil && f.Resource.Object == o {
				v.noteOldPodsOf(ctx, g.Unit(), o, i)
			}
		}
	}
}

func (v *View) noteOldPodsOf(ctx context.Context, unit event.Unit, o plan.Object, i *resource.Info) {
	client := v.client.Dynamic
	live, err := client.Resource(i.Mapping.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return // it is shown as it was observed
	}
	note := cluster.OldPods(ctx, client, o, live)
	v.mu.Lock()
	defer v.mu.Unlock()
	if g := v.groups[unit.Group]; g != nil && note != "" {
		if ob := g.last[o]; ob.Status == event.Ready && ob.Note == "" {
			ob.Note, ob.Message = note, text.Join(" · ", ob.Message, note)
			v.publish(unit, g, ob)
		}
	}
}
