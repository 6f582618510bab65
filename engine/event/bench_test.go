package event

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"lockstep/engine/plan"
)

// record returns the events of a run with a number of objects in groups of ten. Each group waits for an
// earlier one.
func record(objects int) []Event {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := Phase{Name: "apply", Kind: PhaseApply}
	var events []Event
	add := func(e Event) {
		now = now.Add(time.Millisecond)
		e.Time, e.Phase, e.Seq = now, p.Name, uint64(len(events)+3)
		events = append(events, e)
	}
	for n := range objects / 10 {
		g := &plan.Group{ID: fmt.Sprint("shop:group-", n), After: []string{}}
		if n > 0 {
			g.After = append(g.After, p.Groups[n/2].ID)
		}
		p.Groups = append(p.Groups, g)
		add(Event{Kind: KindGroup, Group: g.ID, Status: Running})
		for i := range 10 {
			o := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("object-%d-%d", n, i)}
			g.Objects = append(g.Objects, o)
			add(Event{Kind: KindObject, Group: g.ID, Object: &o, Status: Applying})
			add(Event{Kind: KindObject, Group: g.ID, Object: &o, Status: Applied, Change: Created})
			add(Event{Kind: KindObject, Group: g.ID, Object: &o, Status: InProgress, Message: "0 of 1 available"})
			add(Event{Kind: KindObject, Group: g.ID, Object: &o, Status: Ready})
		}
		add(Event{Kind: KindGroup, Group: g.ID, Status: Ready})
	}
	return append([]Event{
		{Seq: 1, Time: now, Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install", Release: "shop"}},
		{Seq: 2, Time: now, Kind: KindPlan, Phases: []Phase{p}},
	}, events...)
}

// BenchmarkState reduces a run with a number of objects to its state.
func BenchmarkState(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			events := record(n)
			b.ReportAllocs()
			for b.Loop() {
				var s State
				for _, e := range events {
					s.Apply(e)
				}
			}
		})
	}
}

// BenchmarkFeed publishes and reads a run with a number of objects, with and without Bounded.
func BenchmarkFeed(b *testing.B) {
	for _, bounded := range []bool{false, true} {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("bounded=%t/%d", bounded, n), func(b *testing.B) {
				events := record(n)
				b.ReportAllocs()
				for b.Loop() {
					f := &Feed{Bounded: bounded}
					for _, e := range events {
						f.Publish(e)
					}
					f.Close()
					for r := f.Reader(); ; {
						if _, ok := r.Next(b.Context()); !ok {
							break
						}
					}
				}
			})
		}
	}
}

// BenchmarkQueries queries the state of a half-finished run, as a screen does.
func BenchmarkQueries(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var s State
			events := record(n)
			for _, e := range events[:len(events)/2] {
				s.Apply(e)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Next()
				s.Count()
				s.Changes()
				s.Roots()
			}
		})
	}
}
