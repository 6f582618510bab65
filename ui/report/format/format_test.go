package format

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestFold expects the ends of a long path and the number of groups between them.
func TestFold(t *testing.T) {
	var lines []string
	for n := range 30 {
		lines = append(lines, fmt.Sprintf("  c:g%d", n))
	}
	got := Fold(lines, "  … %s")
	if want := slices.Concat(lines[:8], []string{"  … 14 groups"}, lines[22:]); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Fold(lines[:16], "  … %s"); !slices.Equal(got, lines[:16]) {
		t.Errorf("a path of 16: %q", got)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 4120 * time.Millisecond: "4.1s", 59940 * time.Millisecond: "59.9s", 59960 * time.Millisecond: "1m00s",
		80 * time.Second: "1m20s", 112 * time.Second: "1m52s", time.Hour - 100*time.Millisecond: "1h00m", 2*time.Hour + 3*time.Minute + 20*time.Second: "2h03m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestAbbreviate(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for n, want := range map[int]string{0: "", 1: "a", 5: "a, b, c, d, e", 7: "a, b, c, d, e and 2 more"} {
		if got := Abbreviate(names[:n]); got != want {
			t.Errorf("%d names: got %q, want %q", n, got, want)
		}
	}
}

// TestWarning expects the object in front of the message, unless the message names it already, and the rule behind it.
func TestWarning(t *testing.T) {
	web := &plan.Object{Kind: "Service", Name: "web"}
	for _, c := range []struct {
		rule    string
		object  *plan.Object
		message string
		want    string
	}{
		{"", nil, "not a list", "not a list"},
		{"R2", web, "not a list", "Service/web: not a list (R2)"},
		{"R2", web, "web: not a list", "web: not a list (R2)"},
	} {
		if got := Warning(c.rule, c.object, c.message); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestProblemsOfObjectsThatAreNotAwaited: they are none of their group (R22b).
func TestProblemsOfObjectsThatAreNotAwaited(t *testing.T) {
	web := &event.ObjectState{Object: plan.Object{Kind: "Deployment", Name: "web"}, Status: event.Ready}
	for _, debug := range []*event.ObjectState{{Status: event.InProgress}, {Status: event.Failed, Cause: "crashed"}, {Status: event.Applied}} {
		debug.Object, debug.ReadyBy = plan.Object{Kind: "Deployment", Name: "debug"}, event.NotAwaited
		for _, g := range []*event.GroupState{
			{Group: &plan.Group{}, Status: event.Ready, Objects: []*event.ObjectState{web, debug}, Done: 1},
			{Group: &plan.Group{}, Status: event.Applied, Objects: []*event.ObjectState{debug}},
		} {
			if !GroupOK(g) || Problem(g) != "" || GroupStatus(g) != g.Status {
				t.Errorf("%s with %s: %s, %q", g.Status, debug.Status, GroupStatus(g), Problem(g))
			}
		}
	}
}

// TestProblemOfUncheckedGroups expects the number of objects that are ready or, in a removal, gone at the end.
func TestProblemOfUncheckedGroups(t *testing.T) {
	for status, want := range map[event.Status]string{
		event.InProgress: "not required to be ready; 1 of 2 objects ready at the end",
		event.Deleting:   "not required to be ready; 1 of 2 objects gone at the end",
	} {
		g := &event.GroupState{Status: event.Applied, Done: 1, Objects: []*event.ObjectState{{Status: event.Ready}, {Status: status}}}
		if got := Problem(g); got != want {
			t.Errorf("an object is %s: %q, want %q", status, got, want)
		}
	}
}
