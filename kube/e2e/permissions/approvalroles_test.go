package permissions

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/incluster"
	"lockstep/kube/throwaway/auditlog"
	"lockstep/kube/throwaway/testcluster"
)

// TestApprovalsWithPrintedRoles (R42a): the roles that lockstep prints are enough for both sides of an approval outside of the
// cluster, and each of their verbs on Leases is used: the account of "rbac --approval-in-cluster" asks for it, a user with the
// ClusterRole of "manifests --approvals" finds the run and approves it.
func TestApprovalsWithPrintedRoles(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	c := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")))
	asks := rig.UseChart(c, func(d *kube.Deploy) { d.ApproveBefore = []string{"b"} })
	planned := r.Must(r.Upgrade("plain", func(u *kube.Deploy) {
		asks(u)
		u.PlanOnly, u.SkipPreflight, u.Install = true, true, true
	}))
	var printed bytes.Buffer
	if err := kube.WriteRoles(&printed, kube.Roles{Account: "lockstep", Namespace: r.Namespace, Name: "t", Approvals: true}, planned); err != nil {
		t.Fatal(err)
	}
	roles := withoutOptional(testcluster.Parse(t, printed.String()))
	rig.Sandbox.Apply(t, roles...)
	account := r.WithClient(r.ConnectAsServiceAccount("lockstep"))
	_, role, _ := strings.Cut(incluster.ApprovalPolicy, "\nkind: ClusterRole\n")
	role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" + strings.Replace(role, "lockstep-approver", r.Namespace+"-approver", 1)
	r.Create(role)
	approver := r.ConnectBound("approver", "ClusterRole", r.Namespace+"-approver", nil)
	awaitAccess(r, permission{r.Namespace, "coordination.k8s.io", "leases", "", "list"}, true)

	before := r.Log()
	op := account.Must(account.Install("plain", asks))
	end, err := op.ProveApprovals(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := account.Run(op, func(e event.Event) {
		if e.Kind != event.KindRun || e.Code != event.Unapproved {
			return
		}
		at, all, err := approver.FindApprovals(t.Context(), r.Namespace, "t")
		if err == nil {
			_, err = approver.Approve(t.Context(), *at, all)
		}
		if err != nil {
			t.Error(err)
			op.Command(event.Command{Name: event.Abort})
		}
	})
	end()
	if out.Err != nil || len(out.State.Approvals) != 1 {
		t.Errorf("%v, approvals %+v", out.Err, out.State.Approvals)
	}
	log := r.Log()
	for user, granted := range map[string]map[permission]bool{
		"system:serviceaccount:" + r.Namespace + ":lockstep": permissions(t, rolesOfKind(roles, false, "Role")),
		r.Namespace + "-approver":                            permissions(t, testcluster.Parse(t, role)),
	} {
		used := map[string]bool{}
		for _, e := range log[len(before):].Where(func(e auditlog.Event) bool {
			return e.Username == user && e.Object.Resource == "leases" && e.Object.Namespace == r.Namespace
		}) {
			if used[e.Verb] = true; e.Code == 403 {
				t.Errorf("%s: refused: %s %s", user, e.Verb, e.RequestURI)
			}
		}
		for of := range granted {
			if of.resource == "leases" && of.name == "" && !used[of.verb] {
				t.Errorf("%s: never used: %s", user, of)
			}
		}
	}
}
