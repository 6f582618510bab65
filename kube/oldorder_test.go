package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// TestRemovalsKeepTheirGroups removes objects whose gates stay in the cluster:
// the order of what goes is still that of the whole old plan (R30, R31, R32),
// and no group of it is taken for one without its gate (R8).
func TestRemovalsKeepTheirGroups(t *testing.T) {
	t.Parallel()
	whole := one(t, configMap("a", group("a")), configMap("z", group("z", "a")), configMap("c", group("c", "z")), configMap("b", group("b", "c")))
	less := one(t, configMap("a", group("a")), configMap("c", nil))
	kept := group("a")
	kept["helm.sh/resource-policy"] = "keep"
	keeping := one(t, configMap("a", kept), configMap("b", group("b", "a")), configMap("c", group("c", "b")), configMap("d", group("d", "c")))
	tests := []struct {
		name    string
		run     func(r *rig)
		removed []string
	}{
		{"upgrade", func(r *rig) {
			r.deploy("plain", use(whole, nil))
			r.mustRun(r.upgrade("plain", useUp(less, nil)))
		}, []string{"b", "z"}},
		{"rollback", func(r *rig) {
			r.deploy("plain", use(less, nil))
			r.mustRun(r.upgrade("plain", useUp(whole, nil)))
			r.mustRun(r.rollback(1))
		}, []string{"b", "z"}},
		{"uninstall", func(r *rig) {
			r.deploy("plain", use(keeping, nil))
			r.mustRun(r.uninstall())
		}, []string{"d", "c", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			tt.run(r)
			var got []string
			for _, e := range r.audit() {
				if e.Verb == "delete" && e.Object.Resource == "configmaps" && e.UserAgent == "lockstep" {
					got = append(got, e.Object.Name)
				}
			}
			if !slices.Equal(got, tt.removed) {
				t.Errorf("deleted %v, want %v", got, tt.removed)
			}
		})
	}
}

// TestOnePlanOfARemoval plans what an upgrade removes as it will be run.
func TestOnePlanOfARemoval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("a", group("a")), configMap("b", group("b", "a")), configMap("c", group("c", "b"))), nil))
	lines, _ := r.changes(r.upgrade("plain", useUp(one(t, configMap("a", group("a"))), nil)))
	want := []string{"edge:a ConfigMap/a unchanged", "edge:c ConfigMap/c delete", "edge:b ConfigMap/b delete"}
	if !slices.Equal(lines, want) {
		t.Errorf("plan %q, want %q", lines, want)
	}
}

// TestRollbackSendsTheSame rolls back to a revision that is the same as the
// current one: nothing changes, though a stored manifest spells annotations
// with one slash that an installation leaves out (R3).
func TestRollbackSendsTheSame(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"hip0025-groups-complete", "hip9999-layers", "edge"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var c *charts.Chart
			if chart == "edge" { // the stored spelling in the chart itself
				c = one(t, configMap("a", group("a")), configMap("b", map[string]string{"helm.sh/resource-group": "b", "helm.sh/depends-on-resource-groups": `["a"]`}))
			} else {
				c = loadChart(t, chart)
			}
			r.deploy("plain", use(c, nil))
			r.mustRun(r.upgrade("plain", useUp(c, nil)))
			lines, diffs := r.changes(r.rollback(1))
			if len(lines) == 0 {
				t.Fatal("nothing is planned")
			}
			for _, l := range lines {
				if object := strings.Fields(l)[1]; !strings.HasSuffix(l, " unchanged") {
					t.Errorf("%s\n%s", l, diffs[object].Diff)
				}
			}
			r.mustRun(r.rollback(1))
		})
	}
}

// TestCleanupInTurn deletes what a failed upgrade has created in reverse order
// of the new plan, each group only after all that waited for it is gone (R31).
func TestCleanupInTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("old", group("one"))), nil))
	// second stays until the test lets it go.
	second := strings.Replace(configMap("second", group("three", "two")), "metadata:\n", "metadata:\n  finalizers: [example.com/held]\n", 1)
	broken := strings.ReplaceAll(deployment("broken", group("four", "three"), "0s"), "example/app:1.0", "example/no-such-image:1")
	next := one(t, configMap("old", group("one")), generated(configMap("made-", group("one"))), configMap("first", group("two", "one")), second, broken, configMap("never", group("five", "four")))
	op, err := r.upgrade("plain", useUp(next, func(u *Upgrade) { u.CleanupOnFail, u.ReadinessTimeout = true, 2*time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "second" && strings.Contains(e.Message, "example.com/held") {
			r.patchConfigMap("second", `{"metadata":{"finalizers":null}}`)
		}
	})
	if out.state.Exit != 1 || !strings.Contains(out.state.Message, "Deployment/broken") {
		t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
	}
	if got := r.left(); !slices.Equal(got, []string{"ConfigMap/old"}) {
		t.Errorf("left are %v, want what was there before", got)
	}
	tl := r.timeline("lockstep").since(start)
	gone, _ := tl.firstDelete(t, []string{"Deployment/broken"})
	asked, _ := tl.firstDelete(t, []string{"ConfigMap/second"})
	first, _ := tl.firstDelete(t, []string{"ConfigMap/first"})
	var let time.Time
	for _, e := range tl.of(t, "ConfigMap/second") {
		if e.UserAgent == "test" {
			let = e.Received
		}
	}
	if !slices.IsSortedFunc([]time.Time{gone, asked, let, first}, time.Time.Compare) || let.IsZero() {
		t.Errorf("broken was deleted at %s, second at %s, which was let go at %s, first at %s", clock(gone), clock(asked), clock(let), clock(first))
	}
}

// TestRemovalsOfWhatAFailedUpgradeHasLeft: what the target takes over of a failed
// upgrade, whose groups may be of another family, does not keep the old order
// from being rebuilt (R20, R30).
func TestRemovalsOfWhatAFailedUpgradeHasLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("one", group("one")), configMap("two", group("two", "one")), configMap("three", group("three", "two"))), nil))
	layer := func(name string, after ...string) map[string]string {
		m := map[string]string{plan.AnnotationLayer: name}
		if len(after) > 0 {
			m[plan.AnnotationLayerDependsOn] = after[0]
		}
		return m
	}
	broken := strings.ReplaceAll(deployment("broken", layer("b", "a"), "0s"), "example/app:1.0", "example/no-such-image:1")
	docs := []string{configMap("one", layer("a")), configMap("new", layer("a"))}
	op, err := r.upgrade("plain", useUp(one(t, append(docs, broken, configMap("last", layer("c", "b")))...), func(u *Upgrade) { u.ReadinessTimeout = 2 * time.Second }))
	r.mustFail(op, err)
	op, err = r.upgrade("plain", useUp(one(t, append(docs, configMap("last", layer("b", "a")))...), nil))
	out := r.mustRun(op, err)
	if out.says("R28", "order") {
		t.Errorf("warnings %v", out.state.Warnings)
	}
	ended := out.ended()
	if want := []string{"edge:three", "edge:two"}; !slices.Equal(ended[len(ended)-2:], want) {
		t.Errorf("it ended with %v, want %v", ended, want)
	}
}
