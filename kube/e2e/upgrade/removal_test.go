package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestRemovalsKeepTheirGroups removes objects whose dependencies stay in the cluster, in the
// order of the whole old plan (R30, R31, R32), without a warning about a missing group (R8).
func TestRemovalsKeepTheirGroups(t *testing.T) {
	t.Parallel()
	whole := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("z", rig.Group("z", "a")), rig.ConfigMap("c", rig.Group("c", "z")), rig.ConfigMap("b", rig.Group("b", "c")))
	less := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("c", nil))
	kept := rig.Group("a")
	kept["helm.sh/resource-policy"] = "keep"
	keeping := rig.ChartOf(t, rig.ConfigMap("a", kept), rig.ConfigMap("b", rig.Group("b", "a")), rig.ConfigMap("c", rig.Group("c", "b")), rig.ConfigMap("d", rig.Group("d", "c")))
	tests := []struct {
		name    string
		run     func(r *rig.Rig)
		removed []string
	}{
		{"upgrade", func(r *rig.Rig) {
			r.Deploy("plain", rig.UseChart(whole, nil))
			r.MustRun(r.Upgrade("plain", rig.UpgradeTo(less, nil)))
		}, []string{"b", "z"}},
		{"rollback", func(r *rig.Rig) {
			r.Deploy("plain", rig.UseChart(less, nil))
			r.MustRun(r.Upgrade("plain", rig.UpgradeTo(whole, nil)))
			r.MustRun(r.Rollback(1))
		}, []string{"b", "z"}},
		{"uninstall", func(r *rig.Rig) {
			r.Deploy("plain", rig.UseChart(keeping, nil))
			r.MustRun(r.Uninstall())
		}, []string{"d", "c", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			tt.run(r)
			var got []string
			for _, e := range r.Audit() {
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

// TestOnePlanOfARemoval: an upgrade removes objects as planned.
func TestOnePlanOfARemoval(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")), rig.ConfigMap("c", rig.Group("c", "b"))), nil))
	lines, _ := r.Changes(r.Upgrade("plain", rig.UpgradeTo(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"))), nil)))
	want := []string{"edge:a ConfigMap/a unchanged", "edge:c ConfigMap/c delete", "edge:b ConfigMap/b delete"}
	if !slices.Equal(lines, want) {
		t.Errorf("plan %q, want %q", lines, want)
	}
}

// TestRemovalsAfterAFailedUpgrade: the old order can be restored although the failed and the new revision order the same
// objects by another method (R20, R30).
func TestRemovalsAfterAFailedUpgrade(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("one", rig.Group("one")), rig.ConfigMap("two", rig.Group("two", "one")), rig.ConfigMap("three", rig.Group("three", "two"))), nil))
	layer := func(name string, after ...string) map[string]string {
		m := map[string]string{plan.AnnotationLayer: name}
		if len(after) > 0 {
			m[plan.AnnotationLayerDependsOn] = after[0]
		}
		return m
	}
	broken := strings.ReplaceAll(rig.Deployment("broken", layer("b", "a"), "0s"), "example/app:1.0", "example/no-such-image:1")
	docs := []string{rig.ConfigMap("one", layer("a")), rig.ConfigMap("new", layer("a"))}
	op, err := r.Upgrade("plain", rig.UpgradeTo(rig.ChartOf(t, append(docs, broken, rig.ConfigMap("last", layer("c", "b")))...), func(u *kube.Upgrade) { u.ReadinessTimeout = 2 * time.Second }))
	r.MustFail(op, err)
	op, err = r.Upgrade("plain", rig.UpgradeTo(rig.ChartOf(t, append(docs, rig.ConfigMap("last", layer("b", "a")))...), nil))
	out := r.MustRun(op, err)
	if out.HasWarning("R28", "order") {
		t.Errorf("warnings %v", out.State.Warnings)
	}
	ended := out.EndedGroups()
	if want := []string{"edge:three", "edge:two"}; !slices.Equal(ended[len(ended)-2:], want) {
		t.Errorf("the last groups were %v, want %v", ended, want)
	}
}
