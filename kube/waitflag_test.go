package kube

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
)

// TestWaitChangesNoOrder gives each wait strategy to a rollback and an
// uninstallation of revisions that were deployed in order: what is done, and in
// which order, is what their records say, and what they say is the same
// afterwards. --wait only decides what is waited for (R30a).
func TestWaitChangesNoOrder(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"watcher", "hookOnly", "legacy"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("fanout", nil)
			groups := oracle(t, "fanout", r.namespace)
			r.mustRun(r.upgrade("hip0025-groups-complete", nil))
			common := Common{Release: "t", Namespace: r.namespace, Wait: wait}

			start := time.Now()
			op, err := r.client.PrepareRollback(t.Context(), Rollback{Common: common, Revision: 1})
			out := r.mustRun(op, err)
			if got := out.units(event.PhaseApply); len(got) != len(groups) {
				t.Errorf("rolled back in the groups %v", got)
			}
			if got := out.units(event.PhaseRemove); len(got) != len(oracle(t, "hip0025-groups-complete", r.namespace)) {
				t.Errorf("removed in the groups %v", got)
			}
			r.timeline("lockstep").since(start).assertWritesFollowGates(t, "rollback", groups)
			view, err := r.client.PrepareView(t.Context(), "t", r.namespace, 0)
			if err != nil || !view.Sequenced() {
				t.Errorf("revision 3 is recorded as sequenced: %v, %v", err == nil && view.Sequenced(), err)
			}

			tl, start := r.timeline("lockstep"), time.Now()
			op, err = r.client.PrepareUninstall(t.Context(), Uninstall{Common: common})
			out = r.mustRun(op, err)
			if got := out.units(event.PhaseRemove); len(got) != len(groups) {
				t.Errorf("uninstalled in the groups %v", got)
			}
			tl.events = r.audit()
			tl = tl.since(start)
			for id, g := range groups {
				last, name := tl.deleted(t, g.objects)
				for _, gate := range g.gates {
					if first, by := tl.firstDelete(t, groups[gate].objects); first.Before(last) {
						t.Errorf("%s of %s was deleted at %s, before %s of %s was at %s", by, gate, clock(first), name, id, clock(last))
					}
				}
			}
		})
	}
}

// TestWaitIsOnlyAboutWaiting rolls back to a revision whose first group cannot
// become ready any more: hookOnly does not wait for it, watcher does (R27, R30a).
func TestWaitIsOnlyAboutWaiting(t *testing.T) {
	t.Parallel()
	for wait, exit := range map[string]int{"hookOnly": 0, "watcher": 1} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(one(t, deployment("store", group("a"), "0s"), configMap("after", group("b", "a"))), nil))
			r.mustRun(r.upgrade("plain", useUp(one(t, configMap("other", nil)), nil)))
			full := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *apiresource.NewQuantity(0, apiresource.DecimalSI)}}}
			if _, err := r.cluster.CoreV1().ResourceQuotas(r.namespace).Create(t.Context(), full, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			op, err := r.client.PrepareRollback(t.Context(), Rollback{Common: Common{Release: "t", Namespace: r.namespace, Wait: wait, Timeout: 8 * time.Second}, Revision: 1})
			if err != nil {
				t.Fatal(err)
			}
			out := r.run(op, nil)
			if got := out.units(event.PhaseApply); out.state.Exit != exit || !slices.Contains(got, "edge:a") {
				t.Errorf("exit %d: %s; groups %v", out.state.Exit, out.state.Message, got)
			}
		})
	}
}

// units are the groups of the phases of a kind that ran.
func (out outcome) units(kind event.PhaseKind) (ids []string) {
	for _, p := range out.state.Phases {
		for _, g := range p.Groups {
			if p.Kind == kind && !g.Started.IsZero() {
				ids = append(ids, g.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
