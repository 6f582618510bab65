package stack

import (
	"slices"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube/e2e/rig"
)

// TestApprovalsOfReleases (R42a, S6): a release whose entry in the file asks for an approval, and a group of another release,
// pause the whole stack. Nothing of them is written before, by the audit log. Unchanged releases ask for nothing.
func TestApprovalsOfReleases(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	group := release{Name: "c", Needs: []string{"b"}, Dir: rig.MakeDir(t, rig.Files{"templates/all.yaml": rig.ConfigMap("c", map[string]string{"lockstep/approve": "switches over"})})}
	releases := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}, Approve: "a new database"}, group}
	s, err := b.prepare(false, nil, releases...)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	written := map[string][]string{"b": {"a"}, "c": {"a", "b"}} // before the approval of b and c
	asked := []string{}
	resume := func(scope string) {
		if got := b.firstWrites(start, "create", "patch"); !slices.Equal(got, written[scope]) {
			t.Errorf("before the approval of %s: %v", scope, got)
		}
		asked = append(asked, scope)
		s.Command(event.Command{Name: event.Resume, ID: "refused"})
		s.Command(event.Command{Name: event.Approve, By: "ann"})
	}
	state, all := b.run(s, nil, func(e event.Event) {
		switch {
		case e.Kind != event.KindGroup || e.Code != event.Unapproved:
		case e.Scope == "":
			resume("b")
		default:
			resume("c")
		}
	})
	refused := 0
	for _, e := range all {
		if e.Kind == event.KindCommand && e.Answers == "refused" && e.Status == event.Refused {
			refused++
		}
	}
	if state.Exit != 0 || !slices.Equal(asked, []string{"b", "c"}) || refused != 2 {
		t.Errorf("exit %d, asked %v, %d of 2 attempts to resume refused", state.Exit, asked, refused)
	}
	if got := state.Scopes[b.id("c")].Approvals; len(got) != 1 || got[0].By != "ann" || got[0].Reason != "switches over" {
		t.Errorf("approvals of c: %+v", got)
	}
	b.mustUp(releases...) // nothing changes, so nobody is asked
}
