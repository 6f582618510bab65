package stack

import (
	"slices"
	"testing"
	"time"

	"lockstep/kube"
)

// TestPrune removes releases from the file: releases of the stack are uninstalled, the newest first (S9), except those that
// are only deselected.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	a, keep, other := release{Name: "a", Dir: chart(t, "a")}, release{Name: "keep", Dir: chart(t, "keep")}, release{Name: "other", Dir: chart(t, "other")}
	old := release{Name: "old", Dir: chart(t, "old"), Needs: []string{"a"}}
	newer, newest := release{Name: "newer", Dir: chart(t, "newer"), Needs: []string{"a", "old"}}, release{Name: "zero", Dir: chart(t, "zero")}
	named := func(o *kube.StackOptions) { o.Name = "shop-" + b.Namespace }
	up := func(change func(*kube.StackOptions), releases ...release) {
		s, err := b.prepare(false, change, releases...)
		if state, _ := b.run(s, err, nil); state.Exit != 0 {
			t.Fatalf("exit %d: %s", state.Exit, state.Reason())
		}
	}
	up(named, a, keep, old)
	up(named, a, keep, old, newer)
	up(named, a, keep, old, newer, newest)
	up(func(o *kube.StackOptions) { o.Name = "other-" + b.Namespace }, other)

	start, order := time.Now(), []string{"zero", "newer", "old"} // not the order of names
	prune := func(o *kube.StackOptions) {
		named(o)
		o.Prune = true
		o.File.Others = helmfileOf(b.Namespace, keep).Releases // as with -l
	}
	planned, err := b.prepare(false, prune, a)
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, g := range planned.Phases()[1].Groups {
		groups = append(groups, g.Name)
	}
	planned.Close()
	if !slices.Equal(groups, order) {
		t.Errorf("planned to remove %v", groups)
	}
	up(prune, a)
	if got := b.firstWrites(start, "delete"); !slices.Equal(got, order) {
		t.Errorf("removed %v", got)
	}
	want := []string{"a 1 deployed", "keep 1 deployed", "old none", "newer none", "zero none", "other 1 deployed"}
	if got := b.history("a", "keep", "old", "newer", "zero", "other"); !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}
