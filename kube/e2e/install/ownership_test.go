package install

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestTakenOver: another release takes over an object. An upgrade and a rollback adopt it again only with --take-ownership
// (R31a). A removal and an uninstall keep it, with a warning.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.TakesOver = []string{"configmaps/b"}
	a, b := rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a"))
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a, b), nil))
	take := func(release string) {
		r.Deploy("plain", rig.UseChart(rig.ChartOf(t, b), func(i *kube.Install) { i.Release, i.TakeOwnership = release, true }))
	}
	take("thief")
	writes := len(r.Writes())
	if _, err := r.Upgrade("plain", rig.UpgradeTo(rig.ChartOf(t, a, b), nil)); err == nil || !strings.Contains(err.Error(), "ConfigMap/b") ||
		!strings.Contains(err.Error(), "release thief") || !strings.Contains(err.Error(), "--take-ownership") {
		t.Errorf("error %v", err)
	}
	if n := len(r.Writes()); n != writes {
		t.Errorf("%d writes by a refused upgrade", n-writes)
	}
	r.MustRun(r.Upgrade("plain", rig.UpgradeTo(rig.ChartOf(t, a, b), func(u *kube.Upgrade) { u.TakeOwnership = true })))
	take("thief2")
	writes = len(r.Writes())
	if _, err := r.Rollback(1); err == nil || !strings.Contains(err.Error(), "ConfigMap/b") || !strings.Contains(err.Error(), "release thief2") {
		t.Errorf("error %v", err)
	}
	if n := len(r.Writes()); n != writes {
		t.Errorf("%d writes by a refused rollback", n-writes)
	}
	rollback := kube.Rollback{Common: r.Common(), Revision: 1, TakeOwnership: true}
	r.MustRun(r.Client.PrepareRollback(t.Context(), rollback))
	take("thief3")
	op, err := r.Upgrade("plain", rig.UpgradeTo(rig.ChartOf(t, a), nil))
	out := r.MustRun(op, err)
	if !slices.ContainsFunc(out.Events, func(e event.Event) bool {
		return e.Object != nil && e.Object.Name == "b" && e.Change == event.Kept && strings.Contains(e.Message, "thief3")
	}) {
		t.Errorf("no event says that the upgrade keeps b")
	}
	r.MustRun(r.Client.PrepareRollback(t.Context(), rollback))
	take("thief4")
	op, err = r.Uninstall()
	out = r.MustRun(op, err)
	if !out.HasWarning("R31", "ConfigMap/b", "thief4") {
		t.Errorf("no warning says that the uninstall keeps b: %v", out.State.Warnings)
	}
	if n := len(op.Phases()[0].Groups); n != 1 {
		t.Errorf("%d groups are planned to be removed, want 1", n)
	}
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"b"}) {
		t.Errorf("remaining: %v, want [b]", got)
	}
}
