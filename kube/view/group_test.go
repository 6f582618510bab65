package view

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

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
