package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSubchartsThroughUpgradeAndRollback has the plan of an installation come
// back with each revision, from the release alone in a rollback: with an
// aliased subchart used twice, three levels of subcharts, a disabled one as a
// dependency (R4, R12, R28).
func TestSubchartsThroughUpgradeAndRollback(t *testing.T) {
	for _, chart := range []string{"alias-twice", "three-levels", "disabled-dep"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			plan := func(out outcome) string {
				var text strings.Builder
				for _, g := range out.state.Phases[0].Groups {
					fmt.Fprintln(&text, g.ID, g.After, g.Group.Objects)
				}
				return text.String()
			}
			want := plan(r.deploy(chart, nil))
			op, err := r.upgrade(chart, nil)
			if got := plan(r.mustRun(op, err)); got != want {
				t.Errorf("the upgrade's plan is\n%swant\n%s", got, want)
			}
			op, err = r.rollback(1)
			if got := plan(r.mustRun(op, err)); got != want {
				t.Errorf("the rollback's plan is\n%swant\n%s", got, want)
			}
		})
	}
}

// chained is a chart whose subchart app waits for its subchart db, which only
// the record of the plan tells later (R28). db is ready after a while.
func chained(version, image string) files {
	sub := func(name string) string { return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" }
	return files{
		"Chart.yaml":                   "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: app, version: 1.0.0, depends-on: [db]}\n- {name: db, version: 1.0.0}\n",
		"charts/app/Chart.yaml":        sub("app"),
		"charts/app/templates/all.yml": configMap("app", nil, "version: "+version),
		"charts/db/Chart.yaml":         sub("db"),
		"charts/db/templates/all.yml": strings.ReplaceAll(configMap("db", nil, "version: "+version)+"\n---\n"+deployment("store", nil, "400ms", "  replicas: 1"),
			"example/app:1.0", image),
	}
}

// assertChained proves from the audit log that app was written after db was
// ready, since a time.
func (r *rig) assertChained(what string, since time.Time) {
	r.t.Helper()
	tl := r.timeline("lockstep").since(since)
	ready, _ := tl.ready(r.t, []string{"Deployment/store"})
	app, _ := tl.firstWrite(r.t, []string{"ConfigMap/app"})
	if app.Before(ready) {
		r.t.Errorf("%s: app was written at %s, before db was ready at %s", what, clock(app), clock(ready))
	}
}

// TestHistoryMax keeps so many revisions, each with the record by which it is
// rolled back to and uninstalled in order (R28, R31, R32).
func TestHistoryMax(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := func(v string) func(*Upgrade) {
		return useUp(makeChart(t, chained(v, "example/app:"+v)), func(u *Upgrade) { u.Install, u.HistoryMax = true, 2 })
	}
	for _, v := range []string{"v1", "v2", "v3", "v4"} {
		r.mustRun(r.upgrade("plain", chart(v)))
	}
	r.assertHistory("3 superseded", "4 deployed")
	start := time.Now()
	op, err := r.client.PrepareRollback(t.Context(), Rollback{Common: Common{Release: "t", Namespace: r.namespace}, Revision: 3, HistoryMax: 2})
	r.mustRun(op, err)
	r.assertHistory("4 superseded", "5 deployed")
	r.assertChained("rollback", start)

	// The revision that is deployed stays for the rollback of a failure, however
	// few there may be. As in Helm, the rollback itself takes none away.
	op, err = r.upgrade("plain", func(u *Upgrade) {
		chart("v6")(u)
		u.Chart = makeChart(t, chained("v6", "example/no-such-image:6"))
		u.HistoryMax, u.RollbackOnFailure, u.ReadinessTimeout = 1, true, 2*time.Second
	})
	if err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if out := r.run(op, nil); out.state.Exit != 1 || !strings.Contains(out.state.Message, "back at revision 5") {
		t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
	}
	r.assertHistory("5 superseded", "6 failed", "7 deployed")
	r.assertChained("rollback of a failure", start)

	op, err = r.uninstall()
	if out := r.mustRun(op, err); !slices.Equal(out.ended(), []string{"edge/app:(unsequenced)", "edge/db:(unsequenced)"}) {
		t.Errorf("uninstalled %v", out.ended())
	}
	if got := r.configMaps(r.namespace); len(got) > 0 || r.status() != "" {
		t.Errorf("left are %v, the release is %q", got, r.status())
	}
}
