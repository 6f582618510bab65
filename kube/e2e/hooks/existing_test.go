package hooks

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestHookOfAnotherRelease: a hook without before-hook-creation does not replace an existing object. If a hook of another release
// made that object, the operation is refused before anything is written: Helm refuses it with client-side apply, and otherwise
// counts the other one's Job as its own. What a hook of the same release made is no conflict, nor what an uninstalled release has
// left (R31a).
func TestHookOfAnotherRelease(t *testing.T) {
	t.Parallel()
	annotations := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade,post-install", "helm.sh/hook-delete-policy": "hook-failed"}
	for name, doc := range map[string]string{"job": rig.Job("h", annotations, "10ms"), "config": rig.ConfigMap("h", annotations)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			install := func(release string, take bool) (*kube.Operation, error) {
				return r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("of-"+release, nil), doc), func(i *kube.Deploy) {
					i.Release, i.TakeOwnership = release, take
				}))
			}
			r.MustRun(install("t", false))
			start := time.Now()
			_, err := install("other", false)
			r.MustRefuse(start, err, "/h already exists (namespace "+r.Namespace+"), made by a hook of release t", "helm.sh/hook-delete-policy lacks before-hook-creation")
			op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("of-t", nil), doc), nil))
			r.MustRun(op, err)
			if _, err := install("other", true); err != nil {
				t.Errorf("with --take-ownership: %v", err)
			}
			if history := strings.Join(r.Revisions(), " "); !strings.Contains(history, "2") {
				t.Errorf("revisions %q", history)
			}
			r.MustHelm("uninstall", "t") // leaves the hook's object, which then belongs to nobody
			out := r.MustRun(install("other", false))
			if warned := out.HasWarning("", "does not run it again"); warned != (name == "job") {
				t.Errorf("%s: a warning that the hook does not run again: %t", name, warned)
			}
		})
	}
}

// TestHookOverAForeignObject: a hook replaces the object of its last run, but no object that somebody else or another release has
// made. The operation is refused before anything is written: an earlier hook may be a migration (R31a).
func TestHookOverAForeignObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	first, hook := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade"}, map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "1"}
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Job("first", first, "10ms"), rig.Job("second", hook, "10ms"))
	install := func(take bool) (*kube.Operation, error) {
		return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.TakeOwnership = take }))
	}
	for name, c := range map[string]struct{ make, message string }{
		"nobody's":          {"", "Job/second already exists (namespace " + r.Namespace + ") and is not managed by Helm"},
		"another release's": {"other", "Job/second (namespace " + r.Namespace + ") is owned by release other"},
	} {
		if c.make == "" {
			r.Create(rig.Job("second", nil, "10ms"))
		} else {
			r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Job("second", nil, "10ms")), func(i *kube.Deploy) { i.Release = c.make })))
		}
		start := time.Now()
		_, err := install(false)
		r.MustRefuse(start, err, c.message)
		if _, err := install(true); err != nil {
			t.Errorf("%s, with --take-ownership: %v", name, err)
		}
		if err := r.Cluster.BatchV1().Jobs(r.Namespace).Delete(t.Context(), "second", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
			t.Fatal(err)
		}
	}
	r.MustRun(install(false))
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, nil))) // the objects of its own hooks

	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Job("last", map[string]string{"helm.sh/hook": "pre-delete"}, "10ms")), nil)))
	r.Create(rig.Job("last", nil, "10ms"))
	start := time.Now()
	_, err := r.Uninstall()
	r.MustRefuse(start, err, "Job/last already exists (namespace "+r.Namespace+") and is not managed by Helm: delete it, or skip the hooks of the release with --no-hooks")
	r.MustRun(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, NoHooks: true}}))
}
