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
		"Deployment/web: no node has room; gave up after 1m0s (--readiness-timeout Deployment)": {Object: web, Cause: "no node has room",
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

// TestWithoutGroup: the cause of a release begins with the object, unless only the group names it.
func TestWithoutGroup(t *testing.T) {
	api := plan.Object{Kind: "Deployment", Name: "api"}
	var release event.State
	release.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "s:api", Objects: []plan.Object{api}}}}}})
	for cause, want := range map[string]string{
		"s:api: Deployment/api: image cannot be pulled": "Deployment/api: image cannot be pulled",
		"s:api: image cannot be pulled":                 "s:api: image cannot be pulled",
		"s:web: Deployment/api: image cannot be pulled": "s:web: Deployment/api: image cannot be pulled",
		"image cannot be pulled":                        "image cannot be pulled",
	} {
		if got := WithoutGroup(&release, cause); got != want {
			t.Errorf("%q becomes %q", cause, got)
		}
	}
	if got := WithoutGroup(nil, "a: b"); got != "a: b" {
		t.Errorf("without a release: %q", got)
	}
}
