package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/plan"
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
