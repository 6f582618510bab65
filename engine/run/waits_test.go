package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// withWaits sets how the run waits for objects, by name.
func withWaits(groups []*plan.Group, waits map[string]plan.Wait) []*plan.Group {
	for _, g := range groups {
		for _, o := range g.Objects {
			if w, ok := waits[o.Name]; ok {
				g.Waits = append(g.Waits, plan.ObjectWait{Object: o, Wait: w})
			}
		}
	}
	return groups
}

// TestObjectsThatAreNotAwaited: nothing waits for such an object, whatever its status, and it is never ready. A group that
// has nothing else is applied (R22b).
func TestObjectsThatAreNotAwaited(t *testing.T) {
	never := plan.Wait{Never: true}
	fake := newFake(map[string]behaviour{"broken": {failed: "crashed", ready: time.Second}, "slow": {never: true}, "quick": {}, "a": {ready: 2 * time.Second}, "b": {ready: time.Second}})
	groups := withWaits(groupsOf("one: broken slow a", "two < one: b", "three: quick"), map[string]plan.Wait{"broken": never, "slow": never, "quick": never})
	var states *event.State
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groups}, ObjectTimeout: 500 * time.Hour}, fake, func(b *rig) {
		b.at(5 * time.Second)
		states = &event.State{}
		for _, e := range b.feed.Events() {
			states.Apply(e)
		}
	})
	if err != nil {
		t.Errorf("error %v", err)
	}
	want(t, trace, "0.0s c:one running", "0.0s c:three running", "0.0s c:three applied (not waited for)",
		"2.0s c:one ready", "2.0s c:two running", "3.0s c:two ready")
	for g := range states.GroupStates() {
		for _, o := range g.Objects {
			if never := g.WaitOf(o.Object).Never; never && o.Status == event.Ready || never != o.NotAwaited() {
				t.Errorf("%s is %s by %q, although nobody waited for it: %t", o.Object, o.Status, o.ReadyBy, never)
			} else if never && g.Regressed(o) {
				t.Errorf("%s is no longer ready, although nobody waited for it", o.Object)
			}
		}
	}
	if o := states.Find("apply", "c:one").Find(plan.Object{Kind: "Pod", Namespace: "n", Name: "broken"}); o.Status != event.Failed {
		t.Errorf("the failure is not shown: %s", o.Status)
	}
}

// TestTheOutcomeCountsObjectsThatAreNotAwaited (R22b).
func TestTheOutcomeCountsObjectsThatAreNotAwaited(t *testing.T) {
	m := newMachine(Options{}, time.Now())
	groups := withWaits(groupsOf("one: a b"), map[string]plan.Wait{"a": {Never: true}})
	m.startStage(Stage{Phase: event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groups}}, &StageRun{})
	m.units.all[0].status = event.Ready
	m.stage = nil
	m.effects = nil
	if err := m.finish(End{Status: event.Succeeded}); err != nil {
		t.Fatal(err)
	}
	last := m.effects[len(m.effects)-1].(publish).event
	if last.NotAwaited != 1 || last.Outcome != "1 object not waited for" {
		t.Errorf("got %d, %q", last.NotAwaited, last.Outcome)
	}
}

// TestReadinessTimeoutOfOneObject: an object may have more or less time than the others, and the failure says what sets
// it (R22b, R25).
func TestReadinessTimeoutOfOneObject(t *testing.T) {
	fake := newFake(map[string]behaviour{"slow": {ready: 30 * time.Second}, "quick": {ready: 30 * time.Second}, "a": {}})
	groups := withWaits(groupsOf("one: slow a", "two: quick"), map[string]plan.Wait{
		"slow": {Timeout: time.Minute, Source: "helm.sh/readiness-timeout"}, "quick": {Timeout: 5 * time.Second, Source: "--readiness-timeout Pod/quick"}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groups}, ObjectTimeout: 10 * time.Second}, fake, nil)
	if err == nil || !strings.Contains(err.Error(), "not ready; gave up after 5s (--readiness-timeout Pod/quick)") {
		t.Errorf("error %v", err)
	}
	if !slices.Contains(trace, "30.0s c:one ready") {
		t.Errorf("the longer time does not count: %q", trace)
	}
}
