package rig

import (
	"strings"

	"helm.sh/helm/v4/pkg/cli"
	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
)

// As returns a connection of a user with the given rights in the namespace only.
func (r *Rig) As(user string, rules ...rbacv1.PolicyRule) *kube.Client {
	r.T.Helper()
	if _, err := r.Cluster.RbacV1().Roles(r.Namespace).Create(r.T.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	return r.Bound(user, "Role", user, rules)
}

// Bound returns a connection of a user with only the rights of a Role or ClusterRole in the
// namespace. rules are some of these rights.
func (r *Rig) Bound(user, kind, role string, rules []rbacv1.PolicyRule) *kube.Client {
	r.T.Helper()
	rbac := r.Cluster.RbacV1()
	name := metav1.ObjectMeta{Name: user}
	binding := &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: r.Namespace + "-" + user}}}
	if _, err := rbac.RoleBindings(r.Namespace).Create(r.T.Context(), binding, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.AwaitRights(user, rules)
	return Connected(r.T, r.Namespace, func(s *cli.EnvSettings) { s.KubeAsUser = r.Namespace + "-" + user })
}

// AwaitRights waits until the API server's authorizer, which has a delay, knows the rights of a user.
func (r *Rig) AwaitRights(user string, rules []rbacv1.PolicyRule) {
	r.T.Helper()
	if len(rules) == 0 {
		return
	}
	last := rules[len(rules)-1]
	asked := &authv1.ResourceAttributes{Namespace: r.Namespace, Verb: last.Verbs[0], Group: last.APIGroups[0]}
	asked.Resource, asked.Subresource, _ = strings.Cut(last.Resources[0], "/")
	if len(last.ResourceNames) > 0 {
		asked.Name = last.ResourceNames[0]
	}
	r.Eventually("user "+user+" may "+last.Verbs[0]+" "+last.Resources[0], func() bool {
		review, err := r.Cluster.AuthorizationV1().SubjectAccessReviews().Create(r.T.Context(),
			&authv1.SubjectAccessReview{Spec: authv1.SubjectAccessReviewSpec{User: r.Namespace + "-" + user, ResourceAttributes: asked}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed
	})
}

func Rule(group, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: verbs}
}

// Acting returns a copy of the rig with the connection of another user.
func (r *Rig) Acting(c *kube.Client) *Rig {
	return &Rig{T: r.T, Namespace: r.Namespace, Client: c, Cluster: r.Cluster}
}
