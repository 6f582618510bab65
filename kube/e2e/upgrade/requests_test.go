package upgrade

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
)

// verbs counts lockstep's requests about ConfigMaps of the test's namespace since a time, by
// verb. Writes as dry runs count as "dry run".
func verbs(r *rig.Rig, since time.Time) map[string]int {
	r.T.Helper()
	log := r.Log()
	n := map[string]int{}
	for _, e := range log.UserAgent("lockstep").Namespace(r.Namespace) {
		if e.Object.Resource == "configmaps" && e.Stage == auditlog.ResponseComplete && e.Received.After(since) {
			verb := e.Verb
			if strings.Contains(e.RequestURI, "dryRun=All") {
				verb = "dry run"
			}
			n[verb]++
		}
	}
	return n
}

// TestOneRequestPerObject: an upgrade and a rollback read existing objects with list calls and send each object once, and
// before that as a dry run if it changes.
func TestOneRequestPerObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const many = 12
	version := func(v string) (docs []string) {
		for i := range many {
			docs = append(docs, rig.ConfigMap(fmt.Sprint("c", i), rig.Group("a"), "version: "+v))
		}
		return docs
	}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, version("v1")...), nil))
	once := func(what string) func(time.Time) {
		return func(since time.Time) {
			if n := verbs(r, since); n["get"] > 0 || n["patch"] != many || n["dry run"] != many || n["list"] == 0 {
				t.Errorf("%s: %v", what, n)
			}
		}
	}
	start := time.Now()
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, version("v2")...), nil)))
	once("upgrade")(start)
	start = time.Now()
	r.MustRun(r.Rollback(1))
	once("rollback")(start)
	if got := r.ConfigMapData("c0"); got["version"] != "v1" {
		t.Errorf("the rollback left %v", got)
	}
}

// TestUnchangedObjects: an upgrade sends every object and takes the changes from the API server's responses. An apply without
// effect counts as unchanged, and changes by others are reverted as by Helm.
func TestUnchangedObjects(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const many = 12
	var docs []string
	for i := range many {
		docs = append(docs, rig.ConfigMap(fmt.Sprint("c", i), rig.Group("a"), "version: v1"))
	}
	// The API server drops the empty list, and stores the policy with another generation each time it is sent: the plan counts that
	// as unchanged, the run as what it is.
	policy := rig.Object("networking.k8s.io/v1/NetworkPolicy/loose", rig.Group("b", "a"), "spec: {podSelector: {}, ingress: [{ports: []}]}")
	chart := rig.ChartOf(t, append(docs, rig.Deployment("web", rig.Group("b", "a"), "0s"), policy)...)
	r.Deploy("plain", rig.UseChart(chart, nil))
	again := func(what string, gets, asked int, changes map[string]event.Change, force bool) {
		t.Helper()
		planned, _ := r.Changes(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.ForceConflicts = force })))
		start := time.Now()
		out := r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.ForceConflicts = force })))
		if n := verbs(r, start); n["get"] != gets || n["dry run"] != asked || n["patch"] != many || n["list"] > 4 {
			t.Errorf("%s: %v", what, n)
		}
		done := map[event.Change]inspect.Action{event.Unchanged: inspect.Unchanged, event.Configured: inspect.Modify, event.Created: inspect.Create}
		for _, id := range []string{"edge:a", "edge:b"} {
			for _, o := range out.State.Find("apply", id).Objects {
				want := cmp.Or(changes[o.Object.Name], event.Unchanged)
				line := fmt.Sprintf("%s %s %s", id, o.Object, done[want])
				if o.Object.Name == "loose" {
					want = event.Configured
				}
				if o.Change != want {
					t.Errorf("%s: %s counts as %s, want %s", what, o.Object, o.Change, want)
				}
				if !slices.Contains(planned, line) {
					t.Errorf("%s: the plan lacks %q: %q", what, line, planned)
				}
			}
		}
	}
	again("nothing has changed", 0, 0, nil, false)
	r.PatchConfigMap("c0", `{"data":{"version":"changed"}}`)
	again("somebody has changed a value", 0, 1, map[string]event.Change{"c0": event.Configured}, true)
	r.PatchConfigMap("c1", `{"data":{"version":null}}`)
	again("somebody has removed a value", 0, 1, map[string]event.Change{"c1": event.Configured}, false)
	for _, name := range []string{"c0", "c1"} {
		if got := r.ConfigMapData(name); got["version"] != "v1" {
			t.Errorf("%s has %v", name, got)
		}
	}
	r.PatchConfigMap("c2", `{"data":{"more":"theirs"}}`)
	again("somebody has added a value", 0, 0, nil, false)
	if got := r.ConfigMapData("c2"); got["more"] != "theirs" {
		t.Errorf("c2 has %v", got)
	}
	r.PatchConfigMap("c4", `{"data":{"version":"changed"}}`)
	r.PatchConfigMap("c4", `{"data":{"version":"v1"}}`)
	again("somebody else owns a value", 0, 1, map[string]event.Change{"c4": event.Configured}, false)
	if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "c3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again("somebody has deleted an object", 0, 0, map[string]event.Change{"c3": event.Created}, false)
}

