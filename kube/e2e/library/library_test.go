package library

import (
	"context"
	"errors"
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
	"lockstep/engine/plan"
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
	cfg := orderedHelm(r, t.Context(), kube.OrderedOptions{ReadinessTimeout: 15 * time.Second})
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

// TestApprovalsOfOtherPrograms (R42a): a program that uses Helm's actions asks its own approver. Without one, what needs an approval
// fails at once, with an error that says so, and changes no object.
func TestApprovalsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chartOf := func(v string) *chart.Chart {
		return rig.HelmChart(t, rig.ChartOf(t, rig.ConfigMap("first", rig.Group("a"), "v: "+v), rig.ConfigMap("schema", map[string]string{
			"helm.sh/resource-group": "b", "helm.sh/depends-on/resource-groups": `["a"]`, "lockstep/approve": "drops table users",
		}, "v: "+v)))
	}
	var asked []plan.Approval
	refused := errors.New("not on a Friday")
	approve := func(by string, err error) kube.OrderedOptions {
		return kube.OrderedOptions{Approve: func(_ context.Context, a plan.Approval) (string, error) {
			asked = append(asked, a)
			return by, err
		}}
	}
	upgrade := func(opts kube.OrderedOptions, v string) error {
		u := action.NewUpgrade(orderedHelm(r, t.Context(), opts))
		u.Namespace, u.WaitStrategy, u.Timeout = r.Namespace, kube.WaitOrdered, time.Minute
		_, err := u.Run("t", chartOf(v), nil)
		return err
	}
	if err := sdkInstall(r, orderedHelm(r, t.Context(), approve("ann", nil)), chartOf("one"), nil); err != nil || len(asked) != 1 || asked[0].Reason != "drops table users" {
		t.Fatalf("%v, asked for %v", err, asked)
	}
	if err := upgrade(approve("ann", nil), "two"); err != nil || len(asked) != 2 {
		t.Fatalf("%v, asked for %v", err, asked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	back := action.NewRollback(orderedHelm(r, ctx, kube.OrderedOptions{}))
	back.Version, back.WaitStrategy, back.Timeout = 1, kube.WaitOrdered, time.Minute
	if err := back.Run("t"); err == nil || !strings.Contains(err.Error(), "waits for approval: drops table users, and this program has nobody to ask") || r.ConfigMapData("first")["v"] != "two" {
		t.Errorf("a rollback without an approver: %v, first is %v", err, r.ConfigMapData("first"))
	}
	if err := upgrade(approve("", refused), "three"); err == nil || !strings.Contains(err.Error(), refused.Error()) || r.ConfigMapData("schema")["v"] != "two" {
		t.Errorf("an upgrade that is not approved: %v, schema is %v", err, r.ConfigMapData("schema"))
	}
}
