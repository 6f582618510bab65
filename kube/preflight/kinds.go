package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/manifest"
	"lockstep/kube/session"
)

// CheckKinds checks the kinds that the cluster does not have. It accepts a kind that a CRD of the chart
// or a provided CRD defines: the run looks it up again when its group starts (R29). It warns about a
// kind that an earlier group or release may define, and refuses one that nothing can define.
func CheckKinds(p *session.Prepared, incoming Incoming) (warnings, conflicts []plan.Warning, err error) {
	var planned *plannedObjects
	for _, i := range incoming.List {
		f := incoming.Builder.Fact(i)
		if f == nil || !f.Late {
			continue
		}
		if planned == nil {
			if planned, err = newPlannedObjects(p, incoming); err != nil {
				return nil, nil, err
			}
		}
		kind := fmt.Sprintf("kind %s (%s)", f.Resource.Object.Kind, i.Mapping.GroupVersionKind.GroupVersion())
		unknown := fmt.Sprintf("%s: %s: the cluster has no %s", f.Resource.Chart, f.Resource.Object, kind)
		refuse := func(w plan.Warning, why string) {
			w.Message = unknown + why
			w.Shared = "need " + kind + ", which the cluster does not have" + why
			conflicts = append(conflicts, w)
		}
		w := plan.Warning{Rule: "R29", Chart: f.Resource.Chart, Object: &f.Resource.Object}
		kindAvailability := planned.availabilityOf(f.Resource.Object, p.Common.Provided)
		removed := manifest.RemovalHint(i.Mapping.GroupVersionKind)
		switch {
		case kindAvailability == certain:
		case removed != "":
			refuse(w, removed)
		case !definable(f.Resource.Object.Group):
			refuse(w, ", and "+undefinable(i.Mapping.GroupVersionKind.GroupVersion())+": check its kind and apiVersion"+similarKind(i.Mapping.GroupVersionKind))
		case kindAvailability == unavailable:
			refuse(w, ", and no earlier group of the chart can define it: install its CRD first")
		default:
			w.Message = unknown + ", and no CRD of the chart is applied before it; unless " + planned.possibleDefiner(f.Resource.Object, p.Common.Provided) + " defines it, the run will fail: then install its CRD first"
			warnings = append(warnings, w)
		}
	}
	return warnings, conflicts, nil
}

// definable reports whether a CRD can define kinds of an API group.
func definable(group string) bool {
	return strings.Contains(group, ".") && !scheme.Scheme.IsGroupRegistered(group)
}

// undefinable says why no CRD can define kinds of an API version, see definable.
func undefinable(gv schema.GroupVersion) string {
	switch {
	case scheme.Scheme.IsVersionRegistered(gv):
		return gv.String() + " is built in, so no CRD can add it"
	case gv.Group == "":
		return "the core API is built in, so no CRD can add it"
	case scheme.Scheme.IsGroupRegistered(gv.Group):
		return fmt.Sprintf("the API group %q is built in, so no CRD can add it", gv.Group)
	}
	return fmt.Sprintf("no CRD can add it, because the API group %q has no dot", gv.Group)
}

// similarKind returns a question that suggests a built-in kind for an unknown one: the same kind with
// another apiVersion, or else a kind with a similar name. It returns "" if there is none.
func similarKind(unknown schema.GroupVersionKind) string {
	if scheme.Scheme.Recognizes(unknown) { // the cluster is too old for it, or has disabled it
		return ""
	}
	var inVersion, elsewhere []string
	for _, gv := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		for kind := range scheme.Scheme.KnownTypes(gv) {
			switch {
			case kind == unknown.Kind:
				return "; did you mean " + kind + " (" + gv.String() + ")?"
			case gv == unknown.GroupVersion():
				inVersion = append(inVersion, kind)
			default:
				elsewhere = append(elsewhere, kind)
			}
		}
	}
	slices.Sort(inVersion)
	slices.Sort(elsewhere)
	if near := cmp.Or(plan.NearestName(unknown.Kind, inVersion), plan.NearestName(unknown.Kind, elsewhere)); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// availability says whether a kind will exist when it is needed.
type availability int

const (
	unavailable availability = iota
	possible
	certain
)

// availabilityOf returns whether the kind of an object will exist. A CRD in the same group or in one
// that runs concurrently counts, because the run waits for its API.
func (planned *plannedObjects) availabilityOf(o plan.Object, provided *session.Provided) availability {
	kind := plan.GroupKind{Group: o.Group, Kind: o.Kind}
	object := planned.byObject[o]
	defines := func(other *incomingObject) bool {
		return other.defines == kind && !planned.before(object.position, other.position)
	}
	switch {
	case object == nil || provided.Defines(kind) || slices.ContainsFunc(planned.objects, defines): // nil: it is not applied
		return certain
	case planned.possibleDefiner(o, provided) != "":
		return possible
	}
	return unavailable
}

// possibleDefiner says whose operators may define the kind of an object, or change its CRD, before the object is applied:
// "an earlier group", "an earlier release", or either. It returns "" if there are none.
func (planned *plannedObjects) possibleDefiner(o plan.Object, provided *session.Provided) string {
	inChart := !planned.undeclared && planned.definerBefore(planned.byObject[o])
	inRelease := provided != nil && provided.OperatorsMayAddKinds
	switch {
	case inChart && inRelease:
		return "an earlier group or release"
	case inChart:
		return "an earlier group"
	case inRelease:
		return "an earlier release"
	}
	return ""
}

// operatorBefore reports whether an operator that o waits for may create objects or kinds that are in
// no manifest.
func (planned *plannedObjects) operatorBefore(o *incomingObject) bool {
	return slices.ContainsFunc(planned.objects, func(other *incomingObject) bool {
		return mayAddKinds(other.Object) && planned.before(other.position, o.position)
	})
}

// definerBefore is like operatorBefore for kinds. Hooks do not count: Helm looks the kinds of all objects up before it
// executes hooks, so no chart relies on a hook to define one. Nor does a chart that declares no order (undeclared).
func (planned *plannedObjects) definerBefore(o *incomingObject) bool {
	return slices.ContainsFunc(planned.objects, func(other *incomingObject) bool {
		return !other.hook && mayAddKinds(other.Object) && planned.before(other.position, o.position)
	})
}

// workloads are the kinds that run pods.
var workloads = []string{"Pod", "Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"}

// mayAddKinds reports whether an object may add kinds without a CRD in the manifest: a workload, which
// may be an operator; an APIService; or a custom resource, for which an operator may install CRDs.
func mayAddKinds(o plan.Object) bool {
	return refs.IsCustom(o) || slices.Contains(workloads, o.Kind) || o.Kind == "APIService"
}
