package run

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// asking returns groups of which the named ones ask for an approval.
func asking(groups []*plan.Group, names ...string) []*plan.Group {
	for _, g := range groups {
		if slices.Contains(names, g.Name) {
			g.AskApproval("risky")
		}
	}
	return groups
}

func TestApprovals(t *testing.T) { // R42a
	const asked, paused = "0.0s c:b held (waits for approval: risky)", "0.0s run paused (c:b waits for approval: risky)"
	before := []string{"0.0s c:a running", "0.0s c:a ready", asked, paused}
	after := func(at string) []string {
		return []string{at + " c:b waiting", at + " run running", at + " approve accepted", at + " c:b running", at + " c:b ready"}
	}
	tests := []struct {
		name   string
		opts   Options
		groups []string
		steer  func(*rig)
		trace  []string
	}{
		{
			name: "a group starts only once it is approved", groups: []string{"a: x", "b < a: y"},
			steer: func(b *rig) {
				b.at(time.Second)
				b.command(event.Resume, "")
				b.command(event.Step, "c:b")
				b.command(event.Approve, "c:a")
				b.command(event.Approve, "c:b")
			},
			trace: slices.Concat(before, []string{
				"1.0s resume refused (c:b waits for approval: approve it first, or abort the run)",
				"1.0s step refused (c:b waits for approval: approve it first, or abort the run)",
				"1.0s approve refused (c:a has already started)",
			}, after("1.0s")),
		},
		{
			name: "without a group, all that wait are approved", groups: []string{"a: x", "b < a: y"},
			steer: func(b *rig) { b.command(event.Approve, ""); b.command(event.Approve, "") },
			trace: slices.Concat(before, after("0.0s"), []string{"0.0s approve refused (no group waits for an approval; name one to approve it beforehand)"}),
		},
		{
			name: "beforehand by a flag", opts: Options{Approve: []string{"c:b"}}, groups: []string{"a: x", "b < a: y"},
			trace: []string{"0.0s c:a running", "0.0s c:a ready", "0.0s c:b running", "0.0s c:b ready"},
		},
		{
			name: "beforehand by a command, while the run is paused", opts: Options{Paused: true}, groups: []string{"a: x", "b < a: y"},
			steer: func(b *rig) {
				b.command(event.Approve, "c:b")
				b.command(event.Approve, "c:b")
				b.command(event.Resume, "")
			},
			trace: []string{"0.0s run paused (before the first group)", "0.0s approve accepted", "0.0s approve refused (c:b is already approved)",
				"0.0s run running", "0.0s resume accepted", "0.0s c:a running", "0.0s c:a ready", "0.0s c:b running", "0.0s c:b ready"},
		},
		{
			name: "another group can be started by a step meanwhile", groups: []string{"b: y", "c: z"},
			steer: func(b *rig) { b.command(event.Step, ""); b.command(event.Approve, "") },
			trace: slices.Concat([]string{asked, paused, "0.0s step accepted", "0.0s c:c running", "0.0s c:c ready"}, after("0.0s")),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace, err := run(t, tt.opts, Stage{Phase: event.Phase{Groups: asking(groupsOf(tt.groups...), "b")}}, newFake(nil), tt.steer)
			if err != nil {
				t.Error(err)
			}
			want(t, trace, tt.trace...)
		})
	}
}

// TestAProvenApprovalGivesNoOther (R42a): a group that asks for two approvals starts only once both are proven. Commands that prove
// nothing are refused.
func TestAProvenApprovalGivesNoOther(t *testing.T) {
	groups := groupsOf("b: y")
	groups[0].Approve = []plan.Approval{{Of: "chart"}, {Of: "c:b"}}
	opts := Options{Operation: event.Operation{Release: "shop", Approvals: &event.ApprovalsAt{}}}
	trace, err := run(t, opts, Stage{Phase: event.Phase{Groups: groups}}, newFake(nil), func(b *rig) {
		b.command(event.Approve, "c:b")
		for _, a := range groups[0].Approve {
			b.e.Command(event.Command{Name: event.Approve, Group: "c:b", Proven: &a})
			synctest.Wait()
			b.command(event.Resume, "") // refused until both are
		}
	})
	if err != nil {
		t.Error(err)
	}
	const refused = "0.0s resume refused (c:b waits for approval: approve it first, or abort the run)"
	want(t, trace, "0.0s c:b held (waits for approval)", "0.0s run paused (c:b waits for approval)",
		"0.0s approve refused (the approvals of this run are written to the cluster, by somebody else than who started it: lockstep ctl shop approve)",
		"0.0s approve accepted", refused, "0.0s c:b waiting", "0.0s run running", "0.0s approve accepted", "0.0s c:b running", "0.0s c:b ready",
		"0.0s resume refused (the run is not paused)")
}

