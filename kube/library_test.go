package kube

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/helmclient"
)

// orderedHelm is a configuration of Helm's own SDK, made ordered.
func (r *rig) orderedHelm(ctx context.Context, opts OrderedOptions) *action.Configuration {
	r.t.Helper()
	cfg := r.helm()
	done, err := NewOrdered(ctx, cfg, opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(done)
	return cfg
}

func (r *rig) sdkInstall(cfg *action.Configuration, c *chart.Chart, values map[string]any) error {
	i := action.NewInstall(cfg)
	i.ReleaseName, i.Namespace, i.WaitStrategy, i.Timeout, i.ServerSideApply = "t", r.namespace, WaitOrdered, time.Minute, true
	_, err := i.Run(c, values)
	return err
}

// helmLoads loads a chart with Helm's own loader.
func helmLoads(t *testing.T, name string) *chart.Chart {
	t.Helper()
	c, err := loader.Load(filepath.Join(chartsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// weLoad loads a chart with our loader, for Helm's actions.
func weLoad(t *testing.T, name string) *chart.Chart {
	t.Helper()
	c := mustHelm(t, loadChart(t, name))
	charts.WrapTemplates(c)
	return c
}

// TestHelmsActionsInOrder runs Helm's own actions with an ordered
// configuration, and proves the order from the audit log.
func TestHelmsActionsInOrder(t *testing.T) {
	for name, load := range map[string]func(*testing.T, string) *chart.Chart{"shop": weLoad, "hip9999-layers": helmLoads} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var mu sync.Mutex
			var groups []string
			var shared *Watches
			if name == "shop" { // as by some of its own
				var err error
				if shared, err = r.client.Watch(t.Context(), WatchOptions{}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(shared.Close)
			}
			cfg := r.orderedHelm(t.Context(), OrderedOptions{Watches: shared, Events: func(e event.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == event.KindGroup && e.Status == event.Running {
					groups = append(groups, e.Phase+" "+e.Group)
				}
			}})
			if err := r.sdkInstall(cfg, load(t, name), r.values(name)); err != nil {
				t.Fatal(err)
			}
			r.assertInOrder(name)
			r.assertDeployed("t")
			mu.Lock()
			if want := oracle(t, name, r.namespace); len(groups) != len(want) {
				t.Errorf("groups %v, want %d", groups, len(want))
			}
			groups = nil
			mu.Unlock()

			u := action.NewUpgrade(cfg)
			u.Namespace, u.WaitStrategy, u.Timeout = r.namespace, WaitOrdered, time.Minute
			if _, err := u.Run("t", load(t, name), with(r.values(name), nil)); err != nil {
				t.Fatal(err)
			}
			b := action.NewRollback(cfg)
			b.Version, b.WaitStrategy, b.Timeout = 1, WaitOrdered, time.Minute
			if err := b.Run("t"); err != nil {
				t.Fatal(err)
			}
			if got, want := r.history(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
			mu.Lock()
			groups = nil
			mu.Unlock()
			un := action.NewUninstall(cfg)
			un.WaitStrategy, un.Timeout = WaitOrdered, time.Minute
			if _, err := un.Run("t"); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			r.assertReversed(name, groups)
		})
	}
}

// assertInOrder proves from the audit log that no group was written before its
// gates were ready.
func (r *rig) assertInOrder(chart string) {
	r.t.Helper()
	timeline, groups := r.timeline("lockstep"), oracle(r.t, chart, r.namespace)
	for id, g := range groups {
		first, firstName := timeline.firstWrite(r.t, g.objects)
		for _, gate := range g.gates {
			if ready, name := timeline.ready(r.t, groups[gate].objects); first.Before(ready) {
				r.t.Errorf("%s: %s was written at %s, before %s of %s was ready at %s", id, firstName, clock(first), name, gate, clock(ready))
			}
		}
	}
}

// assertReversed proves that groups ran in reverse of a chart's plan.
func (r *rig) assertReversed(chart string, ran []string) {
	r.t.Helper()
	groups := oracle(r.t, chart, r.namespace)
	if len(ran) != len(groups) {
		r.t.Errorf("%d groups were removed, want %d: %v", len(ran), len(groups), ran)
	}
	for id, g := range groups {
		for _, gate := range g.gates {
			if slices.Index(ran, helmclient.PhaseRemove+" "+gate) < slices.Index(ran, helmclient.PhaseRemove+" "+id) {
				r.t.Errorf("%s was removed before %s, which waited for it: %v", gate, id, ran)
			}
		}
	}
}

// TestHelmsActionFails has a resource that does not become ready fail Helm's
// action, with the group in the error.
func TestHelmsActionFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.orderedHelm(t.Context(), OrderedOptions{ReadinessTimeout: 6 * time.Second})
	err := r.sdkInstall(cfg, weLoad(t, "fail-image"), nil)
	if err == nil || !strings.Contains(err.Error(), "Deployment/broken") {
		t.Errorf("error %v", err)
	}
	if got := r.history(); !slices.Equal(got, []string{"1 failed"}) {
		t.Errorf("history %v", got)
	}
}

// TestHelmsActionIsAborted ends an action by the context of NewOrdered.
func TestHelmsActionIsAborted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := r.orderedHelm(ctx, OrderedOptions{Events: func(e event.Event) {
		if e.Kind == event.KindGroup && e.Status == event.Running {
			cancel()
		}
	}})
	start := time.Now()
	if err := r.sdkInstall(cfg, weLoad(t, "slow"), map[string]any{"readyDelay": "60s"}); err == nil {
		t.Error("no error")
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if got := r.history(); !slices.Equal(got, []string{"1 failed"}) {
		t.Errorf("history %v", got)
	}
}

// TestNewOrderedNeedsInit tells what is missing.
func TestNewOrderedNeedsInit(t *testing.T) {
	if _, err := NewOrdered(t.Context(), action.NewConfiguration(), OrderedOptions{}); err == nil || !strings.Contains(err.Error(), "call Init") {
		t.Errorf("error %v", err)
	}
}
