package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestSubchartsThroughUpgradeAndRollback: the upgrade and the rollback, which has only the release record, have the same
// plan as the install. The charts have two aliases of a subchart, three levels of subcharts, and a dependency on a disabled
// one (R4, R12, R28).
func TestSubchartsThroughUpgradeAndRollback(t *testing.T) {
	for _, chart := range []string{"alias-twice", "three-levels", "disabled-dep"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			plan := func(out rig.Outcome) string {
				var text strings.Builder
				for _, g := range out.State.Phases[0].Groups {
					fmt.Fprintln(&text, g.ID, g.After, g.Group.Objects)
				}
				return text.String()
			}
			want := plan(r.Deploy(chart, nil))
			if got := plan(r.MustRun(r.Upgrade(chart, nil))); got != want {
				t.Errorf("the upgrade's plan is\n%swant\n%s", got, want)
			}
			if got := plan(r.MustRun(r.Rollback(1))); got != want {
				t.Errorf("the rollback's plan is\n%swant\n%s", got, want)
			}
		})
	}
}

// chained returns a chart whose subchart app waits for its subchart db. Later operations know this order only from the
// release record (R28). db is ready after a delay.
func chained(version, image string) rig.Files {
	sub := func(name string) string { return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" }
	return rig.Files{
		"Chart.yaml":                   "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: app, version: 1.0.0, depends-on: [db]}\n- {name: db, version: 1.0.0}\n",
		"charts/app/Chart.yaml":        sub("app"),
		"charts/app/templates/all.yml": rig.ConfigMap("app", nil, "version: "+version),
		"charts/db/Chart.yaml":         sub("db"),
		"charts/db/templates/all.yml": strings.ReplaceAll(rig.ConfigMap("db", nil, "version: "+version)+"\n---\n"+rig.Deployment("store", nil, "400ms", "  replicas: 1"),
			"example/app:1.0", image),
	}
}

// assertChained checks in the audit log that app was written after db was ready, since a time.
func assertChained(r *rig.Rig, what string, since time.Time) {
	r.T.Helper()
	tl := r.Timeline("lockstep").Since(since)
	ready, _ := tl.Ready(r.T, []string{"Deployment/store"})
	app, _ := tl.FirstWrite(r.T, []string{"ConfigMap/app"})
	if app.Before(ready) {
		r.T.Errorf("%s: app was written at %s, before db was ready at %s", what, rig.Clock(app), rig.Clock(ready))
	}
}

// TestHistoryMax keeps the given number of revisions, each with a record for an ordered
// rollback and uninstall (R28, R31, R32).
func TestHistoryMax(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(v string) func(*kube.Deploy) {
		return rig.UseChart(rig.MakeChart(t, chained(v, "example/app:"+v)), func(u *kube.Deploy) { u.Install, u.HistoryMax = true, 2 })
	}
	for _, v := range []string{"v1", "v2", "v3", "v4"} {
		r.MustRun(r.Upgrade("plain", chart(v)))
	}
	r.AssertHistory("3 superseded", "4 deployed")
	start := time.Now()
	op, err := r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: kube.Common{Release: "t", Namespace: r.Namespace}, Revision: 3, HistoryMax: 2})
	r.MustRun(op, err)
	r.AssertHistory("4 superseded", "5 deployed")
	assertChained(r, "rollback", start)

	// Even with --history-max 1 the deployed revision is kept for the rollback on failure. As in Helm, that rollback
	// prunes no revisions.
	op = r.Must(r.Upgrade("plain", func(u *kube.Deploy) {
		chart("v6")(u)
		u.Chart = rig.MakeChart(t, chained("v6", "example/no-such-image:6"))
		u.HistoryMax, u.RollbackOnFailure, u.ReadinessTimeout = 1, true, 8*time.Second
	}))
	if out := r.Run(op, nil); out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision 5") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	r.AssertHistory("5 superseded", "6 failed", "7 deployed")

	op, err = r.Uninstall()
	if out := r.MustRun(op, err); !slices.Equal(out.EndedGroups(), []string{"edge/app:(unsequenced)", "edge/db:(unsequenced)"}) {
		t.Errorf("uninstalled %v", out.EndedGroups())
	}
	if got := r.ConfigMaps(r.Namespace); len(got) > 0 || r.Status() != "" {
		t.Errorf("remaining: %v, the release is %q", got, r.Status())
	}
}

// TestUnreadOrder: without an order that can be read, an uninstall and a rollback refuse, unless checks are skipped, and an upgrade and
// a view warn (R28, R31, R32).
func TestUnreadOrder(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.MakeChart(t, chained("v1", "example/app:v1")), nil))
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.MakeChart(t, chained("v2", "example/app:v2")), nil)))
	for _, revision := range []int{1, 2} {
		x, err := r.Helm().Releases.Get("t", revision)
		if err != nil {
			t.Fatal(err)
		}
		rel := x.(*rel1.Release)
		for _, f := range rel.Chart.Files {
			if f.Name == ".lockstep/plan.json.gz" {
				f.Data = []byte("garbage")
			}
		}
		if err := r.Helm().Releases.Update(rel); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	for revision, prepare := range map[int]func() (*kube.Operation, error){2: r.Uninstall, 1: func() (*kube.Operation, error) { return r.Rollback(1) }} {
		_, err := prepare()
		r.MustRefuse(start, err, fmt.Sprintf("the order of revision %d cannot be read: its record is damaged; ", revision), "--skip-preflight")
	}
	warned := func(op *kube.Operation) bool {
		return slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool {
			return strings.HasPrefix(w.Message, "the order of revision 2 cannot be read: its record is damaged; ")
		})
	}
	upgrade := r.Must(r.Upgrade("plain", rig.UseChart(rig.MakeChart(t, chained("v3", "example/app:v3")), nil)))
	uninstall := r.Must(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, SkipPreflight: true}}))
	if !warned(upgrade) || !warned(uninstall) {
		t.Errorf("the upgrade warns %v, the uninstall %v", upgrade.Warnings(), uninstall.Warnings())
	}
	view, err := r.Client.PrepareView(t.Context(), "t", r.Namespace, 0)
	if err != nil || view.UnreadOrder() != "its record is damaged" {
		t.Errorf("the view: %v, error %v", view, err)
	}
	r.MustRun(uninstall, nil)
}
