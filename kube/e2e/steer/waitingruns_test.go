package steer

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestTwoRunsWaitForTheirFirstApproval (R42a): a run that still waits for its first approval has no lock, so a second run of the
// release cannot tell it from one that was killed, and deletes its Lease. The first one creates it again, and can still be
// approved. Nobody approves the plan of one instead of the other's. A Lease does not come back once its run has ended, although
// the command continues.
func TestTwoRunsWaitForTheirFirstApproval(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	// Another test may have installed the policy by which nobody approves their own run.
	approver := r.ConnectAs("approver", rig.Rule("*", "*", "*"))
	leases := r.Cluster.CoordinationV1().Leases(r.Namespace)
	exists := func(at event.ApprovalsAt) bool {
		_, err := leases.Get(t.Context(), strings.TrimPrefix(at.Lease, r.Namespace+"/"), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
		return err == nil
	}
	prepare := func(version string) (op *kube.Operation, at event.ApprovalsAt, end func()) {
		op, err := r.Install("shop", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("schema", map[string]string{"lockstep/approve": "drops table users"}, "v: "+version)), nil))
		if err == nil {
			end, err = op.ProveApprovals(t.Context(), nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return op, *op.Info().Approvals, end
	}
	first, at, end := prepare("one")
	asked := false
	out := r.Run(first, func(e event.Event) {
		if e.Kind != event.KindRun || e.Code != event.Unapproved || asked {
			return
		}
		asked = true
		second, other, endSecond := prepare("two")
		r.Eventually("the first run has its Lease again", func() bool { return exists(at) })
		if _, _, err := r.Client.FindApprovals(t.Context(), r.Namespace, "t"); err == nil || !strings.Contains(err.Error(), "2 runs of release t ask for approvals") {
			t.Errorf("with two runs: %v", err)
		}
		endSecond()
		if exists(other) {
			t.Error("the second run has left its Lease")
		}
		found, asks, err := r.Client.FindApprovals(t.Context(), r.Namespace, "t")
		if err != nil || found == nil || *found != at || !slices.Equal(asks, first.Approvals()) || !slices.Equal(asks, second.Approvals()) {
			t.Fatalf("found %v, %v, %v", found, asks, err)
		}
		if _, err := approver.Approve(t.Context(), *found, asks); err != nil {
			t.Error(err)
			first.Command(event.Command{Name: event.Abort})
		}
	})
	if out.Err != nil || len(out.State.Approvals) != 1 || r.ConfigMapData("schema")["v"] != "one" {
		t.Errorf("%v, approvals %+v", out.Err, out.State.Approvals)
	}
	end()
	time.Sleep(2 * time.Second) // longer than the watch needs to notice
	if exists(at) {
		t.Error("the Lease came back after the end of its run")
	}
}

// TestApprovalsAreForWhatWasThere (R42a): the command of a run that was killed before its first write finds the approval that was given
// meanwhile, unless somebody has changed since what it is about to change.
func TestApprovalsAreForWhatWasThere(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	approver := r.ConnectAs("approver", rig.Rule("*", "*", "*"))
	use := func(version string) func(*kube.Deploy) {
		return rig.UseChart(rig.ChartOf(t, rig.ConfigMap("schema", map[string]string{"lockstep/approve": "drops table users"}, "v: "+version), rig.ConfigMap("other", rig.Group("b"), "v: "+version)),
			func(d *kube.Deploy) { d.ForceConflicts = true })
	}
	r.MustHelm("install", "t", rig.DirOf(t, rig.ConfigMap("schema", nil, "v: one"), rig.ConfigMap("other", nil, "v: one")))
	killed := func() event.ApprovalsAt {
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		op, err := r.Upgrade("shop", use("two"))
		if err == nil {
			_, err = op.ProveApprovals(ctx, nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return *op.Info().Approvals
	}
	first := killed()
	_, asks, err := r.Client.FindApprovals(t.Context(), r.Namespace, "t")
	if err == nil {
		_, err = approver.Approve(t.Context(), first, asks)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.PatchConfigMap("other", `{"data":{"v":"hotfix"}}`) // needs no approval
	if again := killed(); again != first {
		t.Errorf("the same plan asks at %+v, then at %+v", first, again)
	}
	r.PatchConfigMap("schema", `{"data":{"v":"hotfix"}}`)
	if again := killed(); again.Lease == first.Lease || again.Plan == first.Plan {
		t.Errorf("nobody has approved what overwrites a hotfix: %+v", again)
	}
}

// TestTheNextPodAsksAgain (R42a, S13): the pod of a Job was replaced after a group was approved. The next one starts that group, unless
// somebody has changed since what it is about to overwrite.
func TestTheNextPodAsksAgain(t *testing.T) {
	t.Parallel()
	for changed, want := range map[string]int{"": 0, "other": 0, "schema": 1} {
		t.Run(changed, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.MustHelm("install", "t", rig.DirOf(t, rig.ConfigMap("schema", nil, "v: one"), rig.ConfigMap("other", nil, "v: one")))
			store := &rig.Store{}
			pod := func(watch func(*kube.Operation, event.Event)) rig.Outcome {
				j := rig.OpenJournal(t, store)
				docs := []string{rig.ConfigMap("other", rig.Group("a"), "v: two"), rig.ConfigMap("schema", withApproval("drops table users", rig.Group("b", "a")), "v: two")}
				op, err := r.Upgrade("shop", rig.UseChart(rig.ChartOf(t, docs...), func(d *kube.Deploy) {
					d.Step, d.ForceConflicts, d.Journal, d.Job = true, true, j.Entry(""), r.Namespace+"/job"
				}))
				if err != nil {
					t.Fatal(err)
				}
				return r.Run(op, func(e event.Event) { watch(op, e) })
			}
			var kept rig.Store
			pod(func(op *kube.Operation, e event.Event) {
				switch {
				case e.Kind == event.KindRun && e.Status == event.Paused:
					op.Command(event.Command{Name: event.Approve, Group: op.Approvals()[0].Of, By: "ann"})
				case e.Kind == event.KindApproval:
					kept = *store // the pod is killed here
					op.Command(event.Command{Name: event.Abort})
				}
			})
			*store = kept
			if changed != "" {
				r.PatchConfigMap(changed, `{"data":{"v":"hotfix"}}`)
			}
			asked := 0
			out := pod(func(op *kube.Operation, e event.Event) {
				switch {
				case e.Kind == event.KindRun && e.Code == event.Unapproved:
					if asked++; r.ConfigMapData("schema")["v"] != "hotfix" {
						t.Error("a hotfix was overwritten before its approval")
					}
					op.Command(event.Command{Name: event.Approve, By: "bob"})
				case e.Kind == event.KindRun && e.Status == event.Paused:
					op.Command(event.Command{Name: event.Resume})
				}
			})
			if out.Err != nil || asked != want || len(out.State.Approvals) != 1 || r.ConfigMapData("schema")["v"] != "two" {
				t.Errorf("asked %d times, want %d; %v, approvals %+v", asked, want, out.Err, out.State.Approvals)
			}
		})
	}
}

// TestALeaseForApprovalsCannotComeBack (R42a): a run whose Lease somebody has deleted, and that may not create it again, says that
// nobody can approve it.
func TestALeaseForApprovalsCannotComeBack(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	mine := r.WithClient(r.ConnectAs("runner", rig.Rule("coordination.k8s.io", "leases", "*"), rig.Rule("", "*", "*")))
	op := mine.Must(mine.Install("shop", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("schema", map[string]string{"lockstep/approve": "drops table users"})), func(d *kube.Deploy) { d.SkipPreflight = true })))
	end, err := op.ProveApprovals(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	_, lease, _ := strings.Cut(op.Info().Approvals.Lease, "/")
	asked := false
	out := mine.Run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Code == event.Unapproved && !asked:
			asked = true
			rules := []rbacv1.PolicyRule{rig.Rule("coordination.k8s.io", "leases", "get", "list", "watch"), rig.Rule("", "*", "*"), rig.Rule("t", "reduced", "get")}
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "runner"}, Rules: rules}
			if _, err := r.Cluster.RbacV1().Roles(r.Namespace).Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
			r.AwaitAccess("runner", rules)
			if err := r.Cluster.CoordinationV1().Leases(r.Namespace).Delete(t.Context(), lease, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		case e.Kind == event.KindWarning && e.Rule == "R42a":
			op.Command(event.Command{Name: event.Abort})
		}
	})
	if !out.HasWarning("R42a", "somebody deleted Lease "+r.Namespace+"/"+lease, "so nobody can approve this run", "forbidden") {
		t.Errorf("%v, warnings %v", out.Err, out.State.Warnings)
	}
}
