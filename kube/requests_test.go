package kube

import (
	"fmt"
	"maps"
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

// TestUnchangedObjects: what is surely as it is to be is not sent, and counts as
// unchanged; drift of any kind is mended as Helm would.
func TestUnchangedObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const many = 12
	var docs []string
	for i := range many {
		docs = append(docs, configMap(fmt.Sprint("c", i), group("a"), "version: v1"))
	}
	docs = append(docs, deployment("web", group("b", "a"), "0s"), deployment("api", group("b", "a"), "0s"), deployment("db", group("b", "a"), "0s"), deployment("job", group("b", "a"), "0s"))
	chart := one(t, docs...)
	r.deploy("plain", use(chart, nil))
	again := func(what string, want map[string]int, force bool) outcome {
		start := time.Now()
		out := r.mustRun(r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.ForceConflicts = force })))
		n := r.verbs(start)
		delete(n, "list")
		delete(n, "watch")
		if !maps.Equal(n, want) {
			t.Errorf("%s: %v, want %v", what, n, want)
		}
		if r.verbs(start)["list"] > 8 {
			t.Errorf("%s: %d lists", what, r.verbs(start)["list"])
		}
		return out
	}
	out := again("nothing has changed", map[string]int{}, false)
	for _, id := range []string{"edge:a", "edge:b"} {
		for _, o := range out.state.Find("apply", id).Objects {
			if o.Change != event.Unchanged {
				t.Errorf("%s counts as %s", o.Object, o.Change)
			}
		}
	}
	if log, err := auditlog.Read(sandbox.AuditLog); err != nil {
		t.Fatal(err)
	} else if n := len(log.UserAgent("lockstep").Namespace(r.namespace).Writes().Where(func(e auditlog.Event) bool { return e.Object.Resource == "deployments" })); n != 4 {
		t.Errorf("%d writes of Deployments, 4 at first and none in the upgrade", n)
	}

	r.patchConfigMap("c0", `{"data":{"version":"changed"}}`)
	again("somebody has changed a value", map[string]int{"patch": 1}, true)
	if got := r.data("c0"); got["version"] != "v1" {
		t.Errorf("c0 is left as %v", got)
	}
	r.patchConfigMap("c1", `{"data":{"version":null}}`)
	again("somebody has removed a value", map[string]int{"patch": 1}, false)
	if got := r.data("c1"); got["version"] != "v1" {
		t.Errorf("c1 is left as %v", got)
	}
	r.patchConfigMap("c2", `{"data":{"more":"theirs"}}`)
	again("somebody has added a value", map[string]int{}, false)
	if got := r.data("c2"); got["more"] != "theirs" {
		t.Errorf("c2 is left as %v", got)
	}
	if err := r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(t.Context(), "c3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again("somebody has deleted an object", map[string]int{"get": 1, "patch": 1}, false)
	r.data("c3")
}

// TestPlanAsksOfWhatChanges: of what is as the chart has it a plan knows from one list that
// nothing changes; of what somebody has changed, or deleted, it does not.
func TestPlanAsksOfWhatChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var docs []string
	for i := range 8 {
		docs = append(docs, configMap(fmt.Sprint("c", i), group("a"), "version: v1"))
	}
	chart := one(t, docs...)
	r.deploy("plain", use(chart, nil))
	plan := func(what string, asked map[string]int, want ...string) {
		t.Helper()
		start := time.Now()
		lines, _ := r.changes(r.upgrade("plain", useUp(chart, nil)))
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasSuffix(l, " unchanged") })
		if !slices.Equal(lines, want) {
			t.Errorf("%s: %q, want %q", what, lines, want)
		}
		n := r.verbs(start)
		delete(n, "list")
		if !maps.Equal(n, asked) {
			t.Errorf("%s: %v, want %v", what, n, asked)
		}
	}
	plan("nothing has changed", map[string]int{})
	r.patchConfigMap("c0", `{"data":{"version":null}}`)
	plan("somebody has removed a value", map[string]int{"patch": 1}, "edge:a ConfigMap/c0 change")
	if err := r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(t.Context(), "c1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	plan("somebody has deleted an object", map[string]int{"get": 1, "patch": 2}, "edge:a ConfigMap/c0 change", "edge:a ConfigMap/c1 create")
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
