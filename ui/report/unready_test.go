package report

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestLogOfUnreadyAgain: the log says which object of a group is no longer ready (R21).
func TestLogOfUnreadyAgain(t *testing.T) {
	o := plan.Object{Group: "apps", Kind: "Deployment", Name: "web"}
	group := func(s event.Status, about *plan.Object, message string) event.Event {
		return event.Event{Kind: event.KindGroup, Phase: "apply", Group: "r:web", Status: s, Object: about, Message: message}
	}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "r:web", Objects: []plan.Object{o}}}}}},
		group(event.Running, nil, ""), group(event.Ready, nil, ""),
		group(event.Running, &o, event.UnreadyAgain+": Deployment/web: 0 of 1 available"), group(event.Ready, nil, ""),
	}
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain}))
	if !strings.Contains(out.String(), "r:web is no longer ready: Deployment/web: 0 of 1 available\n") {
		t.Error(out.String())
	}
}
