package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
)

// TestGroupsChange renames groups, moves an object between groups and removes a
// group: the new plan's order holds, nothing is deleted and made again.
func TestGroupsChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("a", group("one")), configMap("b", group("two", "one")), configMap("c", group("two", "one")), configMap("d", group("three", "two"))), nil))
	uids := func() map[string]string {
		list, err := r.cluster.CoreV1().ConfigMaps(r.namespace).List(t.Context(), metav1.ListOptions{})
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
	// one is first now, two is last; c moves from two to first; three and d go.
	op, err := r.upgrade("plain", useUp(one(t, configMap("b", group("first"), "v: new"), configMap("c", group("first"), "v: new"), configMap("a", group("last", "first"), "v: new")), nil))
	out := r.mustRun(op, err)
	after := uids()
	for _, name := range []string{"a", "b", "c"} {
		if before[name] != after[name] {
			t.Errorf("%s was deleted and made again", name)
		}
	}
	tl := r.timeline("lockstep").since(start)
	first, _ := tl.firstWrite(t, []string{"ConfigMap/a"})
	last, _ := tl.lastWriteIfAny(t, []string{"ConfigMap/b", "ConfigMap/c"})
	gone, _ := tl.firstDelete(t, []string{"ConfigMap/d"})
	if first.Before(last) || gone.Before(first) || after["d"] != "" {
		t.Errorf("b and c were written until %s, a at %s, d was deleted at %s", clock(last), clock(first), clock(gone))
	}
	if n := len(out.state.Phases); n != 2 || len(out.state.Phases[1].Groups) != 1 {
		t.Errorf("%d phases", n)
	}
}

// TestUpgradeRemovesInReverse upgrades to a chart that lacks groups: what is
// gone from it is deleted after the new plan, in reverse of the old one (R30).
func TestUpgradeRemovesInReverse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("fanout", nil)
	op, err := r.upgrade("plain", nil)
	out := r.mustRun(op, err)
	var order []string
	for _, e := range out.events {
		if e.Kind == event.KindGroup && e.Status == event.Running {
			order = append(order, e.Phase+" "+e.Group)
		}
	}
	groups := oracle(t, "fanout", r.namespace)
	if len(order) != 1+len(groups) || order[0] != "apply plain:(unsequenced)" {
		t.Fatalf("ran %v", order)
	}
	at := map[string]int{}
	for i, o := range order {
		at[strings.TrimPrefix(o, "remove ")] = i
	}
	for id, g := range groups {
		for _, gate := range g.gates {
			if at[gate] < at[id] {
				t.Errorf("%s was removed before %s, which waited for it: %v", gate, id, order)
			}
		}
	}
}

// TestUpgradeOfAFailedFirstInstall takes over what is there.
func TestUpgradeOfAFailedFirstInstall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("fail-image", func(i *Install) { i.ReadinessTimeout = 2 * time.Second })
	if err != nil {
		t.Fatal(err)
	}
	r.run(op, nil)
	op, err = r.upgrade("fail-image", func(u *Upgrade) { u.Values = map[string]any{"image": "example/app:1.0"} })
	r.mustRun(op, err)
	if got, want := r.history(), []string{"1 superseded", "2 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

// TestUpgradeInstalls installs where there is nothing to upgrade.
func TestUpgradeInstalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.upgrade("plain", nil); err == nil || !strings.Contains(err.Error(), "--install") {
		t.Errorf("error %v", err)
	}
	op, err := r.upgrade("plain", func(u *Upgrade) { u.Install = true })
	r.mustRun(op, err)
	r.assertDeployed("t")
}

// TestReplace takes the name of what was uninstalled with its history kept, by
// install --replace and by upgrade --install, as the next revision.
func TestReplace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", nil)
	for n, prepare := range []func() (*Operation, error){
		func() (*Operation, error) { return r.install("plain", func(i *Install) { i.Replace = true }) },
		func() (*Operation, error) { return r.upgrade("plain", func(u *Upgrade) { u.Install = true }) },
	} {
		r.mustRun(r.client.PrepareUninstall(t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace}, KeepHistory: true}))
		if _, err := r.install("plain", nil); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("error %v", err)
		}
		op, err := prepare()
		if out := r.mustRun(op, err); out.state.Operation.Revision != n+2 {
			t.Errorf("revision %d, want %d", out.state.Operation.Revision, n+2)
		}
	}
	if got, want := r.history(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}
