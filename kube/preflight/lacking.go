package preflight

import (
	"context"
	"fmt"
	"slices"
	"sync"

	authnv1 "k8s.io/api/authentication/v1"
	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/connect"
	"lockstep/kube/rights"
)

// lacking returns the missing rights, with object names if other objects are granted. The
// rules the API server lists may be incomplete, so rights they do not grant are asked for.
// They are the rules of a namespace: a RoleBinding there grants nothing outside it.
func lacking(ctx context.Context, c *connect.Client, all rights.Set) rights.Set {
	rules := map[string][]authv1.ResourceRule{}
	missing := rights.Set{}
	for r, names := range all {
		if _, asked := rules[r.Namespace]; !asked {
			rules[r.Namespace] = rulesIn(ctx, c, r.Namespace)
		}
		if left, granted := ungranted(rules[r.Namespace], r, names); !granted && !allowed(ctx, c, r, "") {
			if left = forbidden(ctx, c, r, left); len(names) == 0 || len(left) == len(names) {
				missing[r] = nil
			} else if len(left) > 0 {
				missing[r] = left
			}
		}
	}
	return missing
}

// rulesIn returns the rules that the API server lists for the user in a namespace.
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

// ungranted returns the names for which no rule grants a right. granted is set if there is
// nothing left to ask.
func ungranted(rules []authv1.ResourceRule, r rights.Right, names []string) (left []string, granted bool) {
	has := func(list []string, s string) bool { return slices.Contains(list, "*") || slices.Contains(list, s) }
	named := map[string]bool{}
	for _, rule := range rules {
		if !has(rule.Verbs, r.Verb) || !has(rule.APIGroups, r.Resource.Group) || !has(rule.Resources, r.Resource.Resource) {
			continue
		}
		if len(rule.ResourceNames) == 0 {
			return nil, true
		}
		for _, name := range rule.ResourceNames {
			named[name] = true
		}
	}
	for _, name := range names {
		if !named[name] {
			left = append(left, name)
		}
	}
	return left, len(names) > 0 && len(left) == 0
}

// forbidden returns the names of objects the user has no right to, asked in parallel.
func forbidden(ctx context.Context, c *connect.Client, r rights.Right, names []string) (out []string) {
	const atOnce = 16
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan string)
	for range min(atOnce, len(names)) {
		wg.Go(func() {
			for name := range next {
				if !allowed(ctx, c, r, name) {
					mu.Lock()
					out = append(out, name)
					mu.Unlock()
				}
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wg.Wait()
	return out
}

// allowed asks for a right to the named object, or to all of its kind for "". Without an
// answer it is true: the operation itself will find out.
func allowed(ctx context.Context, c *connect.Client, r rights.Right, name string) bool {
	review, err := c.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Resource.Group, Resource: r.Resource.Resource, Name: name,
		}},
	}, metav1.CreateOptions{})
	return err != nil || review.Status.Allowed
}

// user names the user, as far as the cluster reports it.
func user(ctx context.Context, c *connect.Client) string {
	who, err := c.Clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authnv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username == "" {
		return fmt.Sprintf("the user of context %q", c.ContextName())
	}
	return fmt.Sprintf("user %s (context %q)", who.Status.UserInfo.Username, c.ContextName())
}
