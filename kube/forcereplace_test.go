package kube

import (
	"testing"
	"time"
)

// TestForceReplace replaces objects (PUT) in place of patching them, in order:
// what somebody else has added is gone, and a group is written only after its
// gates are ready again (R22, R30).
func TestForceReplace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := func(v, delay string) []string {
		return []string{deployment("store", group("a"), delay), configMap("conf", group("a"), "version: "+v), configMap("after", group("b", "a"), "version: "+v)}
	}
	r.deploy("plain", use(one(t, chart("v1", "0s")...), func(i *Install) { i.ClientSide = true }))
	r.patchConfigMap("conf", `{"data":{"added":"by somebody"}}`)
	start := time.Now()
	replace := func(u *Upgrade) { u.ServerSide, u.ForceReplace = "false", true }
	r.mustRun(r.upgrade("plain", useUp(one(t, chart("v2", "700ms")...), replace)))
	r.assertReplaced(start, "upgrade")
	if got := r.data("conf"); got["version"] != "v2" || got["added"] != "" {
		t.Errorf("the upgrade left %v", got)
	}
	start = time.Now()
	op, err := r.client.PrepareRollback(t.Context(), Rollback{Common: Common{Release: "t", Namespace: r.namespace}, Revision: 1, ServerSide: "false", ForceReplace: true})
	r.mustRun(op, err)
	r.assertReplaced(start, "rollback")
	if got := r.data("after"); got["version"] != "v1" {
		t.Errorf("the rollback left %v", got)
	}
}

// assertReplaced proves from the audit log that store, conf and after were
// written by PUT since a time, after once store was ready.
func (r *rig) assertReplaced(since time.Time, what string) {
	r.t.Helper()
	tl := r.timeline("lockstep").since(since)
	for _, o := range []string{"Deployment/store", "ConfigMap/conf", "ConfigMap/after"} {
		for _, e := range tl.of(r.t, o) {
			if e.UserAgent == "lockstep" && e.Verb != "update" {
				r.t.Errorf("%s: %s was written by %s", what, o, e.Verb)
			}
		}
	}
	ready, _ := tl.ready(r.t, []string{"Deployment/store"})
	after, _ := tl.firstWrite(r.t, []string{"ConfigMap/after"})
	if after.Before(ready) {
		r.t.Errorf("%s: after was written at %s, before store was ready at %s", what, clock(after), clock(ready))
	}
}
