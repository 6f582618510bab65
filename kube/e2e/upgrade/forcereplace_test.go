package upgrade

import (
	"testing"
	"time"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestForceReplace replaces objects (PUT) instead of patching them: changes by others are lost, and a group is written only
// after its dependencies are ready again (R22, R30).
func TestForceReplace(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(v, delay string) []string {
		return []string{rig.Deployment("store", rig.Group("a"), delay), rig.ConfigMap("conf", rig.Group("a"), "version: "+v), rig.ConfigMap("after", rig.Group("b", "a"), "version: "+v)}
	}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, chart("v1", "0s")...), func(i *kube.Deploy) { i.ServerSide = "false" }))
	r.PatchConfigMap("conf", `{"data":{"added":"by somebody"}}`)
	start := time.Now()
	replace := func(u *kube.Deploy) { u.ServerSide, u.ForceReplace = "false", true }
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, chart("v2", "700ms")...), replace)))
	assertReplaced(r, start, "upgrade")
	if got := r.ConfigMapData("conf"); got["version"] != "v2" || got["added"] != "" {
		t.Errorf("after the upgrade conf has %v", got)
	}
	start = time.Now()
	op, err := r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: kube.Common{Release: "t", Namespace: r.Namespace}, Revision: 1, ServerSide: "false", ForceReplace: true})
	r.MustRun(op, err)
	assertReplaced(r, start, "rollback")
	if got := r.ConfigMapData("after"); got["version"] != "v1" {
		t.Errorf("after the rollback after has %v", got)
	}
}

// assertReplaced checks in the audit log that store, conf and after were written by PUT since
// a time, after store was ready.
func assertReplaced(r *rig.Rig, since time.Time, what string) {
	r.T.Helper()
	tl := r.Timeline("lockstep").Since(since)
	for _, o := range []string{"Deployment/store", "ConfigMap/conf", "ConfigMap/after"} {
		for _, e := range tl.Of(r.T, o) {
			if e.UserAgent == "lockstep" && e.Verb != "update" {
				r.T.Errorf("%s: %s was written by %s", what, o, e.Verb)
			}
		}
	}
	ready, _ := tl.Ready(r.T, []string{"Deployment/store"})
	after, _ := tl.FirstWrite(r.T, []string{"ConfigMap/after"})
	if after.Before(ready) {
		r.T.Errorf("%s: after was written at %s, before store was ready at %s", what, rig.Clock(after), rig.Clock(ready))
	}
}
