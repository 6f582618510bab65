package kube

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/throwaway/auditlog"
)

// notInstallable are the charts that are made to fail; failure_test.go has
// them.
var notInstallable = []string{"fail-hook", "fail-image", "fail-readiness"}

// installable names the charts of testdata that install.
func installable(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(chartsDir, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no charts", err)
	}
	var names []string
	for _, dir := range dirs {
		if name := filepath.Base(dir); !slices.Contains(notInstallable, name) {
			names = append(names, name)
		}
	}
	return names
}

// TestOrderOfEveryChart installs every chart and proves the order from the API
// server's audit log: no write of a group before the last status update that
// made its gates ready (R7, R10, R11, R14, R18, R19, R21 to R23).
func TestOrderOfEveryChart(t *testing.T) {
	t.Parallel()
	for _, chart := range installable(t) {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy(chart, nil)
			timeline := r.timeline("lockstep")
			groups := oracle(t, chart, r.namespace)
			for id, g := range groups {
				first, firstName := timeline.firstWrite(t, g.objects)
				for _, gate := range g.gates {
					ready, name := timeline.ready(t, groups[gate].objects)
					if first.Before(ready) {
						t.Errorf("%s: %s was written at %s, before %s of %s was ready at %s",
							id, firstName, clock(first), name, gate, clock(ready))
					}
				}
			}
			r.assertDeployed("t")
			if t.Failed() {
				timeline.dump(t)
			}
		})
	}
}

func clock(t time.Time) string { return t.Format("04:05.000000") }

// TestIndependentGroupsOverlap proves R14 from the audit log: groups without a
// path between them are under way at the same time.
func TestIndependentGroupsOverlap(t *testing.T) {
	t.Parallel()
	for chart, pair := range map[string][2]string{
		"fanout": independentGroups(t, "fanout"),
		"shop":   {"shop/db:database", "shop/queue:broker"},
	} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy(chart, nil)
			timeline, groups := r.timeline("lockstep"), oracle(t, chart, r.namespace)
			a, b := groups[pair[0]], groups[pair[1]]
			aFirst, _ := timeline.firstWrite(t, a.objects)
			bFirst, _ := timeline.firstWrite(t, b.objects)
			aReady, _ := timeline.ready(t, a.objects)
			bReady, _ := timeline.ready(t, b.objects)
			if !aFirst.Before(bReady) || !bFirst.Before(aReady) {
				t.Errorf("%s (%s to %s) and %s (%s to %s) did not overlap", pair[0], clock(aFirst), clock(aReady), pair[1], clock(bFirst), clock(bReady))
			}
		})
	}
}

// independentGroups finds two groups of the oracle that do not wait for each
// other, directly or not.
func independentGroups(t *testing.T, chart string) [2]string {
	groups := oracle(t, chart, "default")
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return slices.ContainsFunc(groups[from].gates, func(g string) bool { return g == to || reaches(g, to) })
	}
	var ids []string
	for id, g := range groups {
		if slices.ContainsFunc(g.objects, func(o string) bool { return strings.HasPrefix(o, "Deployment/") }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, a := range ids {
		for _, b := range ids {
			if a != b && !reaches(a, b) && !reaches(b, a) {
				return [2]string{a, b}
			}
		}
	}
	t.Fatalf("no independent groups in %s", chart)
	return [2]string{}
}

// timeline is what the audit log says of the objects of a namespace.
type timeline struct {
	events auditlog.Log
	agent  string
	plural map[string]schema.GroupVersionResource // by kind
}

func (r *rig) timeline(agent string) *timeline {
	r.t.Helper()
	tl := &timeline{events: r.audit(), agent: agent, plural: map[string]schema.GroupVersionResource{}}
	client, err := r.client.getter.ToDiscoveryClient()
	if err != nil {
		r.t.Fatal(err)
	}
	client.Invalidate()
	lists, err := client.ServerPreferredResources()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, l := range lists {
		gv, _ := schema.ParseGroupVersion(l.GroupVersion)
		for _, res := range l.APIResources {
			if old, ok := tl.plural[res.Kind]; ok && (old.Group == "" || old.Group == "apps" || !strings.HasPrefix(gv.Group, r.namespace)) {
				continue
			}
			tl.plural[res.Kind] = gv.WithResource(res.Name)
		}
	}
	return tl
}

// dump logs what changed in the namespace, in order.
func (tl *timeline) dump(t *testing.T) {
	for _, e := range tl.events {
		if e.Object.Namespace != "" && e.Object.Resource != "events" {
			t.Logf("%s %s %s/%s %s by %s", clock(e.Received), e.Verb, e.Object.Resource, e.Object.Name, e.Object.Subresource, e.UserAgent)
		}
	}
}

// of returns the events about an object, "Kind/name", in order.
func (tl *timeline) of(t *testing.T, object string) []auditlog.Event {
	t.Helper()
	kind, name, _ := strings.Cut(object, "/")
	gvr, ok := tl.plural[kind]
	if !ok {
		t.Fatalf("the cluster does not know kind %s", kind)
	}
	var out []auditlog.Event
	for _, e := range tl.events {
		if e.Object.Resource == gvr.Resource && e.Object.Name == name {
			out = append(out, e)
		}
	}
	return out
}

// firstWrite is when the first write of any of the objects arrived.
func (tl *timeline) firstWrite(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		found := false
		for _, e := range tl.of(t, o) {
			if e.UserAgent != tl.agent || e.Object.Subresource != "" {
				continue
			}
			found = true
			if at.IsZero() || e.Received.Before(at) {
				at, which = e.Received, o
			}
		}
		if !found {
			t.Errorf("%s was never written", o)
		}
	}
	return at, which
}

