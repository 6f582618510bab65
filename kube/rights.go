package kube

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// neededVerbs are what an operation needs to bring an object to the cluster by
// server-side apply.
var neededVerbs = []string{"get", "create", "patch"}

// place is a kind in a namespace.
type place struct {
	resource  schema.GroupResource
	namespace string
}

// checkRights asks whether the user may write what the last Build built. It is
// the last check of all: asking is itself a request to the API server. A
// cluster that does not answer it is given the benefit of the doubt.
func (c *Client) checkRights(ctx context.Context, p *pass, namespace string) error {
	places := map[place]bool{{schema.GroupResource{Resource: "secrets"}, namespace}: true}
	if d := storageDriver(); d != "" && !strings.HasPrefix(d, "secret") {
		places = map[place]bool{}
	}
	for _, i := range p.ord.last() {
		if f := p.ord.builder.fact(i); f != nil && !f.late {
			places[place{i.Mapping.Resource.GroupResource(), i.Namespace}] = true
		}
	}
	namespaces := map[string][]place{}
	for pl := range places {
		ns := pl.namespace
		if ns == "" {
			ns = namespace // rules for cluster scope come with those of any namespace
		}
		namespaces[ns] = append(namespaces[ns], pl)
	}
	var missing []string
	for ns, places := range namespaces {
		lacks, err := c.lacking(ctx, ns, places)
		if err != nil {
			return nil //nolint:nilerr // the operation itself will tell
		}
		missing = append(missing, lacks...)
	}
	if len(missing) == 0 {
		return nil
	}
	sort.Strings(missing)
	return fmt.Errorf("the user of context %q lacks rights: may not %s", c.ContextName(), strings.Join(missing, ", "))
}

// lacking says which rights are missing in a namespace. The rules that the API
// server lists may be incomplete, so what they do not grant is asked one by
// one.
func (c *Client) lacking(ctx context.Context, namespace string, places []place) ([]string, error) {
	review, err := c.clientset.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
		&authv1.SelfSubjectRulesReview{Spec: authv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, pl := range places {
		for _, verb := range neededVerbs {
			if granted(review.Status.ResourceRules, pl.resource, verb) {
				continue
			}
			allowed, err := c.allowed(ctx, pl, verb)
			if err != nil {
				return nil, err
			}
			if !allowed {
				missing = append(missing, verb+" "+pl.resource.String())
			}
		}
	}
	return missing, nil
}

func granted(rules []authv1.ResourceRule, r schema.GroupResource, verb string) bool {
	has := func(list []string, s string) bool { return slices.Contains(list, "*") || slices.Contains(list, s) }
	return slices.ContainsFunc(rules, func(rule authv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 && has(rule.Verbs, verb) && has(rule.APIGroups, r.Group) && has(rule.Resources, r.Resource)
	})
}

func (c *Client) allowed(ctx context.Context, pl place, verb string) (bool, error) {
	review, err := c.clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Namespace: pl.namespace, Verb: verb, Group: pl.resource.Group, Resource: pl.resource.Resource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
