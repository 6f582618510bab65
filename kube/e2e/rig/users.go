package rig

import (
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/cli"
	authnv1 "k8s.io/api/authentication/v1"
	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lockstep/kube"
)

// ConnectAs returns a connection of a user who has only the given permissions, in the namespace. The user's full
// name starts with the namespace.
func (r *Rig) ConnectAs(user string, rules ...rbacv1.PolicyRule) *kube.Client {
	r.T.Helper()
	if _, err := r.Cluster.RbacV1().Roles(r.Namespace).Create(r.T.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	return r.ConnectBound(user, "Role", user, rules)
}

// ConnectBound returns a connection of a user who has only the permissions of a Role or ClusterRole, in the namespace.
// rules are some of them; ConnectBound waits until the last one is in effect.
func (r *Rig) ConnectBound(user, kind, role string, rules []rbacv1.PolicyRule) *kube.Client {
	r.T.Helper()
	rbac := r.Cluster.RbacV1()
	name := metav1.ObjectMeta{Name: user}
	binding := &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: r.Namespace + "-" + user}}}
	if _, err := rbac.RoleBindings(r.Namespace).Create(r.T.Context(), binding, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.AwaitAccess(user, rules)
	return Connect(r.T, r.Namespace, func(s *cli.EnvSettings) { s.KubeAsUser = r.Namespace + "-" + user })
}

// AwaitAccess waits until the API server's authorizer knows the last of the rules, which takes a moment.
func (r *Rig) AwaitAccess(user string, rules []rbacv1.PolicyRule) {
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

// Rule returns a rule for a comma-separated list of resources.
func Rule(group, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: verbs}
}

// WithClient returns a copy of the rig with another client.
func (r *Rig) WithClient(c *kube.Client) *Rig {
	return &Rig{T: r.T, Namespace: r.Namespace, Client: c, Cluster: r.Cluster}
}

// ConnectAsServiceAccount returns a connection with a token of a ServiceAccount in the namespace.
func (r *Rig) ConnectAsServiceAccount(name string) *kube.Client {
	r.T.Helper()
	token, err := r.Cluster.CoreV1().ServiceAccounts(r.Namespace).CreateToken(r.T.Context(), name, &authnv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(Sandbox.Kubeconfig)
	if err != nil {
		r.T.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	file := filepath.Join(r.T.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		r.T.Fatal(err)
	}
	return Connect(r.T, r.Namespace, func(s *cli.EnvSettings) { s.KubeConfig = file })
}