// notAwaited are objects whose status nobody waits for (R22).
var notAwaited = []string{"Deployment/paused"}

// ready is when the last of the objects had become ready: when the status came
// in that can have made it so, or the answer to its own write where nobody
// writes its status.
func (tl *timeline) ready(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		var own, status []time.Time
		for _, e := range tl.of(t, o) {
			switch {
			case e.Object.Subresource == "status":
				status = append(status, e.Received)
			case e.UserAgent == tl.agent:
				own = append(own, e.At)
			}
		}
		var done time.Time
		switch {
		case len(status) > 0 && !slices.Contains(notAwaited, o):
			done = tl.decisive(o, status)
		case len(own) > 0:
			done = own[0]
		default:
			t.Errorf("%s was never written", o)
		}
		if done.After(at) {
			at, which = done, o
		}
	}
	return at, which
}

// decisive picks, among the times at which an object's status was written, the
// one that made it ready. Workloads are ready with the first status after the
// last status of their pods, and may write another one later; a Job that
// nobody wants complete is ready with its first status (R22).
func (tl *timeline) decisive(o string, status []time.Time) time.Time {
	kind, name, _ := strings.Cut(o, "/")
	switch kind {
	case "Job":
		return status[0]
	case "Deployment", "StatefulSet", "DaemonSet":
		var pods time.Time
		for _, e := range tl.events {
			if e.Object.Resource == "pods" && e.Object.Subresource == "status" && strings.HasPrefix(e.Object.Name, name+"-") && e.Received.After(pods) {
				pods = e.Received
			}
		}
		for _, s := range status {
			if s.After(pods) {
				return s
			}
		}
	}
	return status[len(status)-1]
}

// assertDeployed shows through Helm's own SDK that a release is an ordinary
// one, deployed (R28).
func (r *rig) assertDeployed(name string) {
	r.t.Helper()
	cfg := r.helm()
	list := action.NewList(cfg)
	releases, err := list.Run()
	if err != nil {
		r.t.Fatal(err)
	}
	var found []string
	for _, x := range releases {
		rel, err := asV1(x)
		if err != nil {
			r.t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%s %d %s", rel.Name, rel.Version, rel.Info.Status))
	}
	if want := name + " 1 deployed"; len(found) != 1 || found[0] != want {
		r.t.Errorf("Helm lists %v, want [%s]", found, want)
	}
	x, err := action.NewGet(cfg).Run(name)
	if err != nil {
		r.t.Fatal(err)
	}
	rel, err := asV1(x)
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.Contains(rel.Manifest, "helm.sh/depends-on/") || strings.Contains(rel.Manifest, "helm.sh/dependson/") {
		r.t.Errorf("the stored manifest has annotation keys that an API server refuses (R3)")
	}
	if rec := readRecord(rel); rec == nil || !rec.Sequenced {
		r.t.Errorf("the release does not tell that it was sequenced (R28): %+v", rec)
	}
}
