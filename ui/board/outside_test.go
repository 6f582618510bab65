package board

import (
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestCardOfObjectsOutsideTheRelease: the card and the pane of a group that waits for objects outside the release say for which,
// since when, and why they are not ready (R22d).
func TestCardOfObjectsOutsideTheRelease(t *testing.T) {
	tls := plan.Object{Kind: "Secret", Namespace: "n", Name: "tls"}
	api := plan.Object{Kind: "Service", Namespace: "other", Name: "api"}
	web := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "web"}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	outside := func(o plan.Object, s event.Status, message string) event.Event {
		return event.Event{Kind: event.KindObject, Phase: "apply", Group: "s:web", Object: &o, Outside: true, Status: s, Message: message, Time: start}
	}
	groups := []*plan.Group{{ID: "s:web", Chart: "s", Name: "web", Objects: []plan.Object{web}, WaitFor: []plan.Object{tls, api}},
		{ID: "s:last", Chart: "s", Name: "last", Layer: 1, After: []string{"s:web"}, Objects: []plan.Object{{Kind: "ConfigMap", Namespace: "n", Name: "last"}}}}
	s := newScreen(t, 120, 30, []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n", ReadinessTimeout: time.Minute}, Time: start},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}, Time: start},
		outside(tls, event.InProgress, "not in the cluster"), outside(api, event.InProgress, "no pod is ready"),
		{Kind: event.KindRun, Status: event.Running, Time: start.Add(10 * time.Second)},
	})
	s.shows(t, "waits for Secret/tls", "not in the cluster", "waits for Service/other/api", "no pod is ready")
	s.press("enter")
	s.shows(t, "waits for Secret/tls for 10 s, times out in 50 s: not in the cluster", "waits for Service/other/api for 10 s, times out in 50 s: no pod is ready")
	s.feed(outside(tls, event.Ready, ""))
	s.showsNot(t, "waits for Secret/tls")
	s.shows(t, "waits for Service/other/api")
}
