package phrase

import (
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestFixed(t *testing.T) {
	r := event.Root{Object: &event.ObjectState{Object: plan.Object{Kind: "Job", Name: "db"}}, Cause: "it is broken"}
	hook := r
	hook.Group = &event.GroupState{Group: &plan.Group{Step: &plan.Step{}}}
	unit := event.Unit{Group: "shop:db"}
	for want, f := range map[string]event.FixedFailure{
		"shop:db: Job/db: it is broken; fixed by a retry":                                    {Root: r, Unit: unit, How: event.Retry},
		"shop:db: Job/db: it is broken; failed again after a re-check from another terminal": {Root: r, Unit: unit, How: event.Accept, Again: true, By: "another terminal"},
		"shop:db: Job/db: it is broken; skipped from ann: known":                             {Root: hook, Unit: unit, How: event.Accept, By: "ann", Reason: "known"},
		"shop:db: Job/db: it is broken; fixed by an edit":                                    {Root: r, Unit: unit, How: event.Edit},
	} {
		if got := Fixed(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRoot(t *testing.T) {
	web := &event.ObjectState{Object: plan.Object{Kind: "Deployment", Name: "web"}}
	for want, r := range map[string]event.Root{
		"it failed": {Cause: "it failed"},
		"Deployment/web: no node has room; gave up after 1m (--readiness-timeout Deployment)": {Object: web, Cause: "no node has room",
			Timeout: &event.Timeout{After: time.Minute, Flag: "--readiness-timeout Deployment"}},
		"Deployment/web: not applied; gave up after 8.95s (--timeout); the API server has been unreachable for 3s (no route)": {Object: web, Cause: "not applied",
			Timeout: &event.Timeout{After: 8950 * time.Millisecond, Flag: "--timeout", Away: 3 * time.Second, AwayWhy: "no route"}},
		"Deployment/web: no room; not ready when the group failed (1.2s)": {Object: web, Cause: "no room", Waited: 1234 * time.Millisecond},
		"Deployment/web: no room; not ready when the group failed (12s)":  {Object: web, Cause: "no room", Waited: 12100 * time.Millisecond},
	} {
		if got := Root(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCauseIn: the cause of a release begins with its object that has failed or, before that, was diagnosed last.
func TestCauseIn(t *testing.T) {
	api, db, job := plan.Object{Kind: "Deployment", Name: "api"}, plan.Object{Kind: "StatefulSet", Name: "db"}, plan.Object{Kind: "Job", Name: "load"}
	var release event.State
	at := time.Unix(100, 0)
	apply := func(e event.Event) {
		at = at.Add(time.Second)
		e.Time, e.Phase = at, "apply"
		release.Apply(e)
	}
	apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{
		{ID: "s:api", Objects: []plan.Object{api}}, {ID: "s:db", Objects: []plan.Object{db}}, {ID: "post-install:" + job.String(), Name: job.String(), Objects: []plan.Object{job}},
	}}}})
	g, o := &event.GroupState{Group: &plan.Group{ID: "s"}}, &event.ObjectState{Cause: "s:db: StatefulSet/db: something: else"}
	if got := CauseIn(nil, g, o, at); got != o.Cause {
		t.Errorf("without a release: %q", got)
	}
	diagnose := func(group string, x plan.Object, cause string) {
		apply(event.Event{Kind: event.KindGroup, Group: group, Status: event.Running})
		apply(event.Event{Kind: event.KindDiagnosis, Group: group, Object: &x, Status: event.Degraded, Cause: cause, Message: cause})
	}
	check := func(want string) {
		t.Helper()
		if got := CauseIn(&release, g, o, at); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check(o.Cause)
	diagnose("s:db", db, "no room: 1 node")
	diagnose("s:api", api, "image: cannot be pulled")
	check("Deployment/api: image: cannot be pulled")
	diagnose("post-install:"+job.String(), job, "exited with code 3")
	check("Job/load: exited with code 3")
	apply(event.Event{Kind: event.KindGroup, Group: "s:db", Object: &db, Status: event.Failed, Cause: "no room: 1 node", Timeout: &event.Timeout{After: time.Minute, Flag: "--timeout"}})
	check("StatefulSet/db: no room: 1 node; gave up after 1m (--timeout)")
}
