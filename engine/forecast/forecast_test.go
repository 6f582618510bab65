package forecast

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockstep/engine/event"
)

// history holds the durations of the groups in the last run, by phase and id.
var history = map[string]map[string]time.Duration{
	"pre-install": {"hook": seconds(1)},
	"apply":       {"a": seconds(10), "b": seconds(7), "c": seconds(5), "d": seconds(2)},
}

// startedRun returns the first events of a run of testPhases whose groups have a history.
func startedRun() []event.Event {
	phases := testPhases()
	for n, p := range phases {
		phases[n].Usual = history[p.Name]
	}
	return []event.Event{
		{Time: at(0), Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "shop"}},
		{Time: at(0), Kind: event.KindPlan, Phases: phases},
	}
}

func TestForecast(t *testing.T) {
	hook := groupEvents("pre-install", "hook", 0, 0.5, 1)
	both := append(append(hook[:len(hook):len(hook)], groupEvents("apply", "a", 1, 1.5, 11)[:3]...), groupEvents("apply", "b", 1, 1.5, 4)...)
	done := append(both[:len(both):len(both)], groupEvents("apply", "a", 1, 1.5, 11)[3:]...)
	for name, c := range map[string]struct {
		events []event.Event
		now    float64
		want   string // "" for no forecast
		slow   string
	}{
		"before the first group":                     {nil, 0, "about 16s left", ""},
		"during a group":                             {hook[:2], 0.4, "about 16s left", ""},
		"one of two groups ready early":              {both, 5, "about 11s left", ""},
		"a little slower than before":                {both, 15, "about 5s left", ""},
		"much slower than before":                    {both, 16.5, "about 5s left", "slower than last time: 16s so far, last time 10s"},
		"one slower than last time, one not started": {append(done, groupEvents("apply", "c", 11, 11.5, 16)[:2]...), 18, "about 2s left", ""}, // 2s over is within slowBy
		"failing":       {append(both, event.Event{Kind: event.KindObject, Phase: "apply", Group: "a", Object: &group("a").Objects[0], Status: event.Failed}), 5, "", ""},
		"paused":        {append(both, event.Event{Kind: event.KindRun, Status: event.Paused}), 5, "", ""},
		"no group left": {append(append(done, groupEvents("apply", "c", 11, 11.5, 16)...), groupEvents("apply", "d", 11, 11.5, 13)...), 16, "", ""},
	} {
		f, ok := Estimate(stateOf(append(startedRun(), c.events...)), at(c.now))
		got, slow := "", ""
		if ok {
			got = f.String()
		}
		if len(f.Slow) > 0 {
			slow = f.Slow[0].String()
		}
		if got != c.want || slow != c.slow {
			t.Errorf("%s: %q, %q, want %q, %q", name, got, slow, c.want, c.slow)
		}
	}
	if _, ok := Estimate(stateOf(record()[:4]), at(1)); ok || HasHistory(stateOf(record())) {
		t.Error("Estimate or HasHistory found a history in a run without one")
	}
}

// TestNoForecastIfOnlyAnUnknownGroupTakesTime: there is no estimate while a group without a history is running and the
// groups with one have no time left.
func TestNoForecastIfOnlyAnUnknownGroupTakesTime(t *testing.T) {
	for history, want := range map[time.Duration]string{10 * time.Millisecond: "", seconds(5): "about 10s left"} {
		events := startedRun()
		events[1].Phases[0].Usual = nil // the hook is new
		events[1].Phases[1].Usual = map[string]time.Duration{"a": history, "b": history, "c": history, "d": history}
		f, ok := Estimate(stateOf(append(events, groupEvents("pre-install", "hook", 0, 0.5, 1)[:2]...)), at(20))
		if got := f.String(); ok != (want != "") || ok && got != want {
			t.Errorf("history %s: forecast %v, %q, want %q", history, ok, got, want)
		}
	}
}

// TestHistorySurvivesANewPlan: a phase that is announced again keeps the history of its groups.
func TestHistorySurvivesANewPlan(t *testing.T) {
	s := stateOf(append(startedRun(), event.Event{Kind: event.KindPlan, Phases: testPhases()[1:]}))
	if f, ok := Estimate(s, at(0)); !ok || f.Left != seconds(16) {
		t.Errorf("%s left, ok %v; want 16s, true", f.Left, ok)
	}
}

