package recovery

import (
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/release"
)

const noWayBack = "schema 37 cannot be read by 36"

// schema returns a chart whose group schema is a point of no return if it is marked, and whose group app follows. A broken app
// is never ready.
func schema(t *testing.T, version string, marked, broken bool) *charts.Chart {
	annotations, app, delay := rig.Group("schema"), rig.Group("app", "schema"), "0s"
	if marked {
		annotations[plan.AnnotationNoReturn] = noWayBack
	}
	if broken {
		app[plan.AnnotationReadinessTimeout], delay = "3s", "1h"
	}
	return rig.ChartOf(t, rig.ConfigMap("schema", annotations, `v: "`+version+`"`), rig.Deployment("app", app, delay))
}

// upgradeTo prepares an upgrade with --rollback-on-failure.
func upgradeTo(r *rig.Rig, c *charts.Chart, change func(*kube.Deploy)) (*kube.Operation, error) {
	return r.Upgrade("plain", rig.UseChart(c, func(u *kube.Deploy) {
		u.RollbackOnFailure = true
		if change != nil {
			change(u)
		}
	}))
}

// TestNoReturn (R33a): once a group with lockstep/no-return has succeeded, a failed upgrade is not rolled back, also not by the
// next run, which finds the group unchanged, and a rollback to a revision before it needs the reason.
func TestNoReturn(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustRun(r.Install("plain", rig.UseChart(schema(t, "36", false, false), nil)))
	for _, want := range []string{"2 failed", "3 failed"} {
		op, err := upgradeTo(r, schema(t, "37", true, true), nil)
		out := r.MustFail(op, err, "not rolled back", noWayBack)
		if len(out.State.NoReturn) != 1 || out.State.NoReturn[0] != noWayBack {
			t.Errorf("%s: passed %q", want, out.State.NoReturn)
		}
	}
	r.AssertHistory("1 deployed", "2 failed", "3 failed")
	for _, reason := range []string{"", "schema 37"} {
		since := time.Now()
		_, err := r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: kube.Common{Release: "t", Namespace: r.Namespace, PastNoReturn: reason}, Revision: 1})
		r.MustRefuse(since, err, "--past-no-return", noWayBack)
	}
	op := r.Must(upgradeTo(r, schema(t, "37", true, true), func(u *kube.Deploy) { u.PastNoReturn = noWayBack }))
	if out := r.Run(op, nil); out.State.Exit != 1 || r.ConfigMapData("schema")["v"] != "36" {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	r.AssertHistory("1 superseded", "2 failed", "3 failed", "4 failed", "5 deployed")
	r.MustRun(r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: kube.Common{Release: "t", Namespace: r.Namespace, PastNoReturn: noWayBack}, Revision: 1}))
}

// TestPrunedPointOfNoReturn (R33a): the limit of the history deletes the record of the revision that has passed the point. Later runs
// still know it, and which revision has passed it.
func TestPrunedPointOfNoReturn(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustRun(r.Install("plain", rig.UseChart(schema(t, "36", false, false), nil)))
	for range 4 {
		op, err := upgradeTo(r, schema(t, "37", true, true), func(u *kube.Deploy) { u.HistoryMax = 2 })
		r.MustFail(op, err, "not rolled back", noWayBack)
	}
	r.AssertHistory("1 deployed", "5 failed")
	since := time.Now()
	_, err := r.Rollback(1)
	r.MustRefuse(since, err, "--past-no-return", noWayBack)
	r.MustRun(upgradeTo(r, schema(t, "37", true, false), nil))
	since = time.Now()
	_, err = r.Rollback(1)
	r.MustRefuse(since, err, "--past-no-return", noWayBack)
	if _, err := r.Rollback(5); err != nil { // which is not before it
		t.Error(err)
	}
}

