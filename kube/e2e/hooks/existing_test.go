package hooks

import (
	"strings"
	"testing"
	"time"

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
