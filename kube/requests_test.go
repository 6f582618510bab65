package kube

import (
	"fmt"
	"testing"
	"time"

	"lockstep/kube/throwaway/auditlog"
)

// verbs counts what lockstep has sent about ConfigMaps of the test's namespace since
// a time, by verb.
func (r *rig) verbs(since time.Time) map[string]int {
	r.t.Helper()
	log, err := auditlog.Read(sandbox.AuditLog)
	if err != nil {
		r.t.Fatal(err)
	}
	n := map[string]int{}
	for _, e := range log.UserAgent("lockstep").Namespace(r.namespace) {
		if e.Object.Resource == "configmaps" && e.Stage == auditlog.ResponseComplete && e.Received.After(since) {
			n[e.Verb]++
		}
	}
	return n
}

// TestRequestsAnObject: an upgrade and a rollback learn from lists what is there,
// and send each object once.
func TestRequestsAnObject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const many = 12
	version := func(v string) (docs []string) {
		for i := range many {
			docs = append(docs, configMap(fmt.Sprint("c", i), group("a"), "version: "+v))
		}
		return docs
	}
	r.deploy("plain", use(one(t, version("v1")...), nil))
	once := func(what string) func(time.Time) {
		return func(since time.Time) {
			if n := r.verbs(since); n["get"] > 0 || n["patch"] != many || n["list"] == 0 {
				t.Errorf("%s: %v", what, n)
			}
		}
	}
	start := time.Now()
	r.mustRun(r.upgrade("plain", useUp(one(t, version("v2")...), nil)))
	once("upgrade")(start)
	start = time.Now()
	r.mustRun(r.rollback(1))
	once("rollback")(start)
	if got := r.data("c0"); got["version"] != "v1" {
		t.Errorf("the rollback left %v", got)
	}
}

// TestFieldsOfClientSideApply: what was brought from the client's side is still moved
// to server-side apply, by Helm's own means: nothing that the old revision had and the
// new one has not is left.
func TestFieldsOfClientSideApply(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	version := func(data ...string) (docs []string) {
		for i := range 5 {
			docs = append(docs, configMap(fmt.Sprint("c", i), group("a"), data...))
		}
		return docs
	}
	r.deploy("plain", use(one(t, version("old: x", "both: x")...), func(i *Install) { i.ClientSide = true }))
	r.mustRun(r.upgrade("plain", useUp(one(t, version("both: z")...), func(u *Upgrade) { u.ServerSide = "true" })))
	for i := range 5 {
		if got := r.data(fmt.Sprint("c", i)); got["both"] != "z" || len(got) != 2 {
			t.Errorf("c%d has %v", i, got)
		}
	}
}