// TestUnchangedPointOfNoReturn (R33a, R50): an upgrade that changes nothing of the group rolls back as usual, and so does one
// that fails before the group has succeeded.
func TestUnchangedPointOfNoReturn(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustRun(r.Install("plain", rig.UseChart(schema(t, "37", true, false), nil)))
	op := r.Must(upgradeTo(r, schema(t, "37", true, true), nil))
	if out := r.Run(op, nil); out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision 1") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	broken := rig.ChartOf(t, rig.Deployment("schema", map[string]string{plan.AnnotationNoReturn: noWayBack, plan.AnnotationReadinessTimeout: "3s"}, "1h"))
	op = r.Must(upgradeTo(r, broken, nil))
	if out := r.Run(op, nil); out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision") {
		t.Errorf("before the point of no return: exit %d: %s", out.State.Exit, out.State.Message)
	}
}

// TestHookOfNoReturn (R33a): a hook can be a point of no return.
func TestHookOfNoReturn(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(delay string) *charts.Chart {
		return rig.ChartOf(t, rig.Deployment("app", nil, delay), rig.Job("migrate", map[string]string{"helm.sh/hook": "pre-upgrade", plan.AnnotationNoReturn: noWayBack}, "10ms"))
	}
	r.MustRun(r.Install("plain", rig.UseChart(chart("0s"), nil)))
	op, err := upgradeTo(r, chart("1h"), nil)
	r.MustFail(op, err, "not rolled back", noWayBack)
}

// TestKilledPastNoReturn (R33a, R52): a run is killed once it has sent a point of no return. The record has the reason: neither
// a rollback nor the next run goes back.
func TestKilledPastNoReturn(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustRun(r.Install("plain", rig.UseChart(schema(t, "36", false, false), nil)))
	annotations := rig.Group("schema")
	annotations[plan.AnnotationNoReturn] = noWayBack
	dir := rig.DirOf(t, rig.ConfigMap("schema", annotations, `v: "37"`), rig.Deployment("app", rig.Group("app", "schema"), "1h"))
	if !kill(r, childOperation{Operation: "upgrade", Chart: dir, Namespace: r.Namespace, Locks: rig.LockDir()}, 4) {
		t.Fatal("it was not killed")
	}
	if rel, _, err := release.Get(r.Helm().Releases, "t", 2); err != nil || len(release.PassedNoReturn(rel)) != 1 {
		t.Fatalf("the record of the killed run lacks the reason: %v", err)
	}
	since := time.Now()
	_, err := r.Rollback(1)
	r.MustRefuse(since, err, noWayBack)
	op, err := upgradeTo(r, schema(t, "37", true, true), nil)
	r.MustFail(op, err, "not rolled back", noWayBack)
}

// TestRollbackCommandPastNoReturn (R33a, R43): a command to roll back is refused without the reason; one that nobody waits for,
// such as that of a signal, keeps the objects.
func TestRollbackCommandPastNoReturn(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]event.Command{
		"reason": {Name: event.Rollback, PastNoReturn: noWayBack}, "signal": {Name: event.Rollback, Via: "SIGTERM", OrKeep: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.MustRun(r.Install("plain", rig.UseChart(schema(t, "36", false, false), nil)))
			op := r.Must(upgradeTo(r, schema(t, "37", true, true), func(u *kube.Deploy) { u.HoldOnFailure = true }))
			refused := false
			out := r.Run(op, func(e event.Event) {
				switch {
				case e.Kind == event.KindRun && e.Status == event.Held:
					op.Command(event.Command{Name: event.Rollback})
				case e.Kind == event.KindCommand && e.Status == event.Refused:
					refused = refused || e.Code == event.NoReturn
					op.Command(last)
				}
			})
			want := map[string]string{"reason": "36", "signal": "37"}[name]
			if got := r.ConfigMapData("schema")["v"]; !refused || out.State.Exit != 3 || got != want {
				t.Errorf("refused %t, exit %d, schema %s, want %s: %s", refused, out.State.Exit, got, want, out.State.Message)
			}
		})
	}
}