// TestCommandsBeforeThePlan (R48): a command for a group counts even if it comes before the plan, as an approval does that is in the
// cluster when the run starts (R42a). It is always answered, once.
func TestCommandsBeforeThePlan(t *testing.T) {
	phase := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: asking(groupsOf("a: p", "b < a: q"), "b")}
	inBubble(t, Options{}, func(b *rig) {
		for _, name := range []event.CommandName{event.Break, event.Approve} {
			b.command(name, "c:b")
		}
		b.command(event.Approve, "c:x")
		b.e.Announce(phase)
		r := b.e.Start(Stage{Phase: phase, Cluster: newFake(nil)})
		synctest.Wait()
		b.command(event.Resume, "")
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
		b.e.Finish(End{Status: event.Succeeded})
		want(t, b.trace(), "0.0s breakpoint c:b set", "0.0s break accepted", "0.0s approve accepted", `0.0s approve refused (no group "c:x")`,
			"0.0s c:a running", "0.0s c:a ready", "0.0s c:b held (breakpoint)", "0.0s run paused (breakpoint c:b)", "0.0s c:b waiting",
			"0.0s run running", "0.0s resume accepted", "0.0s c:b running", "0.0s c:b ready")
	})
	inBubble(t, Options{}, func(b *rig) { // there is no plan
		b.command(event.Approve, "c:b")
		b.e.Finish(End{Status: event.Failed})
		want(t, b.trace(), `0.0s approve refused (no group "c:b")`)
	})
}

// TestNothingStartsWithoutItsApproval sends random commands to random plans: no group is ever running before each of its
// approvals was given, and once all are, the run ends.
func TestNothingStartsWithoutItsApproval(t *testing.T) { // R42a
	names := []event.CommandName{event.Resume, event.Step, event.RunTo, event.Break, event.Disable, event.Pause, event.Approve}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var lines []string
		for n := range 6 {
			line := string(rune('a' + n))
			for before := range n {
				if random.IntN(3) == 0 {
					line += " < " + string(rune('a'+before))
					break
				}
			}
			lines = append(lines, line+": "+string(rune('p'+n)))
		}
		groups := groupsOf(lines...)
		for _, g := range groups {
			if random.IntN(2) == 0 {
				g.AskApproval("")
			}
			if random.IntN(4) == 0 {
				g.Approve = append(g.Approve, plan.Approval{Of: "chart"})
			}
		}
		inBubble(t, Options{}, func(b *rig) {
			p := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groups}
			b.e.Announce(p)
			r := b.e.Start(Stage{Phase: p, Cluster: newFake(nil)})
			for range 30 {
				b.command(names[random.IntN(len(names))], []string{"", "c:" + string(rune('a'+random.IntN(6)))}[random.IntN(2)])
			}
			for range 20 { // now everything is let through
				b.command(event.Approve, "")
				b.command(event.Resume, "")
			}
			if err := r.Wait(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			if err := b.e.Finish(End{Status: event.Succeeded}); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			checkSavedPlan(t, fmt.Sprint("seed ", seed), groups, b.feed.Events())
		})
	}
}

// checkSavedPlan checks that every group started after its approvals.
func checkSavedPlan(t *testing.T, about string, groups []*plan.Group, events []event.Event) {
	t.Helper()
	given := map[string]bool{}
	for _, e := range events {
		switch {
		case e.Kind == event.KindApproval:
			given[e.Approval.Of] = true
		case e.Kind == event.KindGroup && e.Status == event.Running:
			g := groups[slices.IndexFunc(groups, func(g *plan.Group) bool { return g.ID == e.Group })]
			for _, a := range g.Approve {
				if !given[a.Of] {
					t.Errorf("%s: %s started without the approval of %s", about, g.ID, a.Of)
				}
			}
		}
	}
}

// TestApprovalsAreKept kills the process before and after an approval: the next one asks again only for what was not
// approved (R42a, S13).
func TestApprovalsAreKept(t *testing.T) {
	phase := keptPhase(nil, []string{"a"}, []string{"b"})
	phase.Groups = asking(phase.Groups, "b")
	newProcess := func(kept *Steering) *keptRun {
		x := &keptRun{keptWorld: &keptWorld{applied: map[string]bool{}, ready: map[string]bool{}, slow: map[string]bool{}, bad: map[string]bool{}, writes: map[string]int{}},
			kept: kept, phase: phase}
		x.start(Options{Author: "ann on box"})
		return x
	}
	first := newProcess(nil)
	if first.over || !slices.Equal(statuses(first.m), []event.Status{event.Ready, event.AtBreakpoint, event.Waiting}) {
		t.Fatalf("the first process did not ask: %v", statuses(first.m))
	}
	if len(first.kept.Asked) != 1 || !first.kept.Asked[0].Since.Equal(first.m.now) {
		t.Fatalf("the first process has kept that it asked %v", first.kept.Asked)
	}
	asked := first.m.now.Add(-time.Minute)
	first.kept.Asked[0].Since = asked
	second := newProcess(first.kept)
	if second.m.steering.reported != event.Paused || second.over {
		t.Fatalf("the second process did not ask: %v", statuses(second.m))
	}
	if since := second.m.askedSince(); !since.Equal(asked) {
		t.Errorf("the second process waits since %s, the first since %s", since, asked)
	}
	second.killAt = second.keeps + 1
	if !second.handle(commanded{event.Command{Name: event.Approve, Group: "b"}}) {
		t.Fatal("the approval was not kept")
	}
	third := newProcess(second.kept)
	if !third.over {
		t.Errorf("the third process asked again: %v", statuses(third.m))
	}
	if by := third.m.approved[0].By; !strings.HasPrefix(by, "ann on box") {
		t.Errorf("approved by %q", by)
	}
}

func statuses(m *machine) (all []event.Status) {
	for _, u := range m.units.all {
		all = append(all, u.status)
	}
	return all
}
