package preflight

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
	"lockstep/kube/release"
)

// right is a verb on objects of a kind in a namespace, which is "" for cluster scope.
type right struct {
	verb      string
	resource  schema.GroupResource
	namespace string
	optional  bool   // the operation can do without
	why       string // where Helm might do without it
}

// rights are the rights an operation needs, with object names, because a Role may grant
// them by name. The name is "" if the request has none (a list, a POST) or it is unknown.
type rights map[right][]string

func (r rights) add(to right, names ...string) { r[to] = append(r[to], names...) }

// rightsFor returns the rights an operation needs for its plan. Kinds the cluster does not have
// yet are skipped. incoming may be nil.
func (s *Session) rightsFor(p *Prepared, incoming *Incoming) (rights, error) {
	mapper, err := s.Client.Getter.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	all := rights{}
	storageRights(all, p)
	leaseRights(all, p)
	there := incoming.there()
	type asked struct {
		plan.Object // without its name
		there       presence
	}
	for _, phase := range p.Phases {
		seen := map[asked][]right{}
		for _, g := range phase.Groups {
			for _, o := range g.Objects {
				as := asked{o, there[o]}
				as.Name = ""
				needs, known := seen[as]
				if !known {
					if m, err := mapper.RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind}); err == nil {
						for verb, why := range verbs(p, phase.Kind, o, as.there) {
							needs = append(needs, right{verb: verb, resource: m.Resource.GroupResource(), namespace: o.Namespace, why: why})
						}
					}
					seen[as] = needs
				}
				for _, r := range needs {
					if r.verb == "create" && (as.there == unnamed || p.Target.ClientSide) { // the path of a POST has no name
						all.add(r)
						continue
					}
					all.add(r, o.Name)
				}
			}
		}
	}
	return all, nil
}

// presence says whether an object exists in the cluster, as far as known.
type presence int

const (
	unknown presence = iota
	absent
	present
	unnamed // the API server makes its name, so that it is always new
)

// there reports which incoming objects exist in the cluster.
func (b *Incoming) there() map[plan.Object]presence {
	out := map[plan.Object]presence{}
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
const whyListed = "to list the revisions of the release"

// storageRights adds those for the release record.
func storageRights(to rights, p *Prepared) {
	kind := "secrets"
	switch d := connect.StorageDriver(); {
	case strings.HasPrefix(d, "configmap"):
		kind = "configmaps"
	case d != "" && !strings.HasPrefix(d, "secret"):
		return
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
	of := map[string][]int{"update": p.Records.Updated, "delete": p.Records.Deleted}
	for verb, why := range verbs {
		to.add(right{verb: verb, resource: schema.GroupResource{Resource: kind}, namespace: p.Common.Namespace, why: why}, release.Keys(p.Common.Release, of[verb])...)
	}
}

// leaseRights adds the rights for the Lease of the release, if Leases are used.
func leaseRights(to rights, p *Prepared) {
	if p.Lease.Kind == lease.Unavailable {
		return
	}
	for verb, names := range map[string][]string{"create": nil, "update": {lease.Name(p.Common.Release)}, "delete": {lease.Name(p.Common.Release)}} {
		to.add(right{verb: verb, resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, namespace: p.Common.Namespace, optional: true}, names...)
	}
}

// whyUndone is the reason for delete rights on objects that are only created.
const whyUndone = "to roll back"

// verbs returns the verbs a phase needs on an object, with the reason if it is not obvious. A
// hook is deleted before it is created, or afterwards, by its policy; a CRD is not.
func verbs(p *Prepared, k event.PhaseKind, o plan.Object, there presence) map[string]string {
	sends := func(there presence) map[string]string {
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
		return map[string]string{"get": "to watch its deletion", "delete": ""}
	}
	return nil
}

// checkRights checks that the user may carry out the plan. It comes last, because asking is
// itself a request to the API server. Rights the cluster does not report on count as
// granted.
func (s *Session) checkRights(p *Prepared, incoming *Incoming) error {
	all, err := s.rightsFor(p, incoming)
	if err != nil {
		return err
	}
	missing, optional := rights{}, rights{}
	for r, names := range lacking(s.Context, s.Client, all) {
		if r.optional {
			optional[r] = names
		} else {
			missing[r] = names
		}
	}
	if s.Context.Err() != nil {
		return fmt.Errorf("check permissions: %w", context.Cause(s.Context))
	}
	if len(optional) > 0 && !p.Common.PlanOnly {
		p.Lease = lease.State{Kind: lease.Unavailable, Err: fmt.Errorf("%s lacks permissions: %s", user(s.Context, s.Client), optional)}
	}
	if len(missing) == 0 {
		return nil
	}
	lack := plan.Warning{Message: fmt.Sprintf("%s lacks permissions: %s", user(s.Context, s.Client), missing)}
	if p.Common.PlanOnly { // somebody else may carry it out
		p.Warnings = append(p.Warnings, lack)
	} else {
		p.Refused = append(p.Refused, lack)
	}
	return nil
}
