package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	authnv1 "k8s.io/api/authentication/v1"
	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/connect"
)

// lacking returns the missing rights, with object names if other objects are granted. The
// rules the API server lists may be incomplete, so rights they do not grant are asked for.
// They are the rules of a namespace: a RoleBinding there grants nothing outside it.
func lacking(ctx context.Context, c *connect.Client, all rights) rights {
	rules := map[string][]authv1.ResourceRule{}
	missing := rights{}
	for r, names := range all {
		if _, asked := rules[r.namespace]; !asked {
			rules[r.namespace] = rulesIn(ctx, c, r.namespace)
		}
		if left, granted := ungranted(rules[r.namespace], r, names); !granted && !allowed(ctx, c, r, "") {
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
func ungranted(rules []authv1.ResourceRule, r right, names []string) (left []string, granted bool) {
	has := func(list []string, s string) bool { return slices.Contains(list, "*") || slices.Contains(list, s) }
	named := map[string]bool{}
	for _, rule := range rules {
		if !has(rule.Verbs, r.verb) || !has(rule.APIGroups, r.resource.Group) || !has(rule.Resources, r.resource.Resource) {
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
func forbidden(ctx context.Context, c *connect.Client, r right, names []string) (out []string) {
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
func allowed(ctx context.Context, c *connect.Client, r right, name string) bool {
	review, err := c.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Namespace: r.namespace, Verb: r.verb, Group: r.resource.Group, Resource: r.resource.Resource, Name: name,
		}},
	}, metav1.CreateOptions{})
	return err != nil || review.Status.Allowed
}

// String prints rights as kubectl auth can-i --list does: a kind with its verbs, by
// namespace.
func (r rights) String() string {
	type key struct{ namespace, resource, names, why string }
	verbs := map[key][]string{}
	for of, names := range r {
		k := key{of.namespace, of.resource.String(), few(names), of.why}
		verbs[k] = append(verbs[k], of.verb)
	}
	keys := slices.SortedFunc(maps.Keys(verbs), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.resource, b.resource), cmp.Compare(a.names, b.names), cmp.Compare(a.why, b.why))
	})
	var text strings.Builder
	for i, k := range keys {
		switch {
		case i > 0 && keys[i-1].namespace == k.namespace:
			text.WriteString(", ")
		case i > 0:
			text.WriteString("; ")
			fallthrough
		default:
			text.WriteString(in(k.namespace) + ": ")
		}
		slices.Sort(verbs[k])
		fmt.Fprintf(&text, "%s%s [%s]", k.resource, k.names, strings.Join(verbs[k], " "))
		if k.why != "" {
			text.WriteString(" (" + k.why + ")")
		}
	}
	return text.String()
}

// in names the place where rights are missing.
func in(namespace string) string {
	if namespace == "" {
		return "in the whole cluster"
	}
	return "in namespace " + namespace
}

// few lists the first names, each after a space, and the number of others.
func few(names []string) string {
	const most = 3
	names = slices.Sorted(slices.Values(names))
	switch {
	case len(names) == 0:
		return ""
	case len(names) <= most+1:
		return " " + strings.Join(names, ", ")
	}
	return fmt.Sprintf(" %s and %d others", strings.Join(names[:most], ", "), len(names)-most)
}

// user names the user, as far as the cluster reports it.
func user(ctx context.Context, c *connect.Client) string {
	who, err := c.Clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authnv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username == "" {
		return fmt.Sprintf("the user of context %q", c.ContextName())
	}
	return fmt.Sprintf("user %s (context %q)", who.Status.UserInfo.Username, c.ContextName())
}
