package kube

import (
	"slices"
	"strings"
	"testing"

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
