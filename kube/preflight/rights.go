package preflight

import (
	"cmp"
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
	optional  bool   // the operation can do without
	why       string // where Helm might do without it
}

// rightsFor are what an operation needs to write what it has planned. Kinds
// that the cluster does not know yet are left out. brings may be nil.
func (s *Session) rightsFor(p *Prepared, brings *Brings) (map[right]bool, error) {
	mapper, err := s.Client.Getter.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	rights := storageRights(p)
	maps.Copy(rights, leaseRights(p))
	there := brings.there()
	type asked struct {
		plan.Object // without its name
		there       standing
	}
	seen := map[asked]bool{}
	for _, phase := range p.Phases {
		clear(seen)
		for _, g := range phase.Groups {
			for _, o := range g.Objects {
				as := asked{o, there[o]}
				if as.Name = ""; seen[as] {
					continue
				}
				seen[as] = true
				m, err := mapper.RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
				if err != nil {
					continue
				}
				for verb, why := range verbs(p, phase.Kind, o, as.there) {
					rights[right{verb: verb, resource: m.Resource.GroupResource(), namespace: o.Namespace, why: why}] = true
				}
			}
		}
	}
	return rights, nil
}

// standing is what is known of whether an object is in the cluster.
type standing int

const (
	unknown standing = iota
	absent
	present
	unnamed // the API server makes its name, so that it is always new
)

// there says of the objects that are brought whether they are in the cluster.
func (b *Brings) there() map[plan.Object]standing {
	out := map[plan.Object]standing{}
	if b == nil {
		return out
	}
	for _, i := range b.List {
		switch f := b.Builder.Fact(i); {
		case f == nil:
		case f.Generated:
			out[f.Resource.Object] = unnamed
		case !f.Before().Known:
		case f.Before().Absent():
			out[f.Resource.Object] = absent
		default:
			out[f.Resource.Object] = present
		}
	}
	return out
}

// whyListed is why a release cannot be operated on without its history.
const whyListed = "to know which revisions of the release there are"

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
	verbs := map[string]string{"list": whyListed, "create": "", "update": ""}
	switch {
	case p.Info.Name == "test", p.Info.Name == "recover":
		delete(verbs, "create")
	case p.Info.Name == "uninstall":
		delete(verbs, "create")
		verbs["delete"] = ""
	case p.Info.Name == "install" && p.Common.RollbackOnFailure:
		verbs["delete"] = whyUndone
	}
	for verb, why := range verbs {
		rights[right{verb: verb, resource: schema.GroupResource{Resource: kind}, namespace: p.Common.Namespace, why: why}] = true
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

// whyUndone is why what is only brought may have to be deleted.
const whyUndone = "to roll back"

// verbs are what a phase of a kind does to an object, and why where that is not
// plain. A hook is deleted before it is created, or afterwards, by its policy; not
// so a CRD.
func verbs(p *Prepared, k event.PhaseKind, o plan.Object, there standing) map[string]string {
	sends := func(there standing) map[string]string {
		switch {
		case there == unnamed:
			return map[string]string{"create": ""}
		case !p.Target.ClientSide && there == present:
			return map[string]string{"patch": ""}
		case !p.Target.ClientSide:
			return map[string]string{"create": "", "patch": ""}
		case there == absent:
			return map[string]string{"create": ""}
		case p.Target.Replace:
			return map[string]string{"update": ""}
		}
		return map[string]string{"patch": ""}
	}
	switch k {
	case event.PhaseNamespace:
		return map[string]string{"create": "", "patch": ""}
	case event.PhaseCRDs, event.PhaseApply:
		verbs := sends(there)
		verbs["get"] = ""
		if k == event.PhaseApply && p.Info.Name == "install" && p.Common.RollbackOnFailure {
			verbs["delete"] = whyUndone
		}
		return verbs
	case event.PhaseHooks:
		verbs := sends(absent)
		if o.Kind != crdKind.Kind {
			verbs["delete"] = ""
		}
		return verbs
	case event.PhaseRemove:
		return map[string]string{"get": "to see it go", "delete": ""}
	}
	return nil
}

// checkRights asks whether the user may write what is planned. It is the last
// check of all: asking is itself a request to the API server. What a cluster does
// not answer is given the benefit of the doubt.
func (s *Session) checkRights(p *Prepared, brings *Brings) error {
	rights, err := s.rightsFor(p, brings)
	if err != nil {
		return err
	}
	byNamespace := map[string][]right{}
	for r := range rights {
		byNamespace[r.namespace] = append(byNamespace[r.namespace], r)
	}
	missing, optional := map[string][]right{}, map[string][]right{}
	for ns, asked := range byNamespace {
		for _, r := range lacking(s.Context, s.Client, ns, asked) {
			to := missing
			if r.optional {
				to = optional
			}
			to[ns] = append(to[ns], r)
		}
	}
	if s.Context.Err() != nil {
		return fmt.Errorf("ask for rights: %w", context.Cause(s.Context))
	}
	if len(optional) > 0 && !p.Common.PlanOnly {
		p.Lease = lease.State{Kind: lease.Unavailable, Err: fmt.Errorf("%s lacks rights: %s", user(s.Context, s.Client), rules(optional))}
	}
	if len(missing) == 0 {
		return nil
	}
	lack := plan.Warning{Message: fmt.Sprintf("%s lacks rights: %s", user(s.Context, s.Client), rules(missing))}
	if p.Common.PlanOnly { // somebody else may carry it out
		p.Warnings = append(p.Warnings, lack)
	} else {
		p.Refused = append(p.Refused, lack)
	}
	return nil
}

// rules writes rights down as kubectl auth can-i --list does, and as somebody would
// give them: a kind with its verbs, by namespace.
func rules(byNamespace map[string][]right) string {
	var all []string
	for _, ns := range slices.Sorted(maps.Keys(byNamespace)) {
		type key struct{ resource, why string }
		verbs := map[key][]string{}
		for _, r := range byNamespace[ns] {
			k := key{r.resource.String(), r.why}
			verbs[k] = append(verbs[k], r.verb)
		}
		keys := slices.SortedFunc(maps.Keys(verbs), func(a, b key) int { return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.why, b.why)) })
		var kinds []string
		for _, k := range keys {
			slices.Sort(verbs[k])
			text := fmt.Sprintf("%s [%s]", k.resource, strings.Join(verbs[k], " "))
			if k.why != "" {
				text += " (" + k.why + ")"
			}
			kinds = append(kinds, text)
		}
		where := "in namespace " + ns
		if ns == "" {
			where = "in the whole cluster"
		}
		all = append(all, where+": "+strings.Join(kinds, ", "))
	}
	return strings.Join(all, "; ")
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
		if allowed, err := allowed(ctx, c, r); err == nil && !allowed { // else the operation itself will tell
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
