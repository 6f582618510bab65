package preflight

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// CheckOwners returns a conflict for each object of list that another release owns, and for each one
// that already exists without an owner and is not in previous. Helm reports only the first conflict.
func CheckOwners(common Common, b *manifest.Builder, list, previous helmkube.ResourceList) (conflicts []plan.Warning) {
	takeIt, takeThem := "take it over with --take-ownership", "take them over with --take-ownership"
	if common.Provided != nil { // a release of a helmfile
		takeIt = "set takeOwnership: true for release " + common.Release
		takeThem = takeIt
	}
	inPrevious := map[plan.Object]bool{}
	for _, r := range b.Resources(previous) {
		inPrevious[r.Object] = true
	}
	for f := range distinctFacts(b, list) {
		if f.Late || f.Generated || f.Before().Version == "" || f.Owner == b.Scope().Owner() {
			continue
		}
		o := f.Resource.Object
		w := plan.Warning{Chart: f.Resource.Chart, Object: &o}
		switch place := placeOf(o, "cluster scope"); {
		case b.Scope().OwnedByOther(f.Owner):
			renameIt, renameThem := "rename it, or ", "rename them, or "
			if o.Kind == "CustomResourceDefinition" { // the name is that of its API
				renameIt, renameThem = "", ""
			}
			w.Message = fmt.Sprintf("%s (%s) is owned by %s: %s%s", o, place, f.Owner, renameIt, takeIt)
			w.Shared = fmt.Sprintf("in %s are owned by %s: %s%s", place, f.Owner, renameThem, takeThem)
		case !inPrevious[o]:
			w.Message = fmt.Sprintf("%s already exists (%s) and is not managed by Helm: delete it, or %s", o, place, takeIt)
			w.Shared = fmt.Sprintf("already exist in %s and are not managed by Helm: delete them, or %s", place, takeThem)
		default:
			continue
		}
		conflicts = append(conflicts, w)
	}
	return conflicts
}

// distinctFacts returns the fact of each object of list, once if a chart renders the object several times.
func distinctFacts(b *manifest.Builder, list helmkube.ResourceList) iter.Seq[*manifest.Fact] {
	return func(yield func(*manifest.Fact) bool) {
		seen := map[plan.Object]bool{}
		for _, i := range list {
			f := b.Fact(i)
			if f == nil || seen[f.Resource.Object] {
				continue
			}
			seen[f.Resource.Object] = true
			if !yield(f) {
				return
			}
		}
	}
}

// placeOf describes the namespace of an object, or returns cluster if it has none.
func placeOf(o plan.Object, cluster string) string {
	if o.Namespace == "" {
		return cluster
	}
	return "namespace " + o.Namespace
}

// OwnerWarnings returns a warning for each other release from which a rollback takes over objects.
func OwnerWarnings(b *manifest.Builder, list helmkube.ResourceList) (warnings []plan.Warning) {
	taken := map[string][]string{} // names of objects by owner
	for f := range distinctFacts(b, list) {
		if b.Scope().OwnedByOther(f.Owner) {
			taken[f.Owner] = append(taken[f.Owner], f.Resource.Object.String())
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(taken)) {
		names := taken[owner]
		text := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		warnings = append(warnings, plan.Warning{Rule: "R32", Message: fmt.Sprintf("the rollback takes over %s from %s", text, owner)})
	}
	return warnings
}
