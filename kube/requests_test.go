package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
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

// TestUnchangedObjects: an upgrade sends every object, and says what the API server's
// answers say: what has changed nothing is unchanged, what somebody has done is undone as
// Helm would.
func TestUnchangedObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const many = 12
	var docs []string
	for i := range many {
		docs = append(docs, configMap(fmt.Sprint("c", i), group("a"), "version: v1"))
	}
	// An empty list is stored as none, and each time it is sent the API server makes another
	// generation of the object.
	policy := object("networking.k8s.io/v1/NetworkPolicy/loose", group("b", "a"), "spec: {podSelector: {}, ingress: [{ports: []}]}")
	chart := one(t, append(docs, deployment("web", group("b", "a"), "0s"), policy)...)
	r.deploy("plain", use(chart, nil))
	again := func(what string, gets int, changes map[string]event.Change, force bool) {
		t.Helper()
		planned, _ := r.changes(r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.ForceConflicts = force })))
		start := time.Now()
		out := r.mustRun(r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.ForceConflicts = force })))
		if n := r.verbs(start); n["get"] != gets || n["patch"] != many || n["list"] > 4 {
			t.Errorf("%s: %v", what, n)
		}
		done := map[event.Change]Action{event.Unchanged: ActionUnchanged, event.Configured: ActionChange, event.Created: ActionCreate}
		for _, id := range []string{"edge:a", "edge:b"} {
			for _, o := range out.state.Find("apply", id).Objects {
				want := cmp.Or(changes[o.Object.Name], event.Unchanged)
				if o.Object.Name == "loose" {
					want = event.Configured
				}
				if o.Change != want {
					t.Errorf("%s: %s counts as %s, want %s", what, o.Object, o.Change, want)
				}
				if line := fmt.Sprintf("%s %s %s", id, o.Object, done[o.Change]); !slices.Contains(planned, line) {
					t.Errorf("%s: the plan does not say %q: %q", what, line, planned)
				}
			}
		}
	}
	again("nothing has changed", 0, nil, false)
	r.patchConfigMap("c0", `{"data":{"version":"changed"}}`)
	again("somebody has changed a value", 0, map[string]event.Change{"c0": event.Configured}, true)
	r.patchConfigMap("c1", `{"data":{"version":null}}`)
	again("somebody has removed a value", 0, map[string]event.Change{"c1": event.Configured}, false)
	for _, name := range []string{"c0", "c1"} {
		if got := r.data(name); got["version"] != "v1" {
			t.Errorf("%s is left as %v", name, got)
		}
	}
	r.patchConfigMap("c2", `{"data":{"more":"theirs"}}`)
	again("somebody has added a value", 0, nil, false)
	if got := r.data("c2"); got["more"] != "theirs" {
		t.Errorf("c2 is left as %v", got)
	}
	r.patchConfigMap("c4", `{"data":{"version":"changed"}}`)
	r.patchConfigMap("c4", `{"data":{"version":"v1"}}`)
	again("somebody has made a value his own", 0, map[string]event.Change{"c4": event.Configured}, false)
	if err := r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(t.Context(), "c3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again("somebody has deleted an object", 1, map[string]event.Change{"c3": event.Created}, false)
}

// TestPlanAsksOfEach: a plan reads what is there by lists, and asks of each object once what
// an apply would change.
func TestPlanAsksOfEach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var docs []string
	for i := range 8 {
		docs = append(docs, configMap(fmt.Sprint("c", i), group("a"), "version: v1"))
	}
	chart := one(t, docs...)
	r.deploy("plain", use(chart, nil))
	start := time.Now()
	lines, _ := r.changes(r.upgrade("plain", useUp(chart, nil)))
	if slices.ContainsFunc(lines, func(l string) bool { return !strings.HasSuffix(l, " unchanged") }) {
		t.Errorf("the plan says %q", lines)
	}
	if n := r.verbs(start); n["get"] > 0 || n["patch"] != 8 || n["list"] > 3 {
		t.Errorf("it takes %v", n)
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
