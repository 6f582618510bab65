package order

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestWaitChangesNoOrder runs a rollback and an uninstall of ordered revisions with each wait
// strategy. The order and the records are the same; --wait only decides what the run waits for
// (R30a).
func TestWaitChangesNoOrder(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"watcher", "hookOnly", "legacy"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("fanout", nil)
			groups := rig.ExpectedPlan(t, "fanout", r.Namespace)
			r.MustRun(r.Upgrade("hip0025-groups-complete", nil))
			common := kube.Common{Release: "t", Namespace: r.Namespace, Wait: wait}

			start := time.Now()
			out := r.MustRun(r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: common, Revision: 1}))
			if got := groupsRun(out, event.PhaseApply); len(got) != len(groups) {
				t.Errorf("rolled back in the groups %v", got)
			}
			if got := groupsRun(out, event.PhaseRemove); len(got) != len(rig.ExpectedPlan(t, "hip0025-groups-complete", r.Namespace)) {
				t.Errorf("removed in the groups %v", got)
			}
			assertWritesFollowDependencies(r, "rollback", "fanout", start)
			view, err := r.Client.PrepareView(t.Context(), "t", r.Namespace, 0)
			if err != nil || !view.Sequenced() {
				t.Errorf("revision 3 is recorded as sequenced: %v, %v", err == nil && view.Sequenced(), err)
			}

			tl, start := r.Timeline("lockstep"), time.Now()
			out = r.MustRun(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: common}))
			if got := groupsRun(out, event.PhaseRemove); len(got) != len(groups) {
				t.Errorf("uninstalled in the groups %v", got)
			}
			tl.Events = r.Audit()
			tl = tl.Since(start)
			for id, g := range groups {
				last, name := tl.LastDelete(t, g.Objects)
				for _, dependency := range g.Dependencies {
					if first, by := tl.FirstDelete(t, groups[dependency].Objects); first.Before(last) {
						t.Errorf("%s of %s was deleted at %s, before %s of %s was at %s", by, dependency, rig.Clock(first), name, id, rig.Clock(last))
					}
				}
			}
		})
	}
}

// TestWaitIgnoresOrder: a strategy that ignores the order of a chart says so, also in a plan (R27).
func TestWaitIgnoresOrder(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	for chart, warned := range map[string]bool{"fanout": true, "plain": false} {
		for _, wait := range []string{"watcher", "legacy", "ordered"} {
			op := r.Must(r.Install(chart, func(i *kube.Deploy) { i.Wait = wait }))
			said := slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool {
				return w.Rule == "R27" && strings.HasPrefix(w.Message, "--wait="+wait+" ignores the groups")
			})
			if said != (warned && wait != "ordered") {
				t.Errorf("%s with --wait=%s has the warnings %v", chart, wait, op.Warnings())
			}
		}
	}
}

// TestWaitOfARollback rolls back to a revision whose first group can no longer become ready: hookOnly does not wait
// for it, watcher does (R27, R30a).
func TestWaitOfARollback(t *testing.T) {
	t.Parallel()
	for wait, exit := range map[string]int{"hookOnly": 0, "watcher": 1} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("store", rig.Group("a"), "0s"), rig.ConfigMap("after", rig.Group("b", "a"))), nil))
			r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("other", nil)), nil)))
			full := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *apiresource.NewQuantity(0, apiresource.DecimalSI)}}}
			if _, err := r.Cluster.CoreV1().ResourceQuotas(r.Namespace).Create(t.Context(), full, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			op := r.Must(r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: kube.Common{Release: "t", Namespace: r.Namespace, Wait: wait, Timeout: 15 * time.Second}, Revision: 1}))
			out := r.Run(op, nil)
			if got := groupsRun(out, event.PhaseApply); out.State.Exit != exit || !slices.Contains(got, "edge:a") {
				t.Errorf("exit %d: %s; groups %v", out.State.Exit, out.State.Message, got)
			}
		})
	}
}

// TestAbortedLegacyWait: an abort ends the wait of Helm's legacy waiter, and the release is not marked deployed (R43).
func TestAbortedLegacyWait(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.Deployment("slow", nil, "3s"))
	op := r.Must(r.Install("plain", func(i *kube.Deploy) { rig.UseChart(chart, nil)(i); i.Wait, i.Timeout = "legacy", time.Minute }))
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Status.Over() {
			op.Command(event.Command{Name: event.Abort})
		}
	})
	if out.State.Status != event.Aborted {
		t.Errorf("the run ended as %s: %s", out.State.Status, out.State.Message)
	}
	r.AssertHistory("1 failed")
}

// groupsRun returns the ids of the groups that ran, in phases of a kind.
func groupsRun(out rig.Outcome, kind event.PhaseKind) (ids []string) {
	for _, p := range out.State.Phases {
		for _, g := range p.Groups {
			if p.Kind == kind && !g.Started.IsZero() {
				ids = append(ids, g.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
