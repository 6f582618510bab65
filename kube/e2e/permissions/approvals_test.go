package permissions

import (
	"cmp"
	"context"
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
	"lockstep/kube/helmfile"
	"lockstep/kube/incluster"
)

// TestApprovalsCannotBeForged (R42a): with the policy, the API server accepts an approval only from another user than the one who
// started the run, in that user's own name, if they may approve; and nobody changes or removes it. All users here may do
// everything in the namespace but what the policy asks for; the run accepts no other approval, and starts nothing before.
func TestApprovalsCannotBeForged(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const policy = "  policyName: lockstep-approvals\n"
	scoped := strings.Replace(incluster.ApprovalPolicy, policy, // other tests of the cluster approve their own runs
		policy+"  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+r.Namespace+"}}}\n", 1)
	for _, doc := range strings.Split(scoped, "\n---\n") {
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
	op := mine.Must(mine.Install("shop", rig.UseChart(c, func(d *kube.Deploy) { d.SkipPreflight = true })))
	end, err := op.ProveApprovals(t.Context(), nil, nil)
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
		for _, by := range []*kube.Client{approver, other} { // the second one changes nothing
			if user, err := by.Approve(t.Context(), at, asks); err != nil || user != r.Namespace+"-approver" {
				t.Errorf("approved by %s, %v", user, err)
			}
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
	forgeForStack(r, starter, approver, other)
}

// forgeForStack checks the same for a stack: of a release that asks for an approval, and of a group of another one. An approval
// for the plan of one release counts for no other.
func forgeForStack(r *rig.Rig, starter, approver, other *kube.Client) {
	t := r.T
	docs := map[string]string{"database": rig.ConfigMap("database", nil), "web": rig.ConfigMap("web", map[string]string{"lockstep/approve": "switches over"})}
	file := &helmfile.File{Path: "helmfile.yaml"}
	for _, name := range []string{"database", "web"} {
		file.Releases = append(file.Releases, helmfile.Release{Name: name, Namespace: r.Namespace, Chart: name, Installed: true})
	}
	file.Releases[0].Approve, file.Releases[1].Needs = "a new major version", []string{file.Releases[0].ID()}
	s, err := kube.PrepareStack(t.Context(), kube.StackOptions{File: file, Common: kube.Common{SkipPreflight: true}, Load: func(_ context.Context, rel helmfile.Release) (kube.ChartOptions, error) {
		return kube.ChartOptions{Chart: rig.ChartOf(t, docs[rel.Chart])}, nil
	}}, func(string) (*kube.Client, error) { return starter, nil })
	if err != nil {
		t.Fatal(err)
	}
	end, err := s.ProveApprovals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	at := map[string]event.ApprovalsAt{}
	for _, rel := range s.Releases() {
		at[rel.ID] = *rel.Operation.Info().Approvals
	}
	first, second := file.Releases[0].ID(), file.Releases[1].ID()
	asks := map[string]plan.Approval{first: {Of: first, Reason: "a new major version"}, second: s.Releases()[1].Operation.Approvals()[0]}
	var asked []string
	on := func(e event.Event) {
		if e.Kind == event.KindCommand && e.Answers == "forged" && e.Status == event.Accepted {
			t.Errorf("a forged command was accepted: %+v", e)
		}
		if e.Kind != event.KindGroup || e.Code != event.Unapproved {
			return
		}
		id := cmp.Or(e.Scope, e.Group)
		asked = append(asked, id)
		before := r.ConfigMaps(r.Namespace)
		for _, by := range []*kube.Client{starter, other} {
			if _, err := by.Approve(t.Context(), at[id], []plan.Approval{asks[id]}); err == nil {
				t.Errorf("an approval of %s was forged", id)
			}
		}
		for other := range at {
			if other == id {
				continue
			}
			if _, err := approver.Approve(t.Context(), at[other], []plan.Approval{asks[id]}); err != nil {
				t.Error(err)
			}
		}
		s.Command(event.Command{Name: event.Approve, By: r.Namespace + "-approver", ID: "forged"})
		s.Command(event.Command{Name: event.Approve, Group: id, By: r.Namespace + "-approver", ID: "forged"})
		if now := r.ConfigMaps(r.Namespace); !slices.Equal(now, before) || slices.Contains(now, map[string]string{first: "database", second: "web"}[id]) {
			t.Errorf("before the approval of %s: %v", id, now)
		}
		if _, err := approver.Approve(t.Context(), at[id], []plan.Approval{asks[id]}); err != nil {
			t.Error(err)
		}
	}
	over, reader := make(chan error, 1), s.Feed().Reader()
	go func() { over <- s.Run() }()
	var state event.State
	for events, ok := reader.Next(t.Context()); ok; events, ok = reader.Next(t.Context()) {
		for _, e := range events {
			state.Apply(e)
			on(e)
		}
	}
	if given := append(state.Approvals, state.Scopes[second].Approvals...); <-over != nil || !slices.Equal(asked, []string{first, second}) || len(given) != 2 {
		t.Errorf("%s, asked for %v, approvals %+v", state.Message, asked, given)
	}
}

// leaseWith returns a Lease without the label, but with an approval.
func leaseWith(name, key, user string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{key: user}}}
}
