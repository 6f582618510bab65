package event

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"lockstep/engine/plan"
)

// randomEvent returns a random event like those of a watch: about an object or a group, or a warning.
func randomEvent(r *rand.Rand) Event {
	o := plan.Object{Kind: "Pod", Name: fmt.Sprint(r.IntN(4))}
	e := Event{Phase: "apply", Group: fmt.Sprint("c:", r.IntN(3)), Message: fmt.Sprint(r.IntN(3))}
	switch r.IntN(9) {
	case 0:
		e.Kind, e.Status = KindGroup, []Status{Running, Ready, Failed}[r.IntN(3)]
	case 1:
		e.Kind, e.Object, e.Lines = KindDiagnosis, &o, []string{"why"}
	case 3:
		e.Kind, e.Object, e.Drift = KindDrift, &o, make([]Drift, r.IntN(2))
	case 2:
		e = Event{Kind: KindWarning, Rule: "R8", Message: e.Message}
	default:
		e.Kind, e.Object, e.Status = KindObject, &o, []Status{InProgress, Ready, Failed}[r.IntN(3)]
	}
	return e
}

// withoutTimes returns the content of a State without its times, for comparison.
func withoutTimes(s *State) map[string]string {
	out := map[string]string{"status": string(s.Status) + string(s.Run) + s.Operation.Release}
	for _, w := range s.Warnings {
		out[w.Message] = w.Rule
	}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			out[g.ID] = fmt.Sprint(g.Status, g.Message, g.Done)
			for _, o := range g.Objects {
				out[g.ID+o.Object.Name] = fmt.Sprint(o.Status, o.Message, o.Cause, o.Diagnosis, o.Drift)
			}
		}
	}
	return out
}

func testGroups(n int) []*plan.Group {
	var groups []*plan.Group
	for i := range n {
		g := &plan.Group{ID: fmt.Sprint("c:", i), After: []string{}}
		for j := range 4 {
			g.Objects = append(g.Objects, plan.Object{Kind: "Pod", Name: fmt.Sprint(j)})
		}
		groups = append(groups, g)
	}
	return groups
}

// TestBoundedFeedKeepsState: a reader of a bounded feed that starts early gets every event, however slowly
// it reads. One that starts late gets the same state.
func TestBoundedFeedKeepsState(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := &Feed{Bounded: true}
		slow := f.Reader()
		var all State
		f.Publish(Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "watch", Release: "shop"}})
		const n = 6 * minCompactSize
		for i := range n {
			if i%1000 == 0 { // another revision
				f.Publish(Event{Kind: KindPlan, Phases: []Phase{{Name: "apply", Kind: PhaseApply, Groups: testGroups(3)}}})
			}
			f.Publish(randomEvent(r))
		}
		seen := uint64(0)
		batch, _ := slow.Next(context.Background())
		for _, e := range batch {
			if seen++; e.Seq != seen {
				t.Fatalf("the slow reader gets event %d after %d", e.Seq, seen-1)
			}
			all.Apply(e)
		}
		var late State
		kept := f.Events()
		for _, e := range kept {
			late.Apply(e)
		}
		if len(kept) > 2*minCompactSize || seen < n {
			t.Errorf("%d events are kept, the slow reader got %d", len(kept), seen)
		}
		if got, want := withoutTimes(&late), withoutTimes(&all); !reflect.DeepEqual(got, want) {
			t.Errorf("seed %d: the late reader sees\n%v\nthe slow one\n%v", seed, got, want)
		}
	}
}

func TestBoundedFeedFreesMemory(t *testing.T) {
	grown := func(readers int) uint64 {
		f := &Feed{Bounded: true}
		var all []*Reader
		for range readers {
			all = append(all, f.Reader())
		}
		r := rand.New(rand.NewPCG(1, 1))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 50_000 {
			f.Publish(randomEvent(r))
			if i%100 == 0 {
				for _, reader := range all {
					reader.Next(context.Background())
				}
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(f)
		return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
	}
	for _, readers := range []int{0, 2} {
		if got := grown(readers); got > 4<<20 {
			t.Errorf("with %d readers the feed grew by %d bytes", readers, got)
		}
	}
}

func TestNoEventAfterEnd(t *testing.T) { // R48
	f := &Feed{}
	f.Publish(Event{Kind: KindWarning})
	f.End(Event{Kind: KindOperation, Status: Succeeded})
	f.Publish(Event{Kind: KindLog})
	if all := f.Events(); len(all) != 2 || all[1].Status != Succeeded {
		t.Errorf("%+v", all)
	}
}

func TestNext(t *testing.T) { // R41
	var s State
	g := testGroups(3)
	g[1].After = []string{"c:0"}
	s.Apply(Event{Kind: KindOperation, Status: Running})
	s.Apply(Event{Kind: KindPlan, Phases: []Phase{
		{Name: "pre-install", Kind: PhaseHooks, Groups: []*plan.Group{{ID: "hook"}}}, {Name: "apply", Kind: PhaseApply, Groups: g}}})
	group := func(phase, id string, status Status) {
		s.Apply(Event{Kind: KindGroup, Phase: phase, Group: id, Status: status})
	}
	next := func(want string) {
		t.Helper()
		if got := s.Next(); want == "" && got != nil || want != "" && (got == nil || got.ID != want) {
			t.Errorf("next is %+v, want %q", got, want)
		}
	}
	next("hook")
	group("pre-install", "hook", Running)
	next("")
	group("pre-install", "hook", Ready)
	next("c:0")
	group("apply", "c:0", Running)
	next("c:2")
	group("apply", "c:2", Running)
	next("")
	group("apply", "c:0", Applied)
	next("c:1")
	group("apply", "c:2", Failed)
	next("")
}

// TestCompactKeepsEachLog expects the log of each hook in a compacted record.
func TestCompactKeepsEachLog(t *testing.T) {
	f := &Feed{}
	f.Publish(Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install"}})
	groups := testGroups(2)
	f.Publish(Event{Kind: KindPlan, Phases: []Phase{{Name: "pre-install", Kind: PhaseHooks, Groups: groups}}})
	for _, g := range groups {
		f.Publish(Event{Kind: KindLog, Phase: "pre-install", Group: g.ID, Object: &g.Objects[0], Message: "Pod/0 main", Lines: []string{"output of " + g.ID}})
	}
	var s State
	for _, e := range compact(f.Events()) {
		s.Apply(e)
	}
	for _, g := range groups {
		if log := s.Find("pre-install", g.ID).Objects[0].Log; len(log) != 1 || log[0] != "output of "+g.ID {
			t.Errorf("the log of %s is %q", g.ID, log)
		}
	}
}
