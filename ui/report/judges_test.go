package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// judged is a run with an object of each rule by which objects are ready. The controller of one of them said nothing.
func judged() []event.Event {
	kinds := map[string]event.Judge{"Deployment/web": event.ByKstatus, "Db/main": event.ByNoStatus, "Queue/jobs": event.ByFirstStatus, "Cache/hot": event.ByChart}
	var objects []plan.Object
	for _, name := range []string{"Deployment/web", "Db/main", "Queue/jobs", "Cache/hot"} {
		kind, name, _ := strings.Cut(name, "/")
		objects = append(objects, plan.Object{Kind: kind, Name: name})
	}
	exit := 0
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{apply([]*plan.Group{{ID: "r:db", Objects: objects}})}},
		{Kind: event.KindGroup, Phase: "apply", Group: "r:db", Status: event.Running},
	}
	for _, o := range objects {
		e := event.Event{Kind: event.KindObject, Phase: "apply", Group: "r:db", Object: &o, Status: event.Ready, Change: event.Created, ReadyBy: kinds[o.String()]}
		if e.ReadyBy == event.ByNoStatus {
			e.Message = "its controller wrote no status within 10s"
		}
		events = append(events, e)
	}
	events = append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: "r:db", Status: event.Ready},
		event.Event{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit, NoStatus: 1,
			Outcome: "1 object whose controller said nothing", Message: "1 object whose controller said nothing"})
	for n := range events {
		events[n].Time = time.Unix(1e9, 0)
	}
	return events
}

// TestReadyByIsShown expects that the log, the summary and the status of a release say by which rule objects are ready, unless
// that is the usual one, and that an object whose controller said nothing is no full success (R22a).
func TestReadyByIsShown(t *testing.T) {
	var out, summary bytes.Buffer
	events := judged()
	Replay(events, newTextLog(&out, &out, Options{Style: plain}))
	var s event.State
	for _, e := range events {
		s.Apply(e)
	}
	Summary(&summary, &s, Options{Style: plain})
	status := formatGroups(Groups(&s, nil), plain)
	for text, want := range map[string][]string{
		out.String():     {"◇ r:db applied (4 objects created, 0.0s, 1 by the chart's expressions, 1 by the first status of its controller, 1 without a status of its controller)"},
		summary.String(): {"applied, but the controller said nothing", "Db/main: its controller wrote no status within 10s", "◇ install r applied in 0.0s: 1 object whose controller said nothing"},
		status:           {"Db/main         ◇ applied, without a status of its controller", "Queue/jobs      ✓ ready, by the first status of its controller", "Cache/hot       ✓ ready, by the chart's expressions", "Deployment/web  ✓ ready\n"},
	} {
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
	}
	if groups := Groups(&s, nil); groups[0].Objects[2].ReadyBy != event.ByFirstStatus {
		t.Errorf("the JSON of a status says %+v", groups[0].Objects[2])
	}
}
