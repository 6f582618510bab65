package hooks

import (
	"slices"
	"strings"
	"testing"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestObjectBecomesHook: an object of the old revision is a hook in the new one. What the hook has created stays, whichever
// policy it has (R31a), and is the release's again after a rollback. Helm deletes it.
func TestObjectBecomesHook(t *testing.T) {
	t.Parallel()
	boot := func(v string, annotations map[string]string) string {
		return rig.ConfigMap("boot", annotations, "v: "+v)
	}
	other := rig.ConfigMap("other", nil)
	hook := func(policies string) map[string]string {
		return map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "-5", "helm.sh/hook-delete-policy": policies}
	}
	tests := map[string]struct {
		annotations map[string]string
		noHooks     bool
		removed     bool
	}{
		"before":    {annotations: hook("before-hook-creation")},
		"failed":    {annotations: hook("hook-failed")},
		"succeeded": {annotations: hook("before-hook-creation,hook-succeeded"), removed: true},
		"post":      {annotations: map[string]string{"helm.sh/hook": "post-upgrade"}},
		"nohooks":   {annotations: hook("before-hook-creation"), noHooks: true, removed: true},
		"other":     {annotations: map[string]string{"helm.sh/hook": "test"}, removed: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			object, asHook := rig.ChartOf(t, boot("v1", nil), other), rig.ChartOf(t, boot("v2", tt.annotations), other)
			r.Deploy("plain", rig.UseChart(object, nil))
			upgrade := rig.UseChart(asHook, func(u *kube.Deploy) { u.NoHooks = tt.noHooks })
			plan, _ := r.Changes(r.Upgrade("plain", upgrade))
			deletes := slices.ContainsFunc(plan, func(l string) bool { return strings.HasSuffix(l, "ConfigMap/boot delete") })
			if want := name == "nohooks" || name == "post" || name == "other"; deletes != want {
				t.Errorf("the plan deletes boot: %t, want %t: %q", deletes, want, plan)
			}
			r.MustRun(r.Upgrade("plain", upgrade))
			if exists := slices.Contains(r.ConfigMaps(r.Namespace), "boot"); exists == tt.removed {
				t.Fatalf("boot exists: %t", exists)
			} else if exists && r.ConfigMapData("boot")["v"] != "v2" {
				t.Errorf("boot has %v", r.ConfigMapData("boot"))
			}
			r.MustRun(r.Rollback(1))
			if got := r.ConfigMapData("boot")["v"]; got != "v1" || !slices.Contains(r.Labelled(), "ConfigMap/boot") {
				t.Errorf("after the rollback v is %q, labelled %v", got, r.Labelled())
			}
			r.MustRun(r.Upgrade("plain", upgrade))
			r.MustRun(r.Uninstall())
			if exists := slices.Contains(r.ConfigMaps(r.Namespace), "boot"); exists == tt.removed { // like Helm, it keeps hooks
				t.Errorf("after the uninstall, boot exists: %t", exists)
			}
		})
	}
}

// TestHookBecomesObject: what a hook of the release has created is adopted by an upgrade, and removed like any other object.
func TestHookBecomesObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	annotations := map[string]string{"helm.sh/hook": "pre-install"}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("boot", annotations), rig.ConfigMap("other", nil)), nil))
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("boot", nil, "v: v2"), rig.ConfigMap("other", nil)), nil)))
	if got := r.ConfigMapData("boot")["v"]; got != "v2" || !slices.Contains(r.Labelled(), "ConfigMap/boot") {
		t.Errorf("v is %q, labelled %v", got, r.Labelled())
	}
	r.MustRun(r.Uninstall())
	if got := r.Remaining(); len(got) > 0 {
		t.Errorf("remaining: %v", got)
	}
}