// TestLongestDelayFirst: slow groups are ordered by their delay.
func TestLongestDelayFirst(t *testing.T) {
	s := stateOf(append(startedRun(), append(groupEvents("apply", "a", 0, 1, 2)[:3], groupEvents("apply", "b", 0, 1, 2)[:3]...)...))
	f, _ := Estimate(s, at(30))
	var ids []string
	for _, slow := range f.Slow {
		ids = append(ids, slow.Group.ID)
	}
	if !slices.Equal(ids, []string{"b", "a"}) || f.Left != seconds(6) {
		t.Errorf("slow groups %v, %s left; want [b a], 6s left", ids, f.Left)
	}
	if got, want := (Forecast{}).String(), "should finish any moment"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestBarsOmitPauses: the time between the steps of a path, such as a pause of an hour, takes no space.
func TestBarsOmitPauses(t *testing.T) {
	path := []Step{
		{Start: 0, Took: 4 * time.Second, Waited: 2 * time.Second},
		{Start: time.Hour, Took: 4 * time.Second, Waited: 4 * time.Second},
		{Start: 2 * time.Hour, Took: 0},
	}
	want := []Bar{{From: 0, Requests: 5, Waited: 5}, {From: 10, Requests: 0, Waited: 10}, {From: 19, Requests: 1}}
	if got := Bars(path, 20); !slices.Equal(got, want) {
		t.Errorf("bars are %v, want %v", got, want)
	}
}

// TestSlowGroupsNextTime: a caller that calls again only after next finds each slow group at the same
// event as one that calls after every event.
func TestSlowGroupsNextTime(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		p := event.Phase{Name: "apply", Kind: event.PhaseApply, Usual: map[string]time.Duration{}}
		events := []event.Event{{Time: at(0), Kind: event.KindOperation, Status: event.Running}, {Time: at(0), Kind: event.KindPlan}}
		for n := range 1 + rnd.IntN(12) {
			id := fmt.Sprint("g", n)
			p.Groups = append(p.Groups, group(id))
			if rnd.IntN(5) > 0 {
				p.Usual[id] = seconds(float64(rnd.IntN(40)))
			}
			from := float64(rnd.IntN(60))
			events = append(events, groupEvents("apply", id, from, from, from+float64(rnd.IntN(60)))...)
		}
		pause := float64(rnd.IntN(60))
		events = append(events, event.Event{Time: at(pause), Kind: event.KindRun, Status: event.Paused},
			event.Event{Time: at(pause + float64(rnd.IntN(9))), Kind: event.KindRun, Status: event.Running})
		events[1].Phases = []event.Phase{p}
		slices.SortStableFunc(events, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
		var s event.State
		var next time.Time
		reported := map[string]bool{}
		for _, e := range events {
			s.Apply(e)
			if e.Time.After(next) {
				var late []Timing
				late, next = SlowGroups(&s, e.Time)
				for _, l := range late {
					reported[l.Group.ID] = true
				}
			}
			late, _ := SlowGroups(&s, e.Time)
			for _, l := range late {
				if !reported[l.Group.ID] {
					t.Fatalf("seed %d: %s is slow at %s, but next was later", seed, l.Group.ID, e.Time.Sub(start))
				}
			}
		}
	}
}

// TestDifference: two durations and their difference add up as they are shown.
func TestDifference(t *testing.T) {
	for _, c := range []struct{ took, last, want float64 }{{0.14, 0.26, -0.2}, {0.06, 0.24, -0.1}, {0.26, 0.14, 0.2}, {12.34, 9.96, 2.3}} {
		if got := (Timing{Took: seconds(c.took), Last: seconds(c.last)}).Difference(); got != seconds(c.want) {
			t.Errorf("%.1f s and %.1f s differ by %v, want %g s", c.took, c.last, got, c.want)
		}
	}
}

// TestDiffer: durations are about the same if they differ by at most 0.1 s or 10 %.
func TestDiffer(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		want bool
	}{
		{0.5, 0.1, true}, {0.3, 0.1, true}, {0.2, 0.1, false}, {4.1, 4, false}, {4.4, 4, false}, {4.5, 4, true}, {60, 66, false}, {60, 67, true}, {1, 1, false},
	} {
		if Differ(seconds(c.a), seconds(c.b)) != c.want || Differ(seconds(c.b), seconds(c.a)) != c.want {
			t.Errorf("%gs and %gs differ: want %t", c.a, c.b, c.want)
		}
	}
}
