package preflight

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	authnv1 "k8s.io/api/authentication/v1"
	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/permissions"
)

// missingPermissions returns the permissions that the user lacks, with the names of the objects if
// only some are forbidden. The API server's list of rules may be incomplete, so missingPermissions
// requests a review of each permission that the rules do not grant.
func missingPermissions(ctx context.Context, c *connect.Client, all permissions.Set) permissions.Set {
	rules := map[string][]authv1.ResourceRule{}
	missing := permissions.Set{}
	for permission, names := range all {
		namespace := permission.Namespace
		if _, listed := rules[namespace]; !listed {
			rules[namespace] = rulesIn(ctx, c, namespace)
		}
		ungranted, granted := withoutRule(rules[namespace], permission, names)
		if granted || allowed(ctx, c, permission, "") {
			continue
		}
		denied := forbidden(ctx, c, permission, ungranted)
		switch {
		case len(names) == 0 || len(denied) == len(names):
			missing[permission] = nil
		case len(denied) > 0:
			missing[permission] = denied
		}
	}
	return missing
}

// deniedRequest matches the API server's message about a permission that the user lacks. Its parts
// are the user, the verb, the resource, the API group and the namespace.
var deniedRequest = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)" ` +
	`(?:in the namespace "([^"]*)"|at the cluster scope)`)

// ExplainDenied replaces an error about a missing permission with a *Refusal that names the user and
// the permission. It returns other errors unchanged.
func ExplainDenied(c *connect.Client, err error) error {
	if err == nil || !diagnose.LacksPermission(err) {
		return err
	}
	found := deniedRequest.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	missing := permissions.Set{}
	missing.Add(permissions.Permission{
		Verb:      found[2],
		Resource:  schema.GroupResource{Group: found[4], Resource: found[3]},
		Namespace: found[5],
	})
	return &Refusal{Conflicts: []plan.Warning{{Message: missingPermissionsText(c, found[1], missing)}}}
}

// anonymous is the name that the API server gives to users without credentials.
const anonymous = "system:anonymous"

// missingPermissionsText returns the message about permissions that the named user lacks.
func missingPermissionsText(c *connect.Client, name string, missing permissions.Set) string {
	if name == anonymous && !c.Impersonates() {
		return fmt.Sprintf("context %q has no valid credentials, so the API server treats you as anonymous, without these permissions: %s; "+
			"log in, or select another context with --kube-context", c.ContextName(), missing)
	}
	return fmt.Sprintf("%s lacks permissions: %s; ask an administrator to grant them", describeUser(c, name), missing)
}

// rulesIn returns the rules that grant the user permissions in a namespace, nil if the request fails. The
// API server cannot list rules for cluster scope.
func rulesIn(ctx context.Context, c *connect.Client, namespace string) []authv1.ResourceRule {
	if namespace == "" {
		return nil
	}
	review, err := c.Clientset.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
		&authv1.SelfSubjectRulesReview{Spec: authv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return nil
	}
	return review.Status.ResourceRules
}

// withoutRule returns the names for which no rule grants a permission. granted is set if the rules
// grant it for all names.
func withoutRule(rules []authv1.ResourceRule, permission permissions.Permission, names []string) (ungranted []string, granted bool) {
	has := func(list []string, s string) bool { return slices.Contains(list, "*") || slices.Contains(list, s) }
	named := map[string]bool{}
	for _, rule := range rules {
		if !has(rule.Verbs, permission.Verb) || !has(rule.APIGroups, permission.Resource.Group) ||
			!has(rule.Resources, permission.Resource.Resource) {
			continue
		}
		if len(rule.ResourceNames) == 0 {
			return nil, true
		}
		for _, name := range rule.ResourceNames {
			named[name] = true
		}
	}
	ungranted = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return named[name] })
	return ungranted, len(names) > 0 && len(ungranted) == 0
}

// forbidden returns the names for which a review denies a permission.
func forbidden(ctx context.Context, c *connect.Client, permission permissions.Permission, names []string) (out []string) {
	granted := make([]bool, len(names))
	concurrently(len(names), func(i int) { granted[i] = allowed(ctx, c, permission, names[i]) })
	for i, name := range names {
		if !granted[i] {
			out = append(out, name)
		}
	}
	return out
}

// allowed reports whether the user has a permission for the named object, or with "" for all objects
// of the resource. It returns true if the request fails: the operation itself will find out.
func allowed(ctx context.Context, c *connect.Client, permission permissions.Permission, name string) bool {
	review, err := c.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Namespace: permission.Namespace,
			Verb:      permission.Verb,
			Group:     permission.Resource.Group,
			Resource:  permission.Resource.Resource,
			Name:      name,
		}},
	}, metav1.CreateOptions{})
	return err != nil || review.Status.Allowed
}

// Username returns the name under which the API server knows the user, "" if the request fails.
func Username(ctx context.Context, c *connect.Client) string {
	review, err := c.Clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authnv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// describeUser describes a user in messages. name may be "".
func describeUser(c *connect.Client, name string) string {
	if name == "" {
		return fmt.Sprintf("the user of context %q", c.ContextName())
	}
	return fmt.Sprintf("user %s (context %q)", name, c.ContextName())
}
