package stack

import (
	"slices"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/helmfile"
)

// TestApproveRelease (R42a): the name of a release stands for its groups that wait; before the run, groups are named.
func TestApproveRelease(t *testing.T) {
	m := newMember(helmfile.Release{Name: "a", Namespace: "n"}, false)
	s := &Stack{members: []*member{m}, byID: map[string]*member{m.id: m}}
	asks := &plan.Group{ID: "c:two", Name: "two"}
	asks.AskApproval("")
	phases := []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:one", Name: "one"}, asks}}}
	if got, want := unapproved(m.id, phases), []string{"n/a/c:two"}; !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
	m.state.Apply(event.Event{Kind: event.KindPlan, Phases: phases})
	for _, name := range []string{"a", "n/a"} {
		c := event.Command{Name: event.Approve, Group: name}
		if got := s.resolve(c); len(got) != 1 || got[0].Scope != "" || got[0].Group != m.id {
			t.Errorf("approve %s before the group waits: %+v", name, got)
		}
	}
	m.state.Apply(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:two", Status: event.AtBreakpoint, Code: event.Unapproved})
	for _, name := range []string{"a", "n/a"} {
		c := event.Command{Name: event.Approve, Group: name}
		if got := s.resolve(c); len(got) != 1 || got[0].Scope != m.id || got[0].Group != "c:two" {
			t.Errorf("approve %s while the group waits: %+v", name, got)
		}
	}
}
