package library

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
	"helm.sh/helm/v4/pkg/engine"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// orderedHelm returns a configuration of Helm's SDK with NewOrdered.
func orderedHelm(r *rig.Rig, ctx context.Context, opts kube.OrderedOptions) *action.Configuration {
	r.T.Helper()
	cfg := r.Helm()
	done, err := kube.NewOrdered(ctx, cfg, opts)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(done)
	return cfg
}

func sdkInstall(r *rig.Rig, cfg *action.Configuration, c *chart.Chart, values map[string]any) error {
	i := action.NewInstall(cfg)
	i.ReleaseName, i.Namespace, i.WaitStrategy, i.Timeout, i.ServerSideApply = "t", r.Namespace, kube.WaitOrdered, time.Minute, true
	_, err := i.Run(c, values)
	return err
}

// loadWithHelm loads a chart with Helm's own loader.
func loadWithHelm(t *testing.T, _ *action.Configuration, name string) *chart.Chart {
	t.Helper()
	c, err := loader.Load(filepath.Join(rig.ChartsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loadWithLockstep loads a chart with lockstep's loader, for the next of Helm's actions.
func loadWithLockstep(t *testing.T, cfg *action.Configuration, name string) *chart.Chart {
	t.Helper()
	c := rig.HelmChart(t, rig.LoadChart(t, name))
	cfg.CustomTemplateFuncs = charts.NewRendering(t.Context(), c, engine.Engine{}, charts.NewGuard(charts.Limits{})).Funcs()
	return c
}

// TestHelmsActionsInOrder runs Helm's own actions with an ordered configuration and checks the
// order in the audit log.
func TestHelmsActionsInOrder(t *testing.T) {
	for name, load := range map[string]func(*testing.T, *action.Configuration, string) *chart.Chart{"shop": loadWithLockstep, "hip9999-layers": loadWithHelm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			var mu sync.Mutex
			var groups []string
			var shared *kube.Watches
			if name == "shop" { // with watches that the caller shares
				var err error
				if shared, err = r.Client.Watch(t.Context(), kube.WatchOptions{}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(shared.Close)
			}
			cfg := orderedHelm(r, t.Context(), kube.OrderedOptions{Watches: shared, Events: func(e event.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == event.KindGroup && e.Status == event.Running {
					groups = append(groups, e.Phase+" "+e.Group)
				}
			}})
			if err := sdkInstall(r, cfg, load(t, cfg, name), r.Values(name)); err != nil {
				t.Fatal(err)
			}
			assertInOrder(r, name)
			r.AssertDeployed("t")
			mu.Lock()
			if want := rig.ExpectedPlan(t, name, r.Namespace); len(groups) != len(want) {
				t.Errorf("groups %v, want %d", groups, len(want))
			}
			groups = nil
			mu.Unlock()

			u := action.NewUpgrade(cfg)
			u.Namespace, u.WaitStrategy, u.Timeout = r.Namespace, kube.WaitOrdered, time.Minute
			if _, err := u.Run("t", load(t, cfg, name), rig.MergeValues(r.Values(name), nil)); err != nil {
				t.Fatal(err)
			}
			b := action.NewRollback(cfg)
			b.Version, b.WaitStrategy, b.Timeout = 1, kube.WaitOrdered, time.Minute
			if err := b.Run("t"); err != nil {
				t.Fatal(err)
			}
			if got, want := r.History(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
			mu.Lock()
			groups = nil
			mu.Unlock()
			un := action.NewUninstall(cfg)
			un.WaitStrategy, un.Timeout = kube.WaitOrdered, time.Minute
			if _, err := un.Run("t"); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			assertReversed(r, name, groups)
		})
	}
}

// assertInOrder checks in the audit log that no group was written before its dependencies were
// ready.
func assertInOrder(r *rig.Rig, chart string) {
	r.T.Helper()
	timeline, groups := r.Timeline("lockstep"), rig.ExpectedPlan(r.T, chart, r.Namespace)
	for id, g := range groups {
		first, firstName := timeline.FirstWrite(r.T, g.Objects)
		for _, dependency := range g.Dependencies {
			if ready, name := timeline.Ready(r.T, groups[dependency].Objects); first.Before(ready) {
				r.T.Errorf("%s: %s was written at %s, before %s of %s was ready at %s", id, firstName, rig.Clock(first), name, dependency, rig.Clock(ready))
			}
		}
	}
}

// assertReversed checks that groups ran in reverse of a chart's plan.
func assertReversed(r *rig.Rig, chart string, ran []string) {
	r.T.Helper()
	groups := rig.ExpectedPlan(r.T, chart, r.Namespace)
	if len(ran) != len(groups) {
		r.T.Errorf("%d groups were removed, want %d: %v", len(ran), len(groups), ran)
	}
	for id, g := range groups {
		for _, dependency := range g.Dependencies {
			if slices.Index(ran, helmclient.PhaseRemove+" "+dependency) < slices.Index(ran, helmclient.PhaseRemove+" "+id) {
				r.T.Errorf("%s was removed before %s, which waited for it: %v", dependency, id, ran)
			}
		}
	}
}

// TestHelmsActionFails: a resource that does not become ready fails Helm's action, and the
// error names the group.
func TestHelmsActionFails(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	cfg := orderedHelm(r, t.Context(), kube.OrderedOptions{ReadinessTimeout: 6 * time.Second})
	err := sdkInstall(r, cfg, loadWithLockstep(t, cfg, "fail-image"), nil)
	if err == nil || !strings.Contains(err.Error(), "Deployment/broken") {
		t.Errorf("error %v", err)
	}
	if got := r.History(); !slices.Equal(got, []string{"1 failed"}) {
		t.Errorf("history %v", got)
	}
}

// TestHelmsActionIsAborted: cancelling the context of NewOrdered ends an action.
func TestHelmsActionIsAborted(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := orderedHelm(r, ctx, kube.OrderedOptions{Events: func(e event.Event) {
		if e.Kind == event.KindGroup && e.Status == event.Running {
			cancel()
		}
	}})
	start := time.Now()
	if err := sdkInstall(r, cfg, loadWithLockstep(t, cfg, "slow"), map[string]any{"readyDelay": "60s"}); err == nil {
		t.Error("the aborted install returns no error")
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the install took %s", took)
	}
	if got := r.History(); !slices.Equal(got, []string{"1 failed"}) {
		t.Errorf("history %v", got)
	}
}

// TestNewOrderedNeedsInit: NewOrdered returns an error that names the missing call.
func TestNewOrderedNeedsInit(t *testing.T) {
	if _, err := kube.NewOrdered(t.Context(), action.NewConfiguration(), kube.OrderedOptions{}); err == nil || !strings.Contains(err.Error(), "call Init") {
		t.Errorf("error %v", err)
	}
}
