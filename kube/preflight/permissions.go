package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
	"lockstep/kube/permissions"
)

// permissionsFor returns the permissions that an operation needs for its plan, except for kinds that
// the cluster does not have yet. incoming may be nil.
func (s *Session) permissionsFor(p *Prepared, incoming *Incoming) (permissions.Set, error) {
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
func (s *Session) checkPermissions(p *Prepared, incoming *Incoming) error {
	all, err := s.permissionsFor(p, incoming)
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
	if s.namespaceUnknown {
		needed := createNamespacePermission
		needed.Why = "if namespace " + p.Common.Namespace + " does not exist"
		missing.Add(needed)
	}
	w := plan.Warning{Message: missingPermissionsText(s.Client, Username(s.Context, s.Client), missing) + ` ("lockstep rbac" prints the roles)`}
	if p.Common.PlanOnly { // another user may run the operation
		p.Warnings = append(p.Warnings, w)
	} else {
		p.Conflicts = append(p.Conflicts, w)
	}
	return nil
}
