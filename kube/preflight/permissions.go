package preflight

import (
	"context"
	"fmt"
	"slices"

	authnv1 "k8s.io/api/authentication/v1"
	authv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/lease"
	"lockstep/kube/permissions"
	"lockstep/kube/session"
)

// permissionsFor returns the permissions that an operation needs for its plan, except for kinds that
// the cluster does not have yet. incoming may be nil.
func permissionsFor(s *session.Session, p *session.Prepared, incoming *Incoming) (permissions.Set, error) {
	mapper, err := s.Client.Getter.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	return permissions.Operation{
		Name:              p.Info.Name,
		Release:           p.Common.Release,
		Namespace:         p.Common.Namespace,
		Driver:            connect.StorageDriver(),
		RollbackOnFailure: p.Common.RollbackOnFailure,
		ClientSide:        p.Target.ClientSide,
		Replace:           p.Target.Replace,
		NoLease:           p.Lease.Status == lease.Unavailable,
		Phases:            p.Phases,
		Updated:           p.Records.Updated,
		Deleted:           p.Records.Deleted,
		RollbackTo:        max(p.Info.ToRevision, p.Info.PreviousRevision),
		Presence:          incoming.presences(),
		Taken:             takenObjects(p),
		Resource:          func(kind schema.GroupKind) (schema.GroupResource, bool) { return ResourceOf(mapper, kind) },
	}.Permissions(), nil
}

// ResourceOf returns the resource of a kind that the cluster has.
func ResourceOf(mapper meta.RESTMapper, kind schema.GroupKind) (schema.GroupResource, bool) {
	m, err := mapper.RESTMapping(kind)
	if err != nil {
		return schema.GroupResource{}, false
	}
	return m.Resource.GroupResource(), true
}

func takenObjects(p *session.Prepared) map[plan.Object]bool {
	out := map[plan.Object]bool{}
	for _, t := range p.Taken {
		out[t.Object] = true
	}
	return out
}

func (in *Incoming) presences() map[plan.Object]permissions.Presence {
	out := map[plan.Object]permissions.Presence{}
	if in == nil {
		return out
	}
	for _, i := range in.List {
		switch f := in.Builder.Fact(i); {
		case f == nil:
		case f.Generated:
			out[f.Resource.Object] = permissions.Unnamed
		case !f.Before().Known:
		case f.Before().Absent():
			out[f.Resource.Object] = permissions.Absent
		default:
			out[f.Resource.Object] = permissions.Present
		}
	}
	return out
}

// checkPermissions checks that the user has the permissions for the plan. Missing ones are added to
// p.Conflicts or, with PlanOnly, to p.Warnings. If the user may not use Leases, p.Lease is Unavailable.
func checkPermissions(s *session.Session, p *session.Prepared, incoming *Incoming) error {
	all, err := permissionsFor(s, p, incoming)
	if err != nil {
		return err
	}
	missing, optional := permissions.Set{}, permissions.Set{}
	for permission, names := range missingPermissions(s.Context, s.Client, all) {
		if permission.Optional() {
			optional[permission] = names
		} else {
			missing[permission] = names
		}
	}
	if s.Context.Err() != nil {
		return fmt.Errorf("check permissions: %w", context.Cause(s.Context))
	}
	if len(optional) > 0 && !p.Common.PlanOnly {
		p.Lease = lease.State{
			Status: lease.Unavailable,
			Err:    fmt.Errorf("%s lacks permissions: %s", describeUser(s.Client, Username(s.Context, s.Client)), optional),
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if s.NamespaceUnknown {
		needed := createNamespacePermission
		needed.Why = "if namespace " + p.Common.Namespace + " does not exist"
		missing.Add(needed)
	}
	w := plan.Warning{Message: missingPermissionsText(s.Client, Username(s.Context, s.Client), missing) + ` ("` + text.Program + ` rbac" prints the roles)`}
	if p.Common.PlanOnly { // another user may run the operation
		p.Warnings = append(p.Warnings, w)
	} else {
		p.Conflicts = append(p.Conflicts, w)
	}
	return nil
}

// CheckAllowed returns a *Refusal if the user lacks some of these permissions. roles is the command that prints them.
func CheckAllowed(ctx context.Context, c *connect.Client, all permissions.Set, roles func(user string) string) error {
	missing := missingPermissions(ctx, c, all)
	if len(missing) == 0 {
		return nil
	}
	user := Username(ctx, c)
	return &Refusal{Conflicts: []plan.Warning{{Message: missingPermissionsText(c, user, missing) + fmt.Sprintf(` ("%s" prints the roles)`, roles(user))}}}
}

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

// ExplainDenied replaces an error about a missing permission with a *Refusal that names the user and
// the permission. It returns other errors unchanged.
func ExplainDenied(c *connect.Client, err error) error {
	d, ok := diagnose.DeniedRequest(err)
	if !ok || d.Resource == "" {
		return err
	}
	missing := permissions.Set{}
	missing.Add(permissions.Permission{Verb: d.Verb, Resource: schema.GroupResource{Group: d.Group, Resource: d.Resource}, Namespace: d.Namespace})
	return &Refusal{Conflicts: []plan.Warning{{Message: missingPermissionsText(c, d.User, missing)}}}
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

// grantedBy returns a function that reports whether the cluster lets a ServiceAccount change an object. It returns true if the
// user may not ask that.
func grantedBy(ctx context.Context, c *connect.Client) func(account, o plan.Object) bool {
	return func(account, o plan.Object) bool {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: o.Group, Kind: o.Kind})
		return slices.ContainsFunc([]string{"patch", "update", "delete"}, func(verb string) bool {
			spec := authv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:" + account.Namespace + ":" + account.Name,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
				ResourceAttributes: &authv1.ResourceAttributes{
					Namespace: o.Namespace, Verb: verb, Group: o.Group, Resource: plural.Resource, Name: o.Name,
				},
			}
			if o.Namespace != "" { // an administrator of the namespace may ask this
				review := &authv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace}, Spec: spec}
				review, err := c.Clientset.AuthorizationV1().LocalSubjectAccessReviews(o.Namespace).Create(ctx, review, metav1.CreateOptions{})
				return err != nil || review.Status.Allowed
			}
			review, err := c.Clientset.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			return err != nil || review.Status.Allowed
		})
	}
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
