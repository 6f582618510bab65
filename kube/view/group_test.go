package view

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// TestNotAwaitedInAGroup: an object that the run did not wait for decides nothing about its group, and one without other
// objects is applied, never ready (R22b).
func TestNotAwaitedInAGroup(t *testing.T) {
	web, debug := plan.Object{Kind: "Deployment", Name: "web"}, plan.Object{Kind: "Deployment", Name: "debug"}
	for _, c := range []struct {
		objects           []plan.Object
		web, debug, group event.Status
	}{
		{[]plan.Object{web, debug}, event.Ready, event.Failed, event.Ready},
		{[]plan.Object{web, debug}, event.Ready, event.InProgress, event.Ready},
		{[]plan.Object{web, debug}, event.InProgress, event.Ready, event.Running},
		{[]plan.Object{web, debug}, event.Failed, event.Ready, event.Failed},
		{[]plan.Object{debug}, "", event.Ready, event.Applied},
		{[]plan.Object{debug}, "", event.Failed, event.Applied},
		{[]plan.Object{debug}, "", event.Gone, event.Gone},
	} {
		g := newGroup(&plan.Group{ID: "a", Objects: c.objects, Waits: []plan.ObjectWait{{Object: debug, Wait: plan.Wait{Never: true}}}}, nil, nil)
		if c.web != "" {
			g.record(run.Observation{Object: web, Status: c.web})
		}
		g.record(run.Observation{Object: debug, Status: c.debug}.NotAwaited())
		if status, message := g.derive(); status != c.group || status == event.Applied && message != "not waited for" {
			t.Errorf("%+v: the group is %s (%s)", c, status, message)
		}
	}
}

// TestGoneInAGroup: a group with an object that is gone is ready only if that is a Job which the cluster deletes.
func TestGoneInAGroup(t *testing.T) {
	web, job := plan.Object{Kind: "Deployment", Name: "web"}, plan.Object{Kind: "Job", Name: "work"}
	for _, c := range []struct {
		expiring  bool
		web, want event.Status
	}{
		{true, event.Ready, event.Ready},
		{true, event.InProgress, event.Running},
		{false, event.Ready, event.Running},
		{false, event.Gone, event.Gone},
	} {
		g := newGroup(&plan.Group{ID: "a", Objects: []plan.Object{web, job}}, map[plan.Object]bool{job: c.expiring}, nil)
		g.record(run.Observation{Object: web, Status: c.web})
		g.record(run.Observation{Object: job, Status: event.Gone})
		if status, _ := g.derive(); status != c.want {
			t.Errorf("%+v: the group is %s", c, status)
		}
	}
}
