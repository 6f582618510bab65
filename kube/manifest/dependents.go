package manifest

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
)

// Dependents returns the objects of the operation that the cluster deletes after the removed ones, because their ownerReferences
// name one of these, and that one. Call it while nothing is being sent.
func (b *Builder) Dependents(removed []plan.Object) map[plan.Object]plan.Object {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	dependents := map[plan.Object]plan.Object{}
	for _, f := range b.shared.facts {
		o := f.Resource.Object
		if f.seen.Owners == nil || slices.Contains(removed, o) {
			continue
		}
		if n := slices.IndexFunc(removed, func(r plan.Object) bool { return slices.ContainsFunc(f.seen.Owners, Refers(o, r)) }); n >= 0 {
			dependents[o] = removed[n]
		}
	}
	return dependents
}

// Refers returns a function that reports whether an ownerReference of an object names the owner. Owners are in the namespace of the
// object, or in none.
func Refers(o, owner plan.Object) func(metav1.OwnerReference) bool {
	return func(r metav1.OwnerReference) bool {
		gv, _ := schema.ParseGroupVersion(r.APIVersion)
		named := plan.Object{Group: gv.Group, Kind: r.Kind, Namespace: owner.Namespace, Name: r.Name}
		return named == owner && (owner.Namespace == "" || owner.Namespace == o.Namespace)
	}
}
