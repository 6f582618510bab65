package library

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
)

// sharingUser is the user of TestReleasesShareWatches.
const sharingUser = "sharing"

// runTogether runs operations at the same time, which must all succeed.
func runTogether(t *testing.T, many int, prepare func(n int) (*rig.Rig, *kube.Operation, error)) {
	t.Helper()
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() {
			r, op, err := prepare(n)
			if err != nil {
				t.Errorf("release %d: %v", n, err)
				return
			}
			if out := r.Run(op, nil); out.Err != nil || out.State.Exit != 0 {
				t.Errorf("%s of release %d: %v, exit %d", op.Info().Name, n, out.Err, out.State.Exit)
			}
			for _, e := range op.Feed().Events() {
				if e.Object != nil && e.Object.Namespace != r.Namespace {
					t.Errorf("release %d has an event about %s in %s", n, e.Object, e.Object.Namespace)
				}
			}
		})
	}
	all.Wait()
}

// assertFewWatches checks that there was one watch for each kind of the test's charts, in a namespace or, for "", in all
// namespaces. A second one is allowed, because the API server may end a watch.
func assertFewWatches(t *testing.T, namespace string) {
	t.Helper()
	n := watches(t, namespace)
	for _, resource := range []string{"configmaps", "deployments", "pods", "events"} {
		if n[resource] < 1 || n[resource] > 2 {
			t.Errorf("%d watches of %s, want one", n[resource], resource)
		}
	}
}

// watches counts the watches that lockstep has had open at the same time, by resource, in a
// namespace or, for "", in all namespaces by sharingUser.
func watches(t *testing.T, namespace string) map[string]int {
	t.Helper()
	log, err := rig.Sandbox.Log()
	if err != nil {
		t.Fatal(err)
	}
	log = log.UserAgent("lockstep").Where(func(e auditlog.Event) bool {
		return e.Verb == "watch" && e.Object.Namespace == namespace && (namespace != "" || e.Username == sharingUser)
	})
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

// TestReleasesShareWatches: one program has one watch per kind for any number of releases and
// namespaces, and each release is deployed and removed in order.
func TestReleasesShareWatches(t *testing.T) {
	t.Parallel()
	const many = 10
	// A separate user, because other test packages also watch all namespaces.
	client := rig.Connect(t, "default", func(s *cli.EnvSettings) { s.KubeAsUser, s.KubeAsGroups = sharingUser, []string{"system:masters"} })
	shared, err := client.Watch(t.Context(), kube.WatchOptions{AllNamespaces: true, Linger: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	chart := rig.ChartOf(t, rig.ConfigMap("config", rig.Group("config")), rig.Deployment("web", rig.Group("web", "config"), "400ms"), rig.ConfigMap("done", rig.Group("done", "web")))
	rigs := make([]*rig.Rig, many)
	for n := range rigs {
		rigs[n] = rig.NewNamed(t, "sharing-"+strconv.Itoa(n))
		rigs[n].Client = client
	}
	common := func(r *rig.Rig) kube.Common {
		c := r.Common()
		c.Watches = shared
		return c
	}
	runTogether(t, many, func(n int) (*rig.Rig, *kube.Operation, error) {
		op, err := rigs[n].Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Common = common(rigs[n]) }))
		return rigs[n], op, err
	})
	assertFewWatches(t, "")
	for n, r := range rigs {
		tl := r.Timeline("lockstep")
		web, _ := tl.FirstWrite(t, []string{"Deployment/web"})
		if config, _ := tl.Ready(t, []string{"ConfigMap/config"}); web.Before(config) {
			t.Errorf("release %d: web was written before config existed", n)
		}
		done, _ := tl.FirstWrite(t, []string{"ConfigMap/done"})
		if ready, _ := tl.Ready(t, []string{"Deployment/web"}); done.Before(ready) {
			t.Errorf("release %d: done was written at %s, before web was ready at %s", n, rig.Clock(done), rig.Clock(ready))
		}
		if own := watches(t, r.Namespace); len(own) > 0 {
			t.Errorf("release %d does not use the shared watches: %v", n, own)
		}
	}
	runTogether(t, many, func(n int) (*rig.Rig, *kube.Operation, error) {
		op, err := rigs[n].Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: common(rigs[n])})
		return rigs[n], op, err
	})
	for n, r := range rigs {
		tl := r.Timeline("lockstep")
		for _, pair := range [][2]string{{"ConfigMap/done", "Deployment/web"}, {"Deployment/web", "ConfigMap/config"}} {
			first, _ := tl.LastDelete(t, pair[:1])
			if then, _ := tl.FirstDelete(t, pair[1:]); then.Before(first) || first.IsZero() {
				t.Errorf("release %d: %s was deleted at %s, %s at %s", n, pair[1], rig.Clock(then), pair[0], rig.Clock(first))
			}
		}
		if left := r.Remaining(); len(left) > 0 {
			t.Errorf("release %d: not removed: %v", n, left)
		}
	}
	assertFewWatches(t, "")
}

// TestReleasesOfOneNamespaceShareWatches: releases of one namespace share watches even without
// permissions in other namespaces, and a failed release reports nothing about others.
func TestReleasesOfOneNamespaceShareWatches(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	shared, err := r.Client.Watch(t.Context(), kube.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	const many = 5
	var all sync.WaitGroup
	for n := range many {
		name := "r" + strconv.Itoa(n)
		docs := []string{rig.Deployment(name, rig.Group("web"), "200ms"), rig.ConfigMap(name+"-done", rig.Group("done", "web"))}
		if n == 0 {
			docs[0] = rig.Deployment(name, rig.Group("web"), "1h")
		}
		chart := rig.ChartOf(t, docs...)
		all.Go(func() {
			op, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) {
				i.Release, i.Watches = name, shared
				if n == 0 {
					i.ReadinessTimeout = 5 * time.Second
				}
			}))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			out := r.Run(op, nil)
			if failed := out.State.Status == event.Failed; failed != (n == 0) {
				t.Errorf("%s: %v", name, out.Err)
			}
		})
	}
	all.Wait()
	assertFewWatches(t, r.Namespace)
}
