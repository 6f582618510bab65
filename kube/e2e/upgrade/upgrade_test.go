package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestGroupsChange renames groups, moves an object between groups and removes a group: the
// order is that of the new plan, and nothing is deleted and created again.
func TestGroupsChange(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("one")), rig.ConfigMap("b", rig.Group("two", "one")), rig.ConfigMap("c", rig.Group("two", "one")), rig.ConfigMap("d", rig.Group("three", "two"))), nil))
	uids := func() map[string]string {
		list, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, c := range list.Items {
			out[c.Name] = string(c.UID)
		}
		return out
	}
	before, start := uids(), time.Now()
	// b and c move to the new group first, a to last, and d is removed with group three.
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("b", rig.Group("first"), "v: new"), rig.ConfigMap("c", rig.Group("first"), "v: new"), rig.ConfigMap("a", rig.Group("last", "first"), "v: new")), nil))
	out := r.MustRun(op, err)
	after := uids()
	for _, name := range []string{"a", "b", "c"} {
		if before[name] != after[name] {
			t.Errorf("%s was deleted and created again", name)
		}
	}
	tl := r.Timeline("lockstep").Since(start)
	first, _ := tl.FirstWrite(t, []string{"ConfigMap/a"})
	last, _ := tl.LastWriteIfAny(t, []string{"ConfigMap/b", "ConfigMap/c"})
	gone, _ := tl.FirstDelete(t, []string{"ConfigMap/d"})
	if first.Before(last) || gone.Before(first) || after["d"] != "" {
		t.Errorf("b and c were written until %s, a at %s, d was deleted at %s", rig.Clock(last), rig.Clock(first), rig.Clock(gone))
	}
	if n := len(out.State.Phases); n != 2 || len(out.State.Phases[1].Groups) != 1 {
		t.Errorf("%d phases", n)
	}
}

// TestUpgradeRemovesInReverse upgrades to a chart with fewer groups: removed objects are
// deleted after the new plan, in reverse of the old one (R30).
func TestUpgradeRemovesInReverse(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("fanout", nil)
	out := r.MustRun(r.Upgrade("plain", nil))
	var order []string
	for _, e := range out.Events {
		if e.Kind == event.KindGroup && e.Status == event.Running {
			order = append(order, e.Phase+" "+e.Group)
		}
	}
	groups := rig.ExpectedPlan(t, "fanout", r.Namespace)
	if len(order) != 1+len(groups) || order[0] != "apply plain:(unsequenced)" {
		t.Fatalf("ran %v", order)
	}
	at := map[string]int{}
	for i, o := range order {
		at[strings.TrimPrefix(o, "remove ")] = i
	}
	for id, g := range groups {
		for _, dependency := range g.Dependencies {
			if at[dependency] < at[id] {
				t.Errorf("%s was removed before %s, which waited for it: %v", dependency, id, order)
			}
		}
	}
}

// TestUpgradeOfAFailedFirstInstall takes over the objects of the failed install.
func TestUpgradeOfAFailedFirstInstall(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Run(r.Must(r.Install("fail-image", func(i *kube.Deploy) { i.ReadinessTimeout = 2 * time.Second })), nil)
	r.MustRun(r.Upgrade("fail-image", func(u *kube.Deploy) { u.Values = map[string]any{"image": "example/app:1.0"} }))
	if got, want := r.History(), []string{"1 superseded", "2 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

// TestUpgradeInstalls: upgrade --install installs a missing release; without --install it is refused.
func TestUpgradeInstalls(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	if _, err := r.Upgrade("plain", nil); err == nil || !strings.Contains(err.Error(), "--install") {
		t.Errorf("error %v", err)
	}
	r.MustRun(r.Upgrade("plain", func(u *kube.Deploy) { u.Install = true }))
	r.AssertDeployed("t")
}

// TestReplace reuses the name of a release that was uninstalled with --keep-history, with
// install --replace and upgrade --install, as the next revision.
func TestReplace(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", nil)
	for n, prepare := range []func() (*kube.Operation, error){
		func() (*kube.Operation, error) { return r.Install("plain", func(i *kube.Deploy) { i.Replace = true }) },
		func() (*kube.Operation, error) { return r.Upgrade("plain", func(u *kube.Deploy) { u.Install = true }) },
	} {
		r.MustRun(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace}, KeepHistory: true}))
		if _, err := r.Install("plain", nil); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("error %v", err)
		}
		if out := r.MustRun(prepare()); out.State.Operation.Revision != n+2 {
			t.Errorf("revision %d, want %d", out.State.Operation.Revision, n+2)
		}
	}
	if got, want := r.History(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}
