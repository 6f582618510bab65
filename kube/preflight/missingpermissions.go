package preflight

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	authnv1 "k8s.io/api/authentication/v1"
	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/rights"
)

// missingPermissions returns the permissions that the user lacks, with object names if only some
// objects are forbidden. The rules that the API server lists may be incomplete, so
// missingPermissions also requests a review of each permission that they do not grant.
func missingPermissions(ctx context.Context, c *connect.Client, all rights.Set) rights.Set {
	rules := map[string][]authv1.ResourceRule{}
	missing := rights.Set{}
	for permission, names := range all {
		namespace := permission.Namespace
		if _, listed := rules[namespace]; !listed {
			rules[namespace] = rulesIn(ctx, c, namespace)
		}
		unlisted, granted := ungranted(rules[namespace], permission, names)
		if granted || allowed(ctx, c, permission, "") {
			continue
		}
		denied := forbidden(ctx, c, permission, unlisted)
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

// ExplainDenied replaces an error about a request that the user is not permitted to make with
// missingPermissionsText. It returns other errors unchanged.
func ExplainDenied(c *connect.Client, err error) error {
	if err == nil || !diagnose.LacksRight(err) {
		return err
	}
	found := deniedRequest.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	missing := rights.Set{}
	missing.Add(rights.Right{
		Verb:      found[2],
		Resource:  schema.GroupResource{Group: found[4], Resource: found[3]},
		Namespace: found[5],
	})
	return errors.New(missingPermissionsText(describeUser(c, found[1]), missing))
}

// missingPermissionsText is the sentence about missing permissions.
func missingPermissionsText(user string, missing rights.Set) string {
	return fmt.Sprintf("%s lacks permissions: %s; ask an administrator to grant them", user, missing)
}

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

// ungranted returns the names for which no rule grants a permission. granted is set if the rules
// grant it for all names.
func ungranted(rules []authv1.ResourceRule, permission rights.Right, names []string) (unlisted []string, granted bool) {
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
	unlisted = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return named[name] })
	return unlisted, len(names) > 0 && len(unlisted) == 0
}

// forbidden returns the names of objects for which the user lacks a permission.
func forbidden(ctx context.Context, c *connect.Client, permission rights.Right, names []string) (out []string) {
	granted := make([]bool, len(names))
	each(len(names), func(i int) { granted[i] = allowed(ctx, c, permission, names[i]) })
	for i, name := range names {
		if !granted[i] {
			out = append(out, name)
		}
	}
	return out
}

// allowed reports whether the user has a permission for the named object, or for "" for all objects
// of the kind. It returns true if the request fails: the operation itself will find out.
func allowed(ctx context.Context, c *connect.Client, permission rights.Right, name string) bool {
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

// Username returns who the API server takes the user for, "" if it does not say.
func Username(ctx context.Context, c *connect.Client) string {
	review, err := c.Clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authnv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// currentUser returns the name of the user, or else of the context, for messages.
func currentUser(ctx context.Context, c *connect.Client) string {
	return describeUser(c, Username(ctx, c))
}

func describeUser(c *connect.Client, name string) string {
	if name == "" {
		return fmt.Sprintf("the user of context %q", c.ContextName())
	}
	return fmt.Sprintf("user %s (context %q)", name, c.ContextName())
}
