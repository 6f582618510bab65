package uninstall

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestGoneBeforeItsDeletion: somebody else deletes an object before its group starts, or while
// the run waits for it (R31).
func TestGoneBeforeItsDeletion(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("first", rig.Group("a")), rig.ConfigMap("second", rig.Group("b", "a"))), nil))
	r.PatchConfigMap("second", `{"metadata":{"finalizers":["example.com/slow"]}}`)
	op := r.Must(r.Uninstall())
	done := false
	out := r.Run(op, func(e event.Event) {
		if !done && e.Kind == event.KindObject && e.Status == event.Deleting && e.Object.Name == "second" {
			done = true
			if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			r.PatchConfigMap("second", `{"metadata":{"finalizers":null}}`)
		}
	})
	if !done || out.Err != nil || out.State.Exit != 0 {
		t.Fatalf("%v, exit %d: %v", done, out.State.Exit, out.Err)
	}
	absent := slices.ContainsFunc(out.Events, func(e event.Event) bool {
		return e.Kind == event.KindObject && e.Object.Name == "first" && e.Status == event.Gone && e.Change == event.Absent
	})
	if !absent || r.Status() != "" {
		t.Errorf("first was found absent: %v; release %q", absent, r.Status())
	}
}

// TestFinalizerThatStays: the error names the object and the finalizer, and the release is failed, not uninstalled (R34).
func TestFinalizerThatStays(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("free", rig.Group("a")), rig.ConfigMap("kept", rig.Group("b", "a"))), nil))
	r.PatchConfigMap("kept", `{"metadata":{"finalizers":["example.com/forever"]}}`)
	t.Cleanup(func() {
		_, _ = r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	op, err := r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, Timeout: 12 * time.Second}})
	r.MustFail(op, err, "ConfigMap/kept", "example.com/forever", "--timeout", "not removed: edge:a")
	// --readiness-timeout limits the deletion of one object (R25).
	op, err = r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, ReadinessTimeout: time.Second}})
	r.MustFail(op, err, "ConfigMap/kept", "gave up after 1s (--readiness-timeout)", "example.com/forever", "not removed: edge:a")
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"free", "kept"}) {
		t.Errorf("remaining: %v, want both", got)
	}
	// Once the finalizer is gone, the same command finishes.
	r.PatchConfigMap("kept", `{"metadata":{"finalizers":null}}`)
	r.MustRun(r.Uninstall())
	if got := r.ConfigMaps(r.Namespace); len(got) > 0 || r.Status() != "" {
		t.Errorf("remaining: %v, release %q", got, r.Status())
	}
}

// TestInstallAfterAFailedUninstall (R50, R32a): an upgrade failed, then the uninstall: upgrade --install installs the
// release again, and the revision before them is no longer deployed.
func TestInstallAfterAFailedUninstall(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.ConfigMap("kept", nil))
	r.Deploy("plain", rig.UseChart(chart, nil))
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("kept", rig.Group("a")), rig.UnpullableDeployment("web", rig.Group("b", "a"))), func(d *kube.Deploy) { d.Timeout = 5 * time.Second }))
	r.MustFail(op, err)
	r.PatchConfigMap("kept", `{"metadata":{"finalizers":["example.com/forever"]}}`)
	op, err = r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, Timeout: 5 * time.Second}})
	r.MustFail(op, err, "ConfigMap/kept")
	r.PatchConfigMap("kept", `{"metadata":{"finalizers":null}}`)
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(d *kube.Deploy) { d.Install = true })))
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
}

// TestUninstallOfDeletedObjects uninstalls a release whose objects were already deleted: all groups and hooks run (R31).
func TestUninstallOfDeletedObjects(t *testing.T) {
	t.Parallel()
	for _, gone := range [][]string{{"a"}, {"b"}, {"a", "b"}} {
		t.Run(strings.Join(gone, ""), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")), rig.Job("hook", map[string]string{"helm.sh/hook": "post-delete"}, "0s")), nil))
			for _, name := range gone {
				if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			out := r.MustRun(r.Uninstall())
			for _, p := range out.State.Phases {
				for _, g := range p.Groups {
					if !g.Status.Over() {
						t.Errorf("%s of %s is still %s at the end", g.ID, p.Name, g.Status)
					}
					for _, o := range g.Objects {
						if p.Kind == event.PhaseRemove && (o.Change == event.Absent) != slices.Contains(gone, o.Object.Name) {
							t.Errorf("%s was %q", o.Object, o.Change)
						}
					}
				}
			}
			if ended := out.EndedGroups(); !slices.Equal(ended, []string{"edge:b", "edge:a", "post-delete:Job/hook"}) {
				t.Errorf("ended %v", ended)
			}
		})
	}
}

