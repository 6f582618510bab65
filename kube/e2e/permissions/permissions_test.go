package permissions

import (
	"slices"
	"strings"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// grantEverywhere grants a user permissions in all namespaces.
func grantEverywhere(r *rig.Rig, user string, rules ...rbacv1.PolicyRule) {
	r.T.Helper()
	name := metav1.ObjectMeta{Name: r.Namespace}
	_, err := r.Cluster.RbacV1().ClusterRoles().Create(r.T.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{})
	if err == nil {
		_, err = r.Cluster.RbacV1().ClusterRoleBindings().Create(r.T.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.Namespace},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: r.Namespace + "-" + user}}}, metav1.CreateOptions{})
	}
	if err != nil {
		r.T.Fatal(err)
	}
	r.AwaitAccess(user, rules)
}

// TestMissingPermissions: an operation without the necessary permissions is refused. The error lists all that are missing, and
// nothing is written.
func TestMissingPermissions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rules   []rbacv1.PolicyRule
		prepare func(*rig.Rig) (*kube.Operation, error)
		lacks   []string
		not     string
	}{
		"install": {[]rbacv1.PolicyRule{rig.Rule("", "configmaps,secrets,services", "*"), rig.Rule("apps", "deployments", "get", "list", "watch")},
			func(r *rig.Rig) (*kube.Operation, error) {
				return r.Install("plain", func(i *kube.Deploy) { i.Release = "other" })
			}, []string{"deployments.apps [create patch]"}, "configmaps"},
		"rollback on failure": {[]rbacv1.PolicyRule{rig.Rule("", "configmaps,secrets,services", "get", "list", "create", "patch", "update"), rig.Rule("apps", "deployments", "get", "create", "patch")},
			func(r *rig.Rig) (*kube.Operation, error) {
				return r.Install("plain", func(i *kube.Deploy) { i.Release, i.RollbackOnFailure = "other", true })
			}, []string{"deployments.apps [delete] (to roll back)", "secrets [delete] (to roll back)"}, "create"},
		"namespace": {[]rbacv1.PolicyRule{rig.Rule("", "configmaps,secrets,services", "*")},
			func(r *rig.Rig) (*kube.Operation, error) {
				grantEverywhere(r, "few", rig.Rule("", "configmaps,secrets", "*"), rig.Rule("", "namespaces", "get"))
				return r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), func(i *kube.Deploy) {
					i.Release, i.Namespace, i.CreateNamespace = "other", r.Namespace+"-new", true
				}))
			}, []string{"in the whole cluster: namespaces [create patch]"}, "delete"},
		"removal": {[]rbacv1.PolicyRule{rig.Rule("", "configmaps,secrets", "get", "list", "create", "patch", "update")},
			func(r *rig.Rig) (*kube.Operation, error) {
				return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("b", nil)), nil))
			}, []string{"configmaps [delete]"}, "secrets"},
		"uninstall": {[]rbacv1.PolicyRule{rig.Rule("", "configmaps,secrets", "get", "list")},
			func(r *rig.Rig) (*kube.Operation, error) { return r.Uninstall() }, []string{"configmaps [delete]", "secrets [delete update]"}, "create"},
		"no history": {[]rbacv1.PolicyRule{rig.Rule("", "configmaps,services", "*"), rig.Rule("", "secrets", "create", "update")},
			func(r *rig.Rig) (*kube.Operation, error) {
				return r.Install("plain", func(i *kube.Deploy) { i.Release = "other" })
			}, []string{"deployments.apps [create get patch], secrets [list] (to list the revisions of the release)"}, "configmaps"},
		"no history to upgrade": {[]rbacv1.PolicyRule{rig.Rule("", "configmaps", "get"), rig.Rule("", "secrets", "create", "update")},
			func(r *rig.Rig) (*kube.Operation, error) {
				return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Job("new", nil, "10ms")), nil))
			}, []string{"configmaps [patch]", "jobs.batch [create get patch]", "secrets [list]"}, "in use"},
		"no history to uninstall": {[]rbacv1.PolicyRule{rig.Rule("", "secrets", "get")},
			func(r *rig.Rig) (*kube.Operation, error) { return r.Uninstall() }, []string{"secrets [delete update]", "secrets [list]"}, "create"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), rig.ConfigMap("b", nil)), nil))
			before := len(r.Writes())
			_, err := tt.prepare(r.WithClient(r.ConnectAs("few", tt.rules...)))
			if err == nil || strings.Contains(err.Error(), tt.not) || !strings.Contains(err.Error(), "user "+r.Namespace+"-few") {
				t.Fatalf("error %v", err)
			}
			for _, lack := range tt.lacks {
				if !strings.Contains(err.Error(), lack) {
					t.Errorf("the error lacks %q: %v", lack, err)
				}
			}
			if w := r.Writes()[before:]; len(w) > 0 {
				t.Errorf("written: %v", w)
			}
			if r.Status() != rcommon.StatusDeployed {
				t.Errorf("the release is %s", r.Status())
			}
		})
	}
}

// TestPlanOfAReader plans for a user who may only read: objects are compared with the deployed manifest instead of a dry
// run.
func TestPlanOfAReader(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: red"), rig.ConfigMap("b", nil), rig.ConfigMap("c", nil)), nil))
	reader := r.WithClient(r.ConnectAs("reader", rig.Rule("", "configmaps,secrets", "get", "list")))
	lines, diffs := reader.Changes(reader.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: green"), rig.ConfigMap("b", nil), rig.ConfigMap("d", nil)), func(u *kube.Deploy) { u.PlanOnly = true })))
	want := []string{"edge:(unsequenced) ConfigMap/a change", "edge:(unsequenced) ConfigMap/b unchanged", "edge:(unsequenced) ConfigMap/d create", "edge:(unsequenced) ConfigMap/c delete"}
	if !slices.Equal(lines, want) {
		t.Errorf("plan %q, want %q", lines, want)
	}
	if c := diffs["ConfigMap/a"]; !strings.Contains(c.Diff, "-  color: red\n+  color: green\n") || !strings.Contains(c.Message, "last manifest") {
		t.Errorf("%+v", c)
	}
}
