package home

import (
	"os"
	"testing"

	"lockstep/engine/event"
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
