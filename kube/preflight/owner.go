package preflight

import (
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// CheckOwners returns a conflict for each object that another release owns, and for each
// object that already exists without an owner and is not in previous. Helm reports only the
// first.
func CheckOwners(b *manifest.Builder, list, previous helmkube.ResourceList) (refused []plan.Warning) {
	inPrevious := map[plan.Object]bool{}
	for _, r := range b.Resources(previous) {
		inPrevious[r.Object] = true
	}
	for _, i := range list {
		f := b.Fact(i)
		if f == nil || f.Late || f.Generated || f.Before().Version == "" || f.Owner == b.Scope().Owner() {
			continue
		}
		o := f.Resource.Object
		w := plan.Warning{Chart: f.Resource.Chart, Object: &o}
		switch place := placeOf(o, "cluster scope"); {
		case b.Scope().Taken(f.Owner):
			w.Message = fmt.Sprintf("%s (%s) is owned by %s: remove it from one of the charts, "+
				"or take it over with --take-ownership", o, place, f.Owner)
			w.Shared = fmt.Sprintf("in %s are owned by %s: remove them from one of the charts, "+
				"or take them over with --take-ownership", place, f.Owner)
		case !inPrevious[o]:
			w.Message = fmt.Sprintf("%s already exists (%s) and is not managed by Helm: delete it, "+
				"or take it over with --take-ownership", o, place)
			w.Shared = fmt.Sprintf("already exist in %s and are not managed by Helm: delete them, "+
				"or take them over with --take-ownership", place)
		default:
			continue
		}
		refused = append(refused, w)
	}
	return refused
}

// placeOf returns the namespace of an object, or cluster if it has none.
func placeOf(o plan.Object, cluster string) string {
	if o.Namespace == "" {
		return cluster
	}
	return "namespace " + o.Namespace
}

// OwnerWarnings returns a warning for each object that a rollback takes from another release.
func OwnerWarnings(b *manifest.Builder, list helmkube.ResourceList) (warnings []plan.Warning) {
	for _, i := range list {
		if f := b.Fact(i); f != nil && b.Scope().Taken(f.Owner) {
			warnings = append(warnings, plan.Warning{
				Rule:    "R32",
				Object:  &f.Resource.Object,
				Message: fmt.Sprintf("%s is owned by %s; this takes it back", f.Resource.Object, f.Owner),
			})
		}
	}
	return warnings
}
