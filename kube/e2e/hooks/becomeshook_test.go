package hooks

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
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

// TestFieldsOfAFormerHook: an object that is no hook any more loses what only the hook had, whatever brings it back: a rollback, also one
// after a failure, or an upgrade. What somebody else has added stays (R32a).
func TestFieldsOfAFormerHook(t *testing.T) {
	t.Parallel()
	object := []string{rig.ConfigMap("boot", nil, `v: "1"`), rig.ConfigMap("other", nil)}
	asHook := []string{rig.ConfigMap("boot", map[string]string{"helm.sh/hook": "pre-upgrade"}, `v: "2"`, "more: x"), rig.ConfigMap("other", nil)}
	for _, serverSide := range []string{"false", "true"} {
		for _, back := range []string{"rollback", "upgrade", "failure"} {
			t.Run(serverSide+"/"+back, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				with := func(docs ...string) func(*kube.Deploy) {
					return rig.UseChart(rig.ChartOf(t, docs...), func(d *kube.Deploy) {
						d.ServerSide, d.RollbackOnFailure, d.WaitForJobs = serverSide, back == "failure", plan.AllJobs
					})
				}
				r.Deploy("plain", with(object...))
				theirs := ""
				if back == "failure" {
					op := r.Must(r.Upgrade("plain", with(append(asHook[:2:2], rig.FailingJob(nil))...)))
					if out := r.Run(op, nil); out.State.Exit != event.ExitFailed {
						t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
					}
				} else {
					r.MustRun(r.Upgrade("plain", with(asHook...)))
					theirs = "y"
					r.PatchConfigMap("boot", `{"data": {"theirs": "y"}}`)
				}
				switch back {
				case "rollback":
					r.MustRun(r.Rollback(1))
				case "upgrade":
					r.MustRun(r.Upgrade("plain", with(object...)))
				}
				live, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "boot", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if live.Data["v"] != "1" || live.Data["more"] != "" || live.Data["theirs"] != theirs || live.Annotations["helm.sh/hook"] != "" {
					t.Errorf("boot: %v, annotations %v", live.Data, live.Annotations)
				}
			})
		}
	}
}
