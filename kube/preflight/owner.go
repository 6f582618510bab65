package preflight

import (
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// CheckOwners refuses an upgrade that would take an object from another
// release.
func CheckOwners(b *manifest.Builder, list helmkube.ResourceList) error {
	for _, i := range list {
		if f := b.Fact(i); f != nil && b.Scope().Taken(f.Owner) {
			return fmt.Errorf("%s (namespace %s) belongs to %s now: take it out of one of the charts, or take it over with --take-ownership",
				f.Resource.Object, i.Namespace, f.Owner)
		}
	}
	return nil
}

// OwnerWarnings tell what a rollback takes from another release.
func OwnerWarnings(b *manifest.Builder, list helmkube.ResourceList) (warnings []plan.Warning) {
	for _, i := range list {
		if f := b.Fact(i); f != nil && b.Scope().Taken(f.Owner) {
			warnings = append(warnings, plan.Warning{Rule: "R32", Object: &f.Resource.Object,
				Message: fmt.Sprintf("%s belongs to %s now; this takes it back", f.Resource.Object, f.Owner)})
		}
	}
	return warnings
}