// TestUninstallOfHistory deletes the history of a release that was uninstalled with --keep-history, also of revisions that were
// never deployed. No group runs.
func TestUninstallOfHistory(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	for range 2 {
		op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.FailingJob(nil)), func(u *kube.Deploy) { u.Install, u.WaitForJobs = true, plan.AllJobs }))
		r.MustFail(op, err)
	}
	r.MustRun(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace}, KeepHistory: true}))
	out := r.MustRun(r.Uninstall())
	if len(out.State.Phases) > 0 || out.State.Release != event.NoRelease || !strings.Contains(out.State.Message, "its history was deleted") {
		t.Errorf("phases %v, release %q, message %q", out.State.Phases, out.State.Release, out.State.Message)
	}
	if left := r.Revisions(); len(left) > 0 {
		t.Errorf("left are the revisions %v", left)
	}
}

// TestUninstallWithoutWaiting requests all deletions and waits for none (R27).
func TestUninstallWithoutWaiting(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, strings.Replace(rig.ConfigMap("held", nil), "metadata:\n", "metadata:\n  finalizers: [example.com/held]\n", 1), rig.ConfigMap("a", nil)), nil))
	t.Cleanup(func() {
		_, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(context.Background(), "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	r.MustRun(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, Wait: "hookOnly"}}))
	if r.Status() != "" {
		t.Errorf("the release is %s", r.Status())
	}
	held, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil || held.DeletionTimestamp == nil {
		t.Errorf("held should be waiting for its finalizer: %v", err)
	}
	if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a: %v", err)
	}
}

// claimingSet is a StatefulSet that makes a claim, keptClaim what is said about it.
const (
	claimingSet = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, annotations: {helm.sh/resource-group: db}}, spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: "x:1"}]}},
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`
	keptClaim = "kept: PersistentVolumeClaim/data-db-0 (made by StatefulSet/db; it may hold data)"
)

// TestClaimsOfAStatefulSetStay: the plan and the outcome name the claims that a StatefulSet has made and that stay (R31).
func TestClaimsOfAStatefulSetStay(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, claimingSet), nil))
	op := r.Must(r.Uninstall())
	if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return w.Message == keptClaim }) {
		t.Errorf("the plan warns of %v", op.Warnings())
	}
	if out := r.MustRun(op, nil); out.State.Message != keptClaim {
		t.Errorf("the outcome is %q", out.State.Message)
	}
	if _, err := r.Cluster.CoreV1().PersistentVolumeClaims(r.Namespace).Get(t.Context(), "data-db-0", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestClaimsThatAreDeletedWithTheirStatefulSet: the plan of an upgrade or uninstall that deletes a StatefulSet names the claims that
// Kubernetes deletes with it (R31).
func TestClaimsThatAreDeletedWithTheirStatefulSet(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	set := strings.Replace(claimingSet, "spec: {serviceName", "spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}, serviceName", 1)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, set), nil))
	const deleted = "deleted with StatefulSet/db, because of its persistentVolumeClaimRetentionPolicy: PersistentVolumeClaim/data-db-0; it may hold data"
	check := func(op *kube.Operation, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return w.Message == deleted }) {
			t.Errorf("the plan warns of %v", op.Warnings())
		}
	}
	check(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("other", nil)), func(u *kube.Deploy) { u.PlanOnly = true })))
	check(r.Uninstall())
}

// TestClaimsThatAreDeletedWithAScaleDown: the plan of an upgrade that scales a StatefulSet down names the claims that Kubernetes deletes
// then (R30).
func TestClaimsThatAreDeletedWithAScaleDown(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(replicas string) func(*kube.Deploy) {
		set := strings.Replace(claimingSet, "spec: {serviceName", "spec: {replicas: "+replicas+", persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, serviceName", 1)
		return rig.UseChart(rig.ChartOf(t, set), nil)
	}
	r.Deploy("plain", chart("2"))
	op := r.Must(r.Upgrade("plain", chart("1")))
	const deleted = "deleted when StatefulSet/db is scaled from 2 to 1, because of its persistentVolumeClaimRetentionPolicy: PersistentVolumeClaim/data-db-1; it may hold data"
	if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return w.Message == deleted }) {
		t.Errorf("the plan warns of %v", op.Warnings())
	}
}

// TestClaimsStayAfterARollback: the outcome of a rollback names the claims of the StatefulSets that it deletes (R31, R43).
func TestClaimsStayAfterARollback(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, claimingSet, rig.ConfigMap("last", rig.Group("last", "db")))
	op := r.Must(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.BreakOn = []string{"last"} })))
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Paused {
			op.Command(event.Command{Name: event.Rollback})
		}
	})
	if !strings.Contains(out.State.Outcome, keptClaim) {
		t.Errorf("the outcome is %q", out.State.Outcome)
	}
}
