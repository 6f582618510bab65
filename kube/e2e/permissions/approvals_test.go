package permissions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/incluster"
)

// TestApprovalsCannotBeForged (R42a): with the policy, the API server accepts an approval only from another user than the one who
// started the run, in that user's own name, if they may approve; and nobody changes or removes it. All users here may do
// everything in the namespace but what the policy asks for; the run accepts no other approval, and starts nothing before.
func TestApprovalsCannotBeForged(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	for _, doc := range strings.Split(incluster.ApprovalPolicy, "\n---\n") {
		r.Create(doc)
	}
	everything := rbacv1.PolicyRule{APIGroups: []string{"", "apps", "batch", "coordination.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	approve := rig.Rule("lockstep", "approvals", "approve")
	starter := r.ConnectAs("starter", approve, everything) // may approve the runs of others
	approver := r.ConnectAs("approver", approve, everything)
	other := r.ConnectAs("other", everything)

	mine := r.WithClient(starter)
	c := rig.ChartOf(t, rig.ConfigMap("base", rig.Group("base")), rig.ConfigMap("schema", map[string]string{
		"helm.sh/resource-group": "schema", "helm.sh/depends-on-resource-groups": `["base"]`, "lockstep/approve": "drops table users"}))
	op, err := mine.Install("shop", rig.UseChart(c, func(d *kube.Deploy) { d.SkipPreflight = true }))
	if err != nil {
		t.Fatal(err)
	}
	end, err := starter.ProveApprovals(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	at, asks := *op.Info().Approvals, op.Approvals()
	namespace, name, _ := strings.Cut(at.Lease, "/")
	leases := r.Cluster.CoordinationV1().Leases(namespace)
	key := incluster.ApprovalKey(at.Plan, asks[0])

	patch := func(c *kube.Client, text string) error {
		_, err := c.Clientset.CoordinationV1().Leases(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	annotate := func(key, value string) string { return `{"metadata":{"annotations":{"` + key + `":` + value + `}}}` }
	refused := func(what string, err error, why string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	probes := 0 // the API server knows a new policy after a moment; until then, each probe is stored
	r.Eventually("the policy is in effect", func() bool {
		probes++
		err := patch(other, annotate(fmt.Sprintf("lockstep.approval/probe-%d", probes), `"x"`))
		return err != nil && strings.Contains(err.Error(), "must name the user")
	})

	attack := func() {
		_, err := starter.Approve(t.Context(), at, asks)
		refused("by who started the run", err, "who started the run cannot approve it")
		_, err = other.Approve(t.Context(), at, asks)
		refused("by somebody who may not approve", err, "may not approve runs")
		refused("in the name of another user", patch(other, annotate(key, `"`+r.Namespace+`-approver"`)), "must name the user who gives it")
		refused("with another account as the one who started", patch(starter, annotate("lockstep/started-by", `"somebody"`)), "cannot be changed")
		refused("without the label", patch(starter, `{"metadata":{"labels":{"lockstep/approvals":null}}}`), "cannot be added, changed or removed")
		refused("by the label on another Lease", func() error {
			_, err := starter.Clientset.CoordinationV1().Leases(namespace).Create(t.Context(), leaseWith("forged", key, r.Namespace+"-approver"), metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
			}
			_, err = starter.Clientset.CoordinationV1().Leases(namespace).Patch(t.Context(), "forged", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"lockstep/approvals":"t"}}}`), metav1.PatchOptions{})
			return err
		}(), "cannot be added, changed or removed")
	}
	asked := 0
	out := mine.Run(op, func(e event.Event) {
		if e.Kind != event.KindRun || e.Code != event.Unapproved {
			return
		}
		asked++
		attack()
		op.Command(event.Command{Name: event.Approve, By: r.Namespace + "-approver", ID: "forged"})
		if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"base"}) {
			t.Errorf("before the approval: %v", got)
		}
		if _, err := approver.Approve(t.Context(), event.ApprovalsAt{Lease: at.Lease, Plan: "another plan"}, asks); err != nil {
			t.Error(err)
		}
		if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"base"}) {
			t.Errorf("after the approval of another plan: %v", got)
		}
		found, all, err := approver.FindApprovals(t.Context(), namespace, "t")
		if err != nil || found == nil || *found != at || !slices.Equal(all, []plan.Approval{{Of: asks[0].Of, Reason: "drops table users"}}) {
			t.Errorf("found %v, %v, %v", found, all, err)
		}
		if _, err := approver.Approve(t.Context(), at, asks); err != nil {
			t.Error(err)
		}
		refused("changed afterwards", patch(approver, annotate(key, `"somebody"`)), "cannot be changed or removed")
		refused("removed afterwards", patch(approver, annotate(key, "null")), "cannot be changed or removed")
	})
	forged := slices.ContainsFunc(out.Events, func(e event.Event) bool {
		return e.Kind == event.KindCommand && e.Answers == "forged" && e.Status == event.Accepted
	})
	if given := out.State.Approvals; out.Err != nil || asked != 1 || forged || len(given) != 1 || given[0].By != r.Namespace+"-approver" {
		t.Errorf("%v, asked %d times, a forged command accepted: %v, approvals %+v", out.Err, asked, forged, given)
	}
	end()
	r.Eventually("the Lease is gone", func() bool { _, err := leases.Get(t.Context(), name, metav1.GetOptions{}); return err != nil })
}

// leaseWith returns a Lease without the label, but with an approval.
func leaseWith(name, key, user string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{key: user}}}
}
