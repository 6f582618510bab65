package kube

import (
	"slices"
	"strings"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"helm.sh/helm/v4/pkg/cli"
)

// as is a connection of a user who has only the given rights in the namespace.
func (r *rig) as(user string, rules ...rbacv1.PolicyRule) *Client {
	r.t.Helper()
	if _, err := r.cluster.RbacV1().Roles(r.namespace).Create(r.t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	return r.bound(user, "Role", user, rules)
}

// bound is a connection of a user who has only the rights of a Role or ClusterRole, of
// which rules are some, in the namespace.
func (r *rig) bound(user, kind, role string, rules []rbacv1.PolicyRule) *Client {
	r.t.Helper()
	rbac := r.cluster.RbacV1()
	name := metav1.ObjectMeta{Name: user}
	binding := &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: r.namespace + "-" + user}}}
	if _, err := rbac.RoleBindings(r.namespace).Create(r.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.awaitRights(user, rules)
	s := cli.New()
	s.KubeConfig, s.KubeAsUser = sandbox.Kubeconfig, r.namespace+"-"+user
	s.SetNamespace(r.namespace)
	c, err := Connect(s, nil, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// awaitRights waits until the API server's authorizer, which lags behind, knows the
// rights that a user was given.
func (r *rig) awaitRights(user string, rules []rbacv1.PolicyRule) {
	r.t.Helper()
	if len(rules) == 0 {
		return
	}
	last := rules[len(rules)-1]
	asked := &authv1.ResourceAttributes{Namespace: r.namespace, Verb: last.Verbs[0], Group: last.APIGroups[0]}
	asked.Resource, asked.Subresource, _ = strings.Cut(last.Resources[0], "/")
	if len(last.ResourceNames) > 0 {
		asked.Name = last.ResourceNames[0]
	}
	r.eventually("user "+user+" may "+last.Verbs[0]+" "+last.Resources[0], func() bool {
		review, err := r.cluster.AuthorizationV1().SubjectAccessReviews().Create(r.t.Context(),
			&authv1.SubjectAccessReview{Spec: authv1.SubjectAccessReviewSpec{User: r.namespace + "-" + user, ResourceAttributes: asked}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed
	})
}

func rule(group, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: verbs}
}

// everywhere gives a user rights in all namespaces.
func (r *rig) everywhere(user string, rules ...rbacv1.PolicyRule) {
	r.t.Helper()
	name := metav1.ObjectMeta{Name: r.namespace}
	_, err := r.cluster.RbacV1().ClusterRoles().Create(r.t.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{})
	if err == nil {
		_, err = r.cluster.RbacV1().ClusterRoleBindings().Create(r.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.namespace},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: r.namespace + "-" + user}}}, metav1.CreateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.awaitRights(user, rules)
}

// acting is the rig in the hands of another user.
func (r *rig) acting(c *Client) *rig {
	return &rig{t: r.t, namespace: r.namespace, client: c, cluster: r.cluster}
}

// TestMissingRights refuses what the user may not do, names what is missing,
// and writes nothing.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rules   []rbacv1.PolicyRule
		prepare func(*rig) (*Operation, error)
		lacks   []string
		not     string
	}{
		"install": {[]rbacv1.PolicyRule{rule("", "configmaps,secrets,services", "*"), rule("apps", "deployments", "get", "list", "watch")},
			func(r *rig) (*Operation, error) {
				return r.install("plain", func(i *Install) { i.Release = "other" })
			}, []string{"deployments.apps [create patch]"}, "configmaps"},
		"rollback on failure": {[]rbacv1.PolicyRule{rule("", "configmaps,secrets,services", "get", "list", "create", "patch", "update"), rule("apps", "deployments", "get", "create", "patch")},
			func(r *rig) (*Operation, error) {
				return r.install("plain", func(i *Install) { i.Release, i.RollbackOnFailure = "other", true })
			}, []string{"deployments.apps [delete] (to roll back)", "secrets [delete] (to roll back)"}, "create"},
		"namespace": {[]rbacv1.PolicyRule{rule("", "configmaps,secrets,services", "*")},
			func(r *rig) (*Operation, error) {
				r.everywhere("few", rule("", "configmaps,secrets", "*"), rule("", "namespaces", "get"))
				return r.install("plain", use(one(t, configMap("a", nil)), func(i *Install) {
					i.Release, i.Namespace, i.CreateNamespace = "other", r.namespace+"-new", true
				}))
			}, []string{"in the whole cluster: namespaces [create patch]"}, "delete"},
		"removal": {[]rbacv1.PolicyRule{rule("", "configmaps,secrets", "get", "list", "create", "patch", "update")},
			func(r *rig) (*Operation, error) {
				return r.upgrade("plain", useUp(one(t, configMap("b", nil)), nil))
			}, []string{"configmaps [delete]"}, "secrets"},
		"uninstall": {[]rbacv1.PolicyRule{rule("", "configmaps,secrets", "get", "list")},
			func(r *rig) (*Operation, error) { return r.uninstall() }, []string{"configmaps [delete]", "secrets [delete update]"}, "create"},
		"no history": {[]rbacv1.PolicyRule{rule("", "configmaps,services", "*"), rule("", "secrets", "create", "update")},
			func(r *rig) (*Operation, error) {
				return r.install("plain", func(i *Install) { i.Release = "other" })
			}, []string{"deployments.apps [create get patch], secrets [list] (to know which revisions of the release there are)"}, "configmaps"},
		"no history to upgrade": {[]rbacv1.PolicyRule{rule("", "configmaps", "get"), rule("", "secrets", "create", "update")},
			func(r *rig) (*Operation, error) {
				return r.upgrade("plain", useUp(one(t, configMap("a", nil), job("new", nil, "10ms")), nil))
			}, []string{"configmaps [patch]", "jobs.batch [create get patch]", "secrets [list]"}, "in use"},
		"no history to uninstall": {[]rbacv1.PolicyRule{rule("", "secrets", "get")},
			func(r *rig) (*Operation, error) { return r.uninstall() }, []string{"secrets [delete update]", "secrets [list]"}, "create"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(one(t, configMap("a", nil), configMap("b", nil)), nil))
			before := len(r.writes())
			_, err := tt.prepare(r.acting(r.as("few", tt.rules...)))
			if err == nil || strings.Contains(err.Error(), tt.not) || !strings.Contains(err.Error(), "user "+r.namespace+"-few") {
				t.Fatalf("error %v", err)
			}
			for _, lack := range tt.lacks {
				if !strings.Contains(err.Error(), lack) {
					t.Errorf("the error does not name %q: %v", lack, err)
				}
			}
			if w := r.writes()[before:]; len(w) > 0 {
				t.Errorf("written: %v", w)
			}
			if r.status() != rcommon.StatusDeployed {
				t.Errorf("the release is %s", r.status())
			}
		})
	}
}

// TestPlanOfAReader plans for a user who may only read: what cannot be tried is
// compared with the manifest that is deployed.
func TestPlanOfAReader(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("a", nil, "color: red"), configMap("b", nil), configMap("c", nil)), nil))
	reader := r.acting(r.as("reader", rule("", "configmaps,secrets", "get", "list")))
	lines, diffs := reader.changes(reader.upgrade("plain", useUp(one(t, configMap("a", nil, "color: green"), configMap("b", nil), configMap("d", nil)), func(u *Upgrade) { u.PlanOnly = true })))
	want := []string{"edge:(unsequenced) ConfigMap/a change", "edge:(unsequenced) ConfigMap/b unchanged", "edge:(unsequenced) ConfigMap/d create", "edge:(unsequenced) ConfigMap/c delete"}
	if !slices.Equal(lines, want) {
		t.Errorf("plan %q, want %q", lines, want)
	}
	if c := diffs["ConfigMap/a"]; !strings.Contains(c.Diff, "-  color: red\n+  color: green\n") || !strings.Contains(c.Message, "last manifest") {
		t.Errorf("%+v", c)
	}
}