// TestRequestsOfAPlan: a plan reads existing objects with list calls and sends one dry run per object.
func TestRequestsOfAPlan(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	var docs []string
	for i := range 8 {
		docs = append(docs, rig.ConfigMap(fmt.Sprint("c", i), rig.Group("a"), "version: v1"))
	}
	chart := rig.ChartOf(t, docs...)
	r.Deploy("plain", rig.UseChart(chart, nil))
	start := time.Now()
	lines, _ := r.Changes(r.Upgrade("plain", rig.UseChart(chart, nil)))
	if slices.ContainsFunc(lines, func(l string) bool { return !strings.HasSuffix(l, " unchanged") }) {
		t.Errorf("the plan says %q", lines)
	}
	if n := verbs(r, start); n["get"] > 0 || n["dry run"] != 8 || n["patch"] > 0 || n["list"] > 3 {
		t.Errorf("requests by verb: %v", n)
	}
}

// TestFieldsOfClientSideApply: Helm migrates objects from client-side to server-side apply. No
// field that only the old revision had remains.
func TestFieldsOfClientSideApply(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	version := func(data ...string) (docs []string) {
		for i := range 5 {
			docs = append(docs, rig.ConfigMap(fmt.Sprint("c", i), rig.Group("a"), data...))
		}
		return docs
	}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, version("old: x", "both: x")...), func(i *kube.Deploy) { i.ServerSide = "false" }))
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, version("both: z")...), func(u *kube.Deploy) { u.ServerSide = "true" })))
	for i := range 5 {
		if got := r.ConfigMapData(fmt.Sprint("c", i)); got["both"] != "z" || len(got) != 2 {
			t.Errorf("c%d has %v", i, got)
		}
	}
}

// TestRecordsOfOtherReleases: an upgrade that may roll back by itself and a rollback find the points of no return of other releases
// by a label. They do not read the records of all releases in the namespace (R33a).
func TestRecordsOfOtherReleases(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil))
	r.Deploy("plain", rig.UseChart(chart, nil))
	start := time.Now()
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.RollbackOnFailure = true })))
	r.MustRun(r.Rollback(1))
	log := r.Log()
	labelled := 0
	for _, e := range log.UserAgent("lockstep").Namespace(r.Namespace) {
		if e.Object.Resource != "secrets" || e.Verb != "list" || e.Stage != auditlog.ResponseComplete || e.Received.Before(start) {
			continue
		}
		uri, _ := url.QueryUnescape(e.RequestURI) // then the check below fails
		if strings.Contains(uri, "lockstep/stack-points=true") {
			labelled++
		} else if !strings.Contains(uri, "name=t") {
			t.Errorf("list %s", uri)
		}
	}
	if labelled != 2 {
		t.Errorf("%d requests for labelled records, want one for each operation", labelled)
	}
}

// TestHistoryIsReadOnce: an operation reads the history of its release once to plan it, and once after it has the lock (R51), unless
// its first write is to a record. Other looks at the records, before writes, read no more than metadata.
func TestHistoryIsReadOnce(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	var reads atomic.Int64
	counted := r.WithClient(r.ConnectThrough(rig.Interceptor{Intercept: func(_ http.ResponseWriter, req *http.Request) bool {
		query := req.URL.Query()
		if strings.HasSuffix(req.URL.Path, "/secrets") && strings.Contains(query.Get("labelSelector"), "name=t") && !strings.Contains(req.Header.Get("Accept"), "PartialObjectMetadata") {
			reads.Add(1)
		}
		return false
	}}, ""))
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil))
	upgrade := func() (*kube.Operation, error) {
		return counted.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.HistoryMax = 3 }))
	}
	for _, tt := range []struct {
		name    string
		prepare func() (*kube.Operation, error)
		want    int64 // reads to run it
	}{
		{"install", func() (*kube.Operation, error) { return counted.Install("plain", rig.UseChart(chart, nil)) }, 1},
		{"upgrade", upgrade, 1}, {"upgrade", upgrade, 1}, {"upgrade", upgrade, 1},
		{"rollback", func() (*kube.Operation, error) { return counted.Rollback(2) }, 2}, // Helm reads the deployed revisions once it has created one
		{"uninstall", counted.Uninstall, 2},                                             // it changes a record first
	} {
		reads.Store(0)
		op, err := tt.prepare()
		planned, start := reads.Swap(0), time.Now()
		counted.MustRun(op, err)
		// On a slow machine, more than the time for which a read may be shared can pass before Helm's reads.
		if n := reads.Load(); planned != 1 || n != tt.want && time.Since(start) < time.Second {
			t.Errorf("%s: %d reads of the history to plan it, %d to run it", tt.name, planned, n)
		}
	}
}
