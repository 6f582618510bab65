package trace

import (
	"fmt"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/trace/receiver"
)

// BenchmarkRun traces a run of 1,000 objects in 10 groups, from its first event until all is sent.
func BenchmarkRun(b *testing.B) {
	to := receiver.Start()
	defer to.Close()
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	var groups []*plan.Group
	events := []event.Event{install, {}}
	for n := range 10 {
		g := &plan.Group{ID: fmt.Sprint("s:", n)}
		if n > 0 {
			g.After = []string{groups[n-1].ID}
		}
		of := func(k event.Kind, s event.Status, o *plan.Object, c event.Change) {
			events = append(events, event.Event{Kind: k, Phase: "apply", Group: g.ID, Status: s, Object: o, Change: c})
		}
		of(event.KindGroup, event.Running, nil, "")
		for i := range 100 {
			o := plan.Object{Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprintf("c-%d-%d", n, i)}
			g.Objects = append(g.Objects, o)
			of(event.KindObject, event.Applying, &o, "")
			of(event.KindObject, event.InProgress, &o, event.Created)
			of(event.KindObject, event.Ready, &o, "")
		}
		of(event.KindGroup, event.Ready, nil, "")
		groups = append(groups, g)
	}
	exit := 0
	events = append(events, event.Event{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit})
	events[1] = event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}}
	for b.Loop() {
		r, err := Start("v1", "", time.Now())
		if err != nil {
			b.Fatal(err)
		}
		for n, e := range events {
			e.Seq, e.Time = uint64(n+1), time.Now()
			r.Consume(e)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
