package kube

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
)

// TestTakenOver has another release take an object over: an upgrade refuses to
// take it back unless asked to, a removal and an uninstallation leave it, and
// all say so.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := configMap("a", group("a")), configMap("b", group("b", "a"))
	r.deploy("plain", use(one(t, a, b), nil))
	take := func(release string) {
		r.deploy("plain", use(one(t, b), func(i *Install) { i.Release, i.TakeOwnership = release, true }))
	}
	take("thief")
	writes := len(r.writes())
	if _, err := r.upgrade("plain", useUp(one(t, a, b), nil)); err == nil || !strings.Contains(err.Error(), "ConfigMap/b") ||
		!strings.Contains(err.Error(), "release thief") || !strings.Contains(err.Error(), "--take-ownership") {
		t.Errorf("error %v", err)
	}
	if n := len(r.writes()); n != writes {
		t.Errorf("%d writes by an upgrade that is refused", n-writes)
	}
	r.mustRun(r.upgrade("plain", useUp(one(t, a, b), func(u *Upgrade) { u.TakeOwnership = true })))
	take("thief2")
	op, err := r.rollback(1)
	if out := r.mustRun(op, err); !out.says("R32", "ConfigMap/b", "thief2") {
		t.Errorf("the rollback does not say that it takes b back: %v", out.state.Warnings)
	}
	take("thief3")
	op, err = r.upgrade("plain", useUp(one(t, a), nil))
	out := r.mustRun(op, err)
	if !slices.ContainsFunc(out.events, func(e event.Event) bool {
		return e.Object != nil && e.Object.Name == "b" && e.Change == event.Kept && strings.Contains(e.Message, "thief3")
	}) {
		t.Errorf("the upgrade does not say that it leaves b alone")
	}
	r.mustRun(r.rollback(1))
	take("thief4")
	op, err = r.uninstall()
	out = r.mustRun(op, err)
	if !out.says("R31", "ConfigMap/b", "thief4") {
		t.Errorf("the uninstallation does not say that b stays: %v", out.state.Warnings)
	}
	if n := len(op.Phases()[0].Groups); n != 1 {
		t.Errorf("%d groups are planned to be removed, want 1", n)
	}
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"b"}) {
		t.Errorf("left are %v, want [b]", got)
	}
}
