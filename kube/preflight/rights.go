package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authnv1 "k8s.io/api/authentication/v1"
	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
)

// right is a verb on a kind in a namespace, which is "" for cluster scope.
type right struct {
	verb      string
	resource  schema.GroupResource
	namespace string
	optional  bool // the operation can do without
}

func (r right) String() string {
	s := r.verb + " " + r.resource.String()
	if r.namespace != "" {
		s += " in namespace " + r.namespace
	}
	return s
}

// rightsFor are what an operation needs to write what it has planned. Kinds
// that the cluster does not know yet are left out.
func (s *Session) rightsFor(p *Prepared) (map[right]bool, error) {
	mapper, err := s.Client.Getter.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	rights := storageRights(p)
	maps.Copy(rights, leaseRights(p))
	seen := map[plan.Object]bool{} // objects of a phase, without their names
	for _, phase := range p.Phases {
		clear(seen)
		for _, g := range phase.Groups {
			for _, o := range g.Objects {
				if o.Name = ""; seen[o] {
					continue
				}
				seen[o] = true
				m, err := mapper.RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
				if err != nil {
					continue
				}
				for _, verb := range verbs(p, phase.Kind, o) {
					rights[right{verb: verb, resource: m.Resource.GroupResource(), namespace: o.Namespace}] = true
				}
			}
		}
	}
	return rights, nil
}

// storageRights are those for the release record.
func storageRights(p *Prepared) map[right]bool {
	rights := map[right]bool{}
	kind := "secrets"
	switch d := connect.StorageDriver(); {
	case strings.HasPrefix(d, "configmap"):
		kind = "configmaps"
	case d != "" && !strings.HasPrefix(d, "secret"):
		return rights
	}
	verbs := []string{"create", "update"}
	switch {
	case p.Info.Name == "test":
		verbs = []string{"update"}
	case p.Info.Name == "uninstall":
		verbs = []string{"update", "delete"}
	case p.Info.Name == "install" && p.Common.RollbackOnFailure:
		verbs = append(verbs, "delete")
	}
	for _, verb := range verbs {
		rights[right{verb: verb, resource: schema.GroupResource{Resource: kind}, namespace: p.Common.Namespace}] = true
	}
	return rights
}

// leaseRights are those for the Lease of the release, where there may be one.
func leaseRights(p *Prepared) map[right]bool {
	rights := map[right]bool{}
	if p.Lease.Kind == lease.Unavailable {
		return rights
	}
	for _, verb := range []string{"create", "update", "delete"} {
		rights[right{verb: verb, resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, namespace: p.Common.Namespace, optional: true}] = true
	}
	return rights
}

// verbs are what a phase of a kind does to an object. A hook is deleted before
// it is created, or afterwards, by its policy; not so a CRD.
func verbs(p *Prepared, k event.PhaseKind, o plan.Object) []string {
	switch k {
	case event.PhaseNamespace:
		return []string{"create"}
	case event.PhaseCRDs, event.PhaseApply:
		verbs := []string{"get", "create", "patch"}
		if k == event.PhaseApply && p.Info.Name == "install" && p.Common.RollbackOnFailure {
			verbs = append(verbs, "delete")
		}
		return verbs
	case event.PhaseHooks:
		if o.Kind == crdKind.Kind {
			return []string{"create"}
		}
		return []string{"create", "delete"}
	case event.PhaseRemove:
		return []string{"get", "delete"}
	}
	return nil
}

// checkRights asks whether the user may write what is planned. It is the last
// check of all: asking is itself a request to the API server. What a cluster does
// not answer is given the benefit of the doubt.
func (s *Session) checkRights(p *Prepared) error {
	rights, err := s.rightsFor(p)
	if err != nil {
		return err
	}
	byNamespace := map[string][]right{}
	for r := range rights {
		byNamespace[r.namespace] = append(byNamespace[r.namespace], r)
	}
	var missing, optional []string
	for _, ns := range slices.Sorted(maps.Keys(byNamespace)) {
		for _, r := range lacking(s.Context, s.Client, ns, byNamespace[ns]) {
			if r.optional {
				optional = append(optional, r.String())
			} else {
				missing = append(missing, r.String())
			}
		}
	}
	if s.Context.Err() != nil {
		return fmt.Errorf("ask for rights: %w", context.Cause(s.Context))
	}
	if len(optional) > 0 {
		slices.Sort(optional)
		p.Lease = lease.State{Kind: lease.Unavailable, Err: fmt.Errorf("%s may not %s", user(s.Context, s.Client), strings.Join(optional, ", "))}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%s lacks rights: may not %s", user(s.Context, s.Client), strings.Join(missing, ", "))
}

// user names who asks, as far as the cluster tells.
func user(ctx context.Context, c *connect.Client) string {
	who, err := c.Clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authnv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username == "" {
		return fmt.Sprintf("the user of context %q", c.ContextName())
	}
	return fmt.Sprintf("user %s (context %q)", who.Status.UserInfo.Username, c.ContextName())
}

// lacking says which rights are missing in a namespace, or for cluster scope. The
// rules that the API server lists may be incomplete, so what they do not grant is
// asked one by one. They are those of a namespace: what they grant, a RoleBinding
// may have given, which is good for nothing outside of it.
func lacking(ctx context.Context, c *connect.Client, namespace string, rights []right) (missing []right) {
	var rules []authv1.ResourceRule
	if namespace != "" {
		review, err := c.Clientset.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
			&authv1.SelfSubjectRulesReview{Spec: authv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
		if err == nil {
			rules = review.Status.ResourceRules
		}
	}
	for _, r := range rights {
		if granted(rules, r) {
			continue
		}
		allowed, err := allowed(ctx, c, r)
		if err != nil {
			return missing // the operation itself will tell
		}
		if !allowed {
			missing = append(missing, r)
		}
	}
	return missing
}

func granted(rules []authv1.ResourceRule, r right) bool {
	has := func(list []string, s string) bool { return slices.Contains(list, "*") || slices.Contains(list, s) }
	return slices.ContainsFunc(rules, func(rule authv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 && has(rule.Verbs, r.verb) && has(rule.APIGroups, r.resource.Group) && has(rule.Resources, r.resource.Resource)
	})
}

func allowed(ctx context.Context, c *connect.Client, r right) (bool, error) {
	review, err := c.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Namespace: r.namespace, Verb: r.verb, Group: r.resource.Group, Resource: r.resource.Resource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
