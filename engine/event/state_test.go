package event

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/plan"
)

func TestActiveTimeExcludesPauses(t *testing.T) { // R25
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	var s State
	for _, e := range []Event{
		{Time: at(0), Kind: KindOperation, Status: Running},
		{Time: at(10), Kind: KindRun, Status: Paused},
		{Time: at(40), Kind: KindRun, Status: Held},
		{Time: at(50), Kind: KindRun, Status: Running},
	} {
		s.Apply(e)
	}
	for now, want := range map[int]time.Duration{50: 10 * time.Second, 55: 15 * time.Second} {
		if got := s.Active(at(now)); got != want {
			t.Errorf("active at %ds is %s, want %s", now, got, want)
		}
	}
	op, undo := Operation{Timeout: 30 * time.Second}, Operation{Timeout: 40 * time.Second}
	edited := s
	edited.Apply(Event{Time: at(60), Kind: KindRun, Status: Replacing})
	edited.Apply(Event{Time: at(60), Kind: KindOperation, Status: Running, Operation: &op})
	if spent, limit := edited.Spent(at(65)); spent != 5*time.Second || limit != op.Timeout {
		t.Errorf("an edited revision has used %s of %s (R46)", spent, limit)
	}
	edited.Apply(Event{Time: at(70), Kind: KindOperation, Status: RollingBack, Operation: &undo})
	if spent, limit := edited.Spent(at(73)); spent != 3*time.Second || limit != undo.Timeout {
		t.Errorf("the rollback has used %s of %s (R33)", spent, limit)
	}
	s.Apply(Event{Time: at(60), Kind: KindOperation, Status: Succeeded})
	if got := s.Active(at(99)); got != 20*time.Second {
		t.Errorf("active after the end is %s, want 20s", got)
	}
}

func TestFeedReadersGetAllEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Feed{}
		const n = 1000
		got := make(chan int)
		for range 3 {
			go func() {
				count := 0
				for e := range f.Reader().All(context.Background()) {
					if count++; e.Seq != uint64(count) {
						t.Errorf("event %d after %d", e.Seq, count-1)
					}
				}
				got <- count
			}()
		}
		for i := range n {
			if f.Publish(Event{Kind: KindWarning}); i%100 == 0 {
				synctest.Wait()
			}
		}
		f.Close()
		f.Publish(Event{Kind: KindWarning})
		for range 3 {
			if c := <-got; c != n {
				t.Errorf("a reader got %d events, want %d", c, n)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, ok := (&Feed{}).Reader().Next(ctx); ok {
			t.Error("Next returned an event of an empty feed")
		}
	})
}

// TestRefusalExpires expects that the refusal of a command is dropped when the run
// changes to another state (R45).
func TestRefusalExpires(t *testing.T) {
	var s State
	s.Apply(Event{Kind: KindCommand, Command: Resume, Status: Refused, Message: "the run is not paused"})
	if s.Answer.Message == "" {
		t.Fatal("no answer")
	}
	s.Apply(Event{Kind: KindRun, Status: Held, Message: "c:a failed"})
	if s.Answer.Message != "" {
		t.Errorf("the refusal is kept after a hold: %q", s.Answer.Message)
	}
}

// TestInProgress names the groups that run, in a stack those of its releases (S6).
func TestInProgress(t *testing.T) {
	var s State
	apply := func(kind Kind, scope, phase, group string, status Status) {
		s.Apply(Event{Kind: kind, Scope: scope, Phase: phase, Group: group, Status: status})
	}
	expect := func(want string) {
		t.Helper()
		if got := s.InProgress(); got != want {
			t.Errorf("in progress: %q, want %q", got, want)
		}
	}
	groups := func(ids ...string) (out []*plan.Group) {
		for _, id := range ids {
			out = append(out, &plan.Group{ID: id})
		}
		return out
	}
	expect("")
	s.Apply(Event{Kind: KindPlan, Phases: []Phase{{Name: "releases", Groups: groups("n/a", "n/b")}}})
	apply(KindGroup, "", "releases", "n/b", Running) // has no state of its own: unchanged, and being checked
	expect("n/b in progress")
	s.Apply(Event{Kind: KindPlan, Scope: "n/a", Phases: []Phase{{Name: "apply", Groups: groups("a:one", "a:two", "a:three")}}})
	apply(KindGroup, "", "releases", "n/a", Running)
	apply(KindGroup, "", "releases", "n/b", Ready)
	expect("")
	apply(KindGroup, "n/a", "apply", "a:one", Running)
	expect("a:one in progress")
	apply(KindGroup, "n/a", "apply", "a:two", Running)
	expect("a:one and a:two in progress")
	apply(KindGroup, "n/a", "apply", "a:three", Running)
	expect("a:one and 2 more groups in progress")
	apply(KindGroup, "n/a", "apply", "a:one", Ready)
	apply(KindGroup, "n/a", "apply", "a:two", Failed)
	expect("a:three in progress")
}

// TestSinceInAWatch: a watch knows since when an object is not ready by the object's own facts, or because it saw it change; before,
// it does not guess.
func TestSinceInAWatch(t *testing.T) {
	opened := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	long, o := opened.Add(-time.Hour), plan.Object{Kind: "Deployment", Name: "a"}
	for name, c := range map[string]struct {
		events []Event
		want   time.Time
	}{
		"by its condition":          {[]Event{{Status: InProgress, Since: long}}, long},
		"unknown":                   {[]Event{{Status: InProgress}}, time.Time{}},
		"unknown, then given up":    {[]Event{{Status: InProgress}, {Status: Failed}}, time.Time{}},
		"seen to become unready":    {[]Event{{Status: Ready}, {Status: InProgress}}, opened.Add(time.Second)},
		"its condition comes later": {[]Event{{Status: InProgress}, {Status: InProgress, Since: long}}, long},
	} {
		var s State
		s.Apply(Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "watch"}})
		s.Apply(Event{Kind: KindPlan, Phases: []Phase{{Name: "apply", Groups: []*plan.Group{{ID: "g", Objects: []plan.Object{o}}}}}})
		for i, e := range c.events {
			e.Kind, e.Phase, e.Group, e.Object, e.Time = KindObject, "apply", "g", &o, opened.Add(time.Duration(i)*time.Second)
			s.Apply(e)
		}
		if got := s.Find("apply", "g").Objects[0].Since; !got.Equal(c.want) {
			t.Errorf("%s: since %s, want %s", name, got, c.want)
		}
	}
}

// TestWarningsOfAnEdit: the warnings about the plan of an edited revision replace those of the revision before; others stay (R46).
func TestWarningsOfAnEdit(t *testing.T) {
	r := newRun("a")
	r.apply(0, Event{Kind: KindWarning, Code: PlanWarning, Message: "the quota has 1 left"})
	r.apply(0, Event{Kind: KindWarning, Message: "the record was written late"})
	r.apply(0, Event{Kind: KindRun, Status: Replacing})
	r.apply(0, Event{Kind: KindOperation, Status: Running, Operation: &r.Operation})
	r.apply(0, Event{Kind: KindWarning, Code: PlanWarning, Message: "the quota has 2 left"})
	if len(r.Warnings) != 2 || r.Warnings[0].Message != "the record was written late" || r.Warnings[1].Message != "the quota has 2 left" {
		t.Errorf("warnings: %+v", r.Warnings)
	}
}
