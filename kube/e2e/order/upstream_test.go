package order

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// subchartsChart returns a chart with a subchart that nothing names and one that Chart.yaml does not list. version is in all objects.
func subchartsChart(t *testing.T, version string) *charts.Chart {
	t.Helper()
	object := func(name string) string {
		return strings.Replace(rig.Deployment(name, nil, "300ms"), "example/app:1.0", "example/app:"+version, 1)
	}
	return rig.MakeChart(t, rig.Files{
		"Chart.yaml":                      "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: db, version: 1.0.0}\n",
		"charts/db/Chart.yaml":            "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/templates/all.yaml":    object("db"),
		"charts/extra/Chart.yaml":         "apiVersion: v2\nname: extra\nversion: 1.0.0\n",
		"charts/extra/templates/all.yaml": object("extra"),
		"templates/all.yaml":              object("own"),
	})
}

// TestUpstreamOrder: with --order=upstream, install and upgrade apply a subchart that nothing names before the one that
// Chart.yaml does not list, and both before the chart's own objects. Rollback and uninstall use the recorded order without
// the flag (R11a, R28).
func TestUpstreamOrder(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	order := []string{"Deployment/db", "Deployment/extra", "Deployment/own"}
	groups := []string{"edge/db:(unsequenced)", "edge/extra:(unsequenced)"}
	inOrder := func(what string, do func() rig.Outcome) {
		t.Helper()
		start := time.Now()
		out := do()
		tl := r.Timeline("lockstep").Since(start)
		for i, later := range order[1:] {
			ready := out.StatusTime(groups[i], event.Ready)
			if at, _ := tl.FirstWrite(t, []string{later}); ready.IsZero() || at.Before(ready.Truncate(time.Microsecond)) {
				t.Errorf("%s: %s was written at %s, %s was ready at %s", what, later, rig.Clock(at), order[i], rig.Clock(ready))
			}
		}
	}
	upstream := func(d *kube.Deploy) { d.Order = kube.OrderUpstream }
	inOrder("install", func() rig.Outcome {
		return r.MustRun(r.Install("plain", rig.UseChart(subchartsChart(t, "1"), upstream)))
	})
	inOrder("upgrade", func() rig.Outcome {
		return r.MustRun(r.Upgrade("plain", rig.UseChart(subchartsChart(t, "2"), upstream)))
	})
	declared := r.Must(r.Upgrade("plain", rig.UseChart(subchartsChart(t, "3"), nil)))
	for _, p := range declared.Phases() {
		for _, g := range p.Groups {
			if p.Name == helmclient.PhaseApply && len(g.After) > 0 {
				t.Errorf("without the flag, %s waits for %v", g.ID, g.After)
			}
		}
	}
	r.MustRun(declared, nil)
	inOrder("rollback", func() rig.Outcome { return r.MustRun(r.Rollback(2)) })
	start := time.Now()
	r.MustRun(r.Uninstall())
	slices.Reverse(order)
	tl := r.Timeline("lockstep").Since(start)
	for i, later := range order[1:] {
		before, _ := tl.FirstDelete(t, []string{order[i]})
		if at, _ := tl.FirstDelete(t, []string{later}); before.IsZero() || !at.After(before) {
			t.Errorf("uninstall: %s was deleted at %s, %s at %s", later, rig.Clock(at), order[i], rig.Clock(before))
		}
	}
}
