package forecast

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// group returns a group with one object.
func group(id string, after ...string) *plan.Group {
	return &plan.Group{ID: id, After: after, Objects: []plan.Object{{Kind: "Deployment", Namespace: "n", Name: id}}}
}

// testPhases returns a hook phase and an apply phase in which c depends on a and b, and d on a.
func testPhases() []event.Phase {
	return []event.Phase{
		{Name: "pre-install", Kind: event.PhaseHooks, Groups: []*plan.Group{group("hook")}},
		{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{group("a"), group("b"), group("c", "a", "b"), group("d", "a")}},
	}
}

// groupEvents returns the events of a group with one object: its request is sent at from and answered at answered,
// and it becomes ready at ready.
func groupEvents(phase, id string, from, answered, ready float64) []event.Event {
	o := &plan.Object{Kind: "Deployment", Namespace: "n", Name: id}
	return []event.Event{
		{Time: at(from), Kind: event.KindGroup, Phase: phase, Group: id, Status: event.Running},
		{Time: at(from), Kind: event.KindObject, Phase: phase, Group: id, Object: o, Status: event.Applying},
		{Time: at(answered), Kind: event.KindObject, Phase: phase, Group: id, Object: o, Status: event.Applied, Change: event.Created},
		{Time: at(ready), Kind: event.KindObject, Phase: phase, Group: id, Object: o, Status: event.Ready},
		{Time: at(ready), Kind: event.KindGroup, Phase: phase, Group: id, Status: event.Ready},
	}
}

// record returns the events of a run of testPhases: the hook takes 1s, a 10s, b 7s, c 5s and d 2s.
// Each request takes half a second.
func record() []event.Event {
	events := []event.Event{
		{Time: at(0), Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop"}},
		{Time: at(0), Kind: event.KindPlan, Phases: testPhases()},
	}
	events = append(events, groupEvents("pre-install", "hook", 0, 0.5, 1)...)
	events = append(events, groupEvents("apply", "b", 1, 1.5, 8)...)
	events = append(events, groupEvents("apply", "a", 1, 1.5, 11)...)
	events = append(events, groupEvents("apply", "d", 11, 11.5, 13)...)
	events = append(events, groupEvents("apply", "c", 11, 11.5, 16)...)
	return append(events, event.Event{Time: at(16), Kind: event.KindOperation, Status: event.Succeeded})
}

func stateOf(events []event.Event) *event.State {
	s := &event.State{}
	for _, e := range events {
		s.Apply(e)
	}
	return s
}

func TestTotalDuration(t *testing.T) { // R14
	s := stateOf(record())
	if got := TotalDuration(s, Took); got != seconds(16) {
		t.Errorf("actual durations: %s, want 16s", got)
	}
	waits := Waits(s)
	got := TotalDuration(s, func(g *event.GroupState) time.Duration { return waits[g.Unit()] })
	if want := seconds(0.5 + 9.5 + 4.5); got != want {
		t.Errorf("only waits: %s, want %s", got, want)
	}
}

// TestPausedRelease: what a release of a stack was paused or held is not what it took; the groups of a release go on (R25).
func TestPausedRelease(t *testing.T) {
	paused := func(release string, from, to float64) []event.Event {
		return []event.Event{
			{Time: at(from), Scope: release, Kind: event.KindRun, Status: event.Paused},
			{Time: at(to), Scope: release, Kind: event.KindRun, Status: event.Running},
		}
	}
	s := &event.State{}
	apply := func(events ...event.Event) {
		for _, e := range events {
			s.Apply(e)
		}
	}
	apply(event.Event{Time: at(0), Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up"}},
		event.Event{Time: at(0), Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: []*plan.Group{group("a"), group("b", "a")}}}})
	a, b := groupEvents("releases", "a", 0, 0, 10), groupEvents("releases", "b", 10, 10, 90)
	apply(a...)
	apply(b[:3]...)
	apply(event.Event{Time: at(10), Scope: "b", Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install"}})
	apply(paused("b", 15, 75)...)
	apply(b[3:]...)
	if got := Took(s.Find("releases", "b")); got != 20*time.Second {
		t.Errorf("b took %s, want 20s", got)
	}
	if path := Path(s); len(path) != 2 || path[0].Took != 10*time.Second || path[1].Took != 20*time.Second {
		t.Errorf("path %+v", path)
	}
}

func TestBottleneck(t *testing.T) {
	// Without a, c still waits for b, so only 3s of a's 10s are saved. No group depends on the hook,
	// c or d.
	if got, saved := Bottleneck(stateOf(record())); idOf(got) != "a" || saved != seconds(3) {
		t.Errorf("got %q saving %s, want \"a\" saving 3s", idOf(got), saved)
	}
	single := []event.Event{{Time: at(0), Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Groups: []*plan.Group{group("a")}}}}}
	if got, _ := Bottleneck(stateOf(append(single, groupEvents("apply", "a", 0, 1, 2)...))); got != nil {
		t.Errorf("got %q, want none: no group depends on it", idOf(got))
	}
}

