package stack

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestProgressOfOneGroup: one group is not "1 groups".
func TestProgressOfOneGroup(t *testing.T) {
	m := &member{}
	m.state.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "kafka:broker"}}}}})
	if got := m.progress(); got != "0 of 1 group done" {
		t.Error(got)
	}
}

// TestProgressOfSteppedRelease: while a group that was stepped runs, the progress of the paused release names it (S6, R41).
func TestProgressOfSteppedRelease(t *testing.T) {
	m := &member{}
	groups := []*plan.Group{{ID: "kafka:zookeeper"}, {ID: "kafka:broker"}}
	apply := func(e event.Event) { e.Phase = "apply"; m.state.Apply(e) }
	apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}})
	apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "kafka"}})
	apply(event.Event{Kind: event.KindRun, Status: event.Paused})
	for _, step := range []struct {
		group  string
		status event.Status
		want   string
	}{
		{"kafka:zookeeper", event.Ready, "1 of 2 groups done"},
		{"kafka:broker", event.Running, "1 of 2 groups done; kafka:broker in progress"},
		{"kafka:broker", event.Ready, "2 of 2 groups done"},
	} {
		apply(event.Event{Kind: event.KindGroup, Group: step.group, Status: step.status})
		if got := m.progress(); got != step.want {
			t.Errorf("%s %s: %q, want %q", step.group, step.status, got, step.want)
		}
	}
}

// TestDiagnosisOfRelease: the cause of a release is that of an object that is in trouble now, and none once no object is.
func TestDiagnosisOfRelease(t *testing.T) {
	m := &member{}
	web, db := plan.Object{Kind: "Deployment", Name: "web"}, plan.Object{Kind: "Deployment", Name: "db"}
	m.state.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "shop:app", Objects: []plan.Object{db, web}}}}}})
	for _, step := range []struct {
		kind    event.Kind
		object  plan.Object
		status  event.Status
		cause   string
		changed bool
		want    string
	}{
		{event.KindObject, db, event.InProgress, "", false, ""},
		{event.KindDiagnosis, db, event.Degraded, "exited with code 3", true, "shop:app: Deployment/db: exited with code 3"},
		{event.KindObject, web, event.InProgress, "", false, ""},
		{event.KindDiagnosis, web, "", "running but not ready", true, "shop:app: Deployment/web: running but not ready"},
		{event.KindDiagnosis, web, "", "", true, "shop:app: Deployment/db: exited with code 3"}, // it no longer holds
		{event.KindObject, web, event.Ready, "", false, ""},
		{event.KindObject, db, event.Ready, "", true, ""},
		{event.KindObject, db, event.InProgress, "", false, ""},
	} {
		e := event.Event{Kind: step.kind, Phase: "apply", Group: "shop:app", Object: &step.object, Status: step.status, Cause: step.cause}
		m.state.Apply(e)
		if d, changed := m.diagnosis(e); d.Cause != step.want || changed != step.changed {
			t.Errorf("%+v: %t, %q", step, changed, d.Cause)
		}
	}
}
