package kube

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube/throwaway/auditlog"
)

// together carries out operations at the same time, which must all succeed.
func together(t *testing.T, many int, prepare func(n int) (*rig, *Operation, error)) {
	t.Helper()
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() {
			r, op, err := prepare(n)
			if err != nil {
				t.Errorf("release %d: %v", n, err)
				return
			}
			if out := r.run(op, nil); out.err != nil || out.state.Exit != 0 {
				t.Errorf("%s of release %d: %v, exit %d", op.Info().Name, n, out.err, out.state.Exit)
			}
			for _, e := range op.Feed().Events() {
				if e.Object != nil && e.Object.Namespace != r.namespace {
					t.Errorf("release %d is told of %s in %s", n, e.Object, e.Object.Namespace)
				}
			}
		})
	}
	all.Wait()
}

// assertFewWatches compares how many watches lockstep has begun of the kinds that the
// test's charts have, in a namespace or with "" of all: one of each, or two where the
// API server has ended one meanwhile.
func assertFewWatches(t *testing.T, namespace string) {
	t.Helper()
	n := watches(t, namespace)
	for _, resource := range []string{"configmaps", "deployments", "pods", "events"} {
		if n[resource] < 1 || n[resource] > 2 {
			t.Errorf("%d watches of %s, want one", n[resource], resource)
		}
	}
}

// watches counts the watches that lockstep has had open at the same time, by resource,
// of a namespace or with "" of all. One that ends is followed by the next.
func watches(t *testing.T, namespace string) map[string]int {
	t.Helper()
	log, err := auditlog.Read(sandbox.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	log = log.UserAgent("lockstep").Where(func(e auditlog.Event) bool { return e.Verb == "watch" && e.Object.Namespace == namespace })
	ended := map[string]time.Time{}
	for _, e := range log {
		if e.Stage == auditlog.ResponseComplete {
			ended[e.AuditID] = e.At
		}
	}
	most := map[string]int{}
	for _, last := range log {
		open := 0
		for _, e := range log {
			end, over := ended[e.AuditID]
			if e.Stage == auditlog.ResponseStarted && e.Object.Resource == last.Object.Resource && !e.At.After(last.At) && (!over || end.After(last.At)) {
				open++
			}
		}
		if last.Stage == auditlog.ResponseStarted {
			most[last.Object.Resource] = max(most[last.Object.Resource], open)
		}
	}
	return most
}

// TestReleasesShareWatches: however many releases one program has at work, in however
// many namespaces, there is one watch of a kind; and each release is in order, all the
// same, when it comes and when it goes.
func TestReleasesShareWatches(t *testing.T) {
	t.Parallel()
	const many = 10
	client := connected(t, "default")
	shared, err := client.Watch(t.Context(), WatchOptions{AllNamespaces: true, Linger: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	chart := one(t, configMap("config", group("config")), deployment("web", group("web", "config"), "400ms"), configMap("done", group("done", "web")))
	rigs := make([]*rig, many)
	for n := range rigs {
		rigs[n] = newRigNamed(t, "sharing-"+strconv.Itoa(n))
		rigs[n].client = client
	}
	common := func(r *rig) Common {
		c := r.common()
		c.Watches = shared
		return c
	}
	together(t, many, func(n int) (*rig, *Operation, error) {
		op, err := rigs[n].install("plain", use(chart, func(i *Install) { i.Common = common(rigs[n]) }))
		return rigs[n], op, err
	})
	assertFewWatches(t, "")
	for n, r := range rigs {
		tl := r.timeline("lockstep")
		web, _ := tl.firstWrite(t, []string{"Deployment/web"})
		if config, _ := tl.ready(t, []string{"ConfigMap/config"}); web.Before(config) {
			t.Errorf("release %d: web was written before config was there", n)
		}
		done, _ := tl.firstWrite(t, []string{"ConfigMap/done"})
		if ready, _ := tl.ready(t, []string{"Deployment/web"}); done.Before(ready) {
			t.Errorf("release %d: done was written at %s, before web was ready at %s", n, clock(done), clock(ready))
		}
		if own := watches(t, r.namespace); len(own) > 0 {
			t.Errorf("release %d has watches of its own: %v", n, own)
		}
	}
	together(t, many, func(n int) (*rig, *Operation, error) {
		op, err := rigs[n].client.PrepareUninstall(t.Context(), Uninstall{Common: common(rigs[n])})
		return rigs[n], op, err
	})
	for n, r := range rigs {
		tl := r.timeline("lockstep")
		for _, pair := range [][2]string{{"ConfigMap/done", "Deployment/web"}, {"Deployment/web", "ConfigMap/config"}} {
			first, _ := tl.deleted(t, pair[:1])
			if then, _ := tl.firstDelete(t, pair[1:]); then.Before(first) || first.IsZero() {
				t.Errorf("release %d: %s was deleted at %s, %s at %s", n, pair[1], clock(then), pair[0], clock(first))
			}
		}
		if left := r.left(); len(left) > 0 {
			t.Errorf("release %d has left %v", n, left)
		}
	}
	assertFewWatches(t, "")
}

// TestReleasesOfOneNamespaceShareWatches: also without the right to watch more than
// that, and one that fails tells of no other.
func TestReleasesOfOneNamespaceShareWatches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	shared, err := r.client.Watch(t.Context(), WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	const many = 5
	var all sync.WaitGroup
	for n := range many {
		name := "r" + strconv.Itoa(n)
		docs := []string{deployment(name, group("web"), "200ms"), configMap(name+"-done", group("done", "web"))}
		if n == 0 {
			docs[0] = deployment(name, group("web"), "1h")
		}
		chart := one(t, docs...)
		all.Go(func() {
			op, err := r.install("plain", use(chart, func(i *Install) {
				i.Release, i.Watches = name, shared
				if n == 0 {
					i.ReadinessTimeout = 5 * time.Second
				}
			}))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			out := r.run(op, nil)
			if failed := out.state.Status == event.Failed; failed != (n == 0) {
				t.Errorf("%s: %v", name, out.err)
			}
		})
	}
	all.Wait()
	assertFewWatches(t, r.namespace)
}