// idOf returns the id of a group, "" for nil.
func idOf(g *event.GroupState) string {
	if g == nil {
		return ""
	}
	return g.ID
}

func TestTotalDurationOfACycle(t *testing.T) {
	s := stateOf([]event.Event{{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Groups: []*plan.Group{group("a", "b"), group("b", "a"), group("c", "c")}}}}})
	if got := TotalDuration(s, func(*event.GroupState) time.Duration { return time.Second }); got != 2*time.Second {
		t.Errorf("duration of a cycle is %s, want 2s", got)
	}
}

func TestWaitsOfARetry(t *testing.T) {
	o := &plan.Object{Kind: "Job", Namespace: "n", Name: "a"}
	events := append([]event.Event{{Time: at(0), Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Groups: []*plan.Group{group("a")}}}}},
		event.Event{Time: at(0), Kind: event.KindGroup, Phase: "apply", Group: "a", Status: event.Running},
		event.Event{Time: at(0), Kind: event.KindObject, Phase: "apply", Group: "a", Object: o, Status: event.Applied, Change: event.Created},
		event.Event{Time: at(60), Kind: event.KindObject, Phase: "apply", Group: "a", Object: o, Status: event.Failed},
		event.Event{Time: at(60), Kind: event.KindGroup, Phase: "apply", Group: "a", Status: event.Failed},
	)
	if got := Waits(stateOf(events))[event.Unit{Phase: "apply", Group: "a"}]; got != seconds(60) {
		t.Errorf("failed: waited %s, want 60s", got)
	}
	if got := Waits(stateOf(append(events, groupEvents("apply", "a", 70, 71, 75)...)))[event.Unit{Phase: "apply", Group: "a"}]; got != seconds(4) {
		t.Errorf("retried: waited %s, want 4s", got)
	}
}

// randomRun returns the state after a run of the given number of groups, with random durations. Each depends on
// up to three earlier ones; all start at 0, because only the durations matter.
func randomRun(rnd *rand.Rand, groups int) *event.State {
	p := event.Phase{Name: "apply", Kind: event.PhaseApply}
	events := []event.Event{{Time: at(0), Kind: event.KindPlan}}
	for n := range groups {
		id := fmt.Sprint("g", n)
		var after []string
		for range rnd.IntN(4) {
			if n > 0 {
				after = append(after, p.Groups[rnd.IntN(n)].ID)
			}
		}
		p.Groups = append(p.Groups, group(id, after...))
		events = append(events, groupEvents(p.Name, id, 0, 0, float64(rnd.IntN(10)))...)
	}
	events[0].Phases = []event.Phase{p}
	return stateOf(events)
}

// TestBottleneckIsOnCriticalPath compares Bottleneck, which tries only the groups on a critical path,
// with trying all groups.
func TestBottleneckIsOnCriticalPath(t *testing.T) {
	for seed := range uint64(300) {
		s := randomRun(rand.New(rand.NewPCG(seed, 1)), 1+int(seed%30))
		dependencies := map[string]bool{}
		for _, g := range s.Groups() {
			for _, id := range g.After {
				dependencies[id] = true
			}
		}
		var want string
		var most time.Duration
		for _, g := range s.Phases[0].Groups {
			without := TotalDuration(s, func(o *event.GroupState) time.Duration {
				if o == g {
					return 0
				}
				return Took(o)
			})
			if less := TotalDuration(s, Took) - without; dependencies[g.ID] && less > most {
				want, most = g.ID, less
			}
		}
		got, saved := Bottleneck(s)
		if idOf(got) != want || saved != most {
			t.Fatalf("seed %d: got %q saving %s, want %q saving %s", seed, idOf(got), saved, want, most)
		}
	}
}

// BenchmarkBottleneck measures Bottleneck by number of groups.
func BenchmarkBottleneck(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := randomRun(rand.New(rand.NewPCG(1, 1)), n)
			b.ReportAllocs()
			for b.Loop() {
				Bottleneck(s)
			}
		})
	}
}
