package home

import (
	"os"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/home"
)

// TestDescribe: home says of a stack's releases what the screen of the run says.
func TestDescribe(t *testing.T) {
	f, err := os.Open("../../../testdata/runs/sandbox-stack.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := event.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	var state event.State
	seen := map[event.Status]bool{}
	for _, e := range events {
		state.Apply(e)
		if e.Kind != event.KindGroup || e.Scope == "" || e.Status != event.Running {
			continue
		}
		var row home.LiveRun
		describe(&row, &state)
		for _, p := range row.Parts {
			seen[p.Status] = true
		}
		state.Apply(event.Event{Kind: event.KindRun, Scope: e.Scope, Status: event.Held, Message: "why"})
		describe(&row, &state)
		for _, p := range row.Parts {
			if p.Name == e.Scope && p.Status != event.Held {
				t.Errorf("%s is held, but shown as %q", p.Name, p.Status)
			}
		}
		state.Apply(event.Event{Kind: event.KindRun, Scope: e.Scope, Status: event.Running})
	}
	if !seen[event.InProgress] || !seen[event.Waiting] || seen[event.Running] {
		t.Errorf("the releases are shown as %v", seen)
	}
}

// TestDescribeStuck: home names the object that waiting will not make ready, before it fails.
func TestDescribeStuck(t *testing.T) {
	api := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "api"}
	var state event.State
	var row home.LiveRun
	for _, step := range []struct {
		event.Event
		status event.Status
		why    string
	}{
		{event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}}, event.Running, ""},
		{event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "s:api", Objects: []plan.Object{api}}}}}}, event.Running, "0 of 1 groups"},
		{event.Event{Kind: event.KindGroup, Status: event.Running}, event.Running, "0 of 1 groups"},
		{event.Event{Kind: event.KindObject, Object: &api, Status: event.InProgress}, event.Running, "0 of 1 groups"},
		{event.Event{Kind: event.KindDiagnosis, Object: &api, Status: event.Degraded, Cause: "image cannot be pulled"}, event.Degraded, "0 of 1 groups; Deployment/api: image cannot be pulled"},
		{event.Event{Kind: event.KindRun, Status: event.Paused, Message: "by ann"}, event.Paused, "by ann"},
		{event.Event{Kind: event.KindRun, Status: event.Running}, event.Degraded, "0 of 1 groups; Deployment/api: image cannot be pulled"},
		{event.Event{Kind: event.KindObject, Object: &api, Status: event.Ready}, event.Running, "0 of 1 groups"},
	} {
		step.Phase, step.Group = "apply", "s:api"
		state.Apply(step.Event)
		if describe(&row, &state); row.Status != step.status || row.Why != step.why {
			t.Errorf("after %s %s the run is shown as %s: %s", step.Kind, step.Event.Status, row.Status, row.Why)
		}
	}
}

// TestRunsElsewhereAreLast: the runs of the namespace that is shown come first, even if one elsewhere needs somebody sooner.
func TestRunsElsewhereAreLast(t *testing.T) {
	run := func(namespace, name string, status event.Status) *liveRun {
		return &liveRun{row: home.LiveRun{Key: home.Key{Namespace: namespace, Name: name}, Status: status}}
	}
	all := map[string]*liveRun{"1": run("other", "stuck", event.Held), "2": run("shop", "api", event.Running), "3": run("", "stack", event.Paused)}
	for namespace, want := range map[string]string{"shop": "stack api stuck", "": "stuck stack api"} {
		var got []string
		for _, r := range (&liveRuns{namespace: namespace, runs: all}).rows() {
			got = append(got, r.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("in namespace %q: %v, want %s", namespace, got, want)
		}
	}
}
