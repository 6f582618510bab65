package report

import (
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// BenchmarkText writes the log of an upgrade with n objects in groups of ten, whose usual durations are
// known.
func BenchmarkText(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			p := event.Phase{Name: "apply", Kind: event.PhaseApply, Usual: map[string]time.Duration{}}
			events := []event.Event{{Time: now, Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade"}}, {}}
			for i := range n / 10 {
				g := &plan.Group{ID: fmt.Sprint("shop:g", i), After: []string{}}
				p.Groups, p.Usual[g.ID] = append(p.Groups, g), time.Second
				now = now.Add(time.Millisecond)
				events = append(events, event.Event{Time: now, Kind: event.KindGroup, Phase: p.Name, Group: g.ID, Status: event.Running})
				for j := range 10 {
					o := plan.Object{Kind: "ConfigMap", Name: fmt.Sprint("o", i, "-", j)}
					g.Objects = append(g.Objects, o)
					events = append(events, event.Event{Time: now, Kind: event.KindObject, Phase: p.Name, Group: g.ID, Object: &o, Status: event.Ready, Change: event.Configured})
				}
				events = append(events, event.Event{Time: now, Kind: event.KindGroup, Phase: p.Name, Group: g.ID, Status: event.Ready})
			}
			events[1] = event.Event{Time: events[0].Time, Kind: event.KindPlan, Phases: []event.Phase{p}}
			b.ReportAllocs()
			for b.Loop() {
				text := newTextLog(io.Discard, io.Discard, Options{})
				for _, e := range events {
					text.Consume(e)
				}
			}
		})
	}
}
