package recovery

import (
	"errors"
	"slices"
	"strings"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
)

// TestRecover kills an upgrade. recover marks its revision failed and shows which objects match which revision. It changes
// nothing else, and nothing at all the second time (R52).
func TestRecover(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	before := []string{rig.ConfigMap("a", rig.Group("one")), rig.ConfigMap("b", rig.Group("two", "one")), rig.ConfigMap("c", rig.Group("three", "two"))}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, before...), nil))
	after := rig.DirOf(t, rig.ConfigMap("a", rig.Group("one"), "v: new"), rig.ConfigMap("b", rig.Group("two", "one"), "v: new"), rig.ConfigMap("d", rig.Group("three", "two")))
	if !kill(r, childOperation{Operation: "upgrade", Chart: after, Namespace: r.Namespace, Locks: rig.LockDir()}, 3) { // after the writes of the Lease, the record and a
		t.Fatal("the upgrade was not killed")
	}
	r.AssertHistory("1 deployed", "2 pending-upgrade")
	found, err := r.Client.Recover(t.Context(), r.Common())
	if err != nil {
		t.Fatal(err)
	}
	r.AssertHistory("1 deployed", "2 failed")
	if len(found.Marked) != 1 || found.Marked[0].From != rcommon.StatusPendingUpgrade || found.Dead == nil || found.Dead.Operation != "upgrade" || found.Interrupted != "upgrade" || found.GoodRevision != 1 {
		t.Errorf("recover found %+v", found)
	}
	var is []string
	for _, c := range found.Changes {
		text := c.Object.Name + " " + string(c.Action)
		if found.MatchesGood[c.Object] {
			text += " as in 1"
		}
		is = append(is, text)
	}
	if want := []string{"a unchanged", "b change as in 1", "d create", "c delete as in 1"}; !slices.Equal(is, want) {
		t.Errorf("objects are %v, want %v", is, want)
	}
	if !leaseGone(r) {
		t.Error("the Lease was not deleted")
	}
	if found, err = r.Client.Recover(t.Context(), r.Common()); err != nil || len(found.Marked) > 0 || found.Dead != nil {
		t.Errorf("the second time: %v, %+v", err, found)
	}
	r.MustRun(r.Rollback(1))
	if found, err = r.Client.Recover(t.Context(), r.Common()); err != nil || found.Interrupted != "" || len(found.Changes) > 0 {
		t.Errorf("recover of a deployed release: %v, %+v", err, found)
	}
}

// TestLeftPendingByHelm has a revision that Helm left pending, or is still creating: all
// operations refuse until recover has run (R52).
func TestLeftPendingByHelm(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil))
	r.Deploy("plain", rig.UseChart(chart, nil))
	left := &rel1.Release{Name: "t", Namespace: r.Namespace, Version: 2, Chart: rig.HelmChart(t, chart), Info: &rel1.Info{Status: rcommon.StatusPendingUpgrade}}
	if err := r.Helm().Releases.Create(left); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func() (*kube.Operation, error){
		"install":   func() (*kube.Operation, error) { return r.Install("plain", rig.UseChart(chart, nil)) },
		"upgrade":   func() (*kube.Operation, error) { return r.Upgrade("plain", rig.UseChart(chart, nil)) },
		"rollback":  func() (*kube.Operation, error) { return r.Rollback(1) },
		"uninstall": r.Uninstall,
	} {
		if _, err := prepare(); err == nil || !strings.Contains(err.Error(), "pending-upgrade") || !strings.Contains(err.Error(), "lockstep recover t") {
			t.Errorf("%s says %v", name, err)
		}
	}
	if _, err := r.Client.Recover(t.Context(), r.Common()); err != nil {
		t.Fatal(err)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, nil)))
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
}

// TestRecoverDuringARun: recover is refused while a run is active (R52).
func TestRecoverDuringARun(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "1s"), rig.ConfigMap("after", rig.Group("b", "a"))), nil)))
	var locked *lease.LockedError
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "slow" && e.Change == event.Created {
			if _, err := r.Client.Recover(t.Context(), r.Common()); !errors.As(err, &locked) {
				t.Errorf("recover says %v", err)
			}
		}
	})
	if out.Err != nil || locked == nil || locked.Holder.Operation != "install" {
		t.Errorf("%v; locked by %+v", out.Err, locked)
	}
	r.AssertHistory("1 deployed")
}

// TestRecoverWithFailedJob: recover compares what the cluster has, so a Job that has failed matches its revision, although the next run
// replaces it (R52).
func TestRecoverWithFailedJob(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), rig.FailingJob(nil)), func(i *kube.Deploy) { i.WaitForJobs = plan.AllJobs }))
	r.MustFail(op, err)
	found, err := r.Client.Recover(t.Context(), r.Common())
	if err != nil || found.Interrupted != "install" || len(found.Changes) != 2 {
		t.Fatalf("%v, %+v", err, found)
	}
	for _, c := range found.Changes {
		if c.Action != inspect.Unchanged {
			t.Errorf("%s: %s (%s)", c.Object, c.Action, c.Message)
		}
	}
}
