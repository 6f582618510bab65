package session

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// Provided are objects that other releases create before an operation starts (S3). The checks
// treat them as existing. A nil Provided is empty.
type Provided struct {
	Objects  map[plan.Object]map[string]any   // only those whose fields matter to others have fields
	Kinds    map[plan.GroupKind]bool          // defined by CRDs among the objects
	Versions map[schema.GroupVersionKind]bool // the same kinds, by version
	// OperatorsMayAddKinds is set if an operator among the objects may add kinds that are not in Kinds.
	OperatorsMayAddKinds bool
	// Removed are the objects that the operations of these releases delete.
	Removed map[plan.Object]Removed
	// TakenOver are the objects that these releases have afterwards, whoever had them before (--take-ownership).
	TakenOver map[plan.Object]bool
}

// Removed is how a release deletes an object.
type Removed struct {
	Owner string // in the form of manifest.Owner
	Keeps bool   // its manifest has helm.sh/resource-policy: keep
}

// NewProvided returns an empty Provided.
func NewProvided() *Provided {
	return &Provided{
		Objects: map[plan.Object]map[string]any{}, Kinds: map[plan.GroupKind]bool{}, Versions: map[schema.GroupVersionKind]bool{},
		Removed: map[plan.Object]Removed{}, TakenOver: map[plan.Object]bool{},
	}
}

// Add adds the objects of others, which may be nil.
func (p *Provided) Add(others *Provided) {
	if others == nil {
		return
	}
	maps.Copy(p.Objects, others.Objects)
	maps.Copy(p.Kinds, others.Kinds)
	maps.Copy(p.Versions, others.Versions)
	maps.Copy(p.Removed, others.Removed)
	maps.Copy(p.TakenOver, others.TakenOver)
	p.OperatorsMayAddKinds = p.OperatorsMayAddKinds || others.OperatorsMayAddKinds
}

// Has reports whether an object is provided.
func (p *Provided) Has(o plan.Object) bool {
	if p == nil {
		return false
	}
	_, ok := p.Objects[o]
	return ok
}

// Removes reports whether the operation of the release that an object belongs to deletes it. An object that a removal keeps is
// not deleted.
func (p *Provided) Removes(o plan.Object, seen manifest.Seen) bool {
	return p != nil && seen.Owner != "" && p.Removed[o].Owner == seen.Owner && !seen.Keep
}

// TakesOver reports whether the releases take over an object.
func (p *Provided) TakesOver(o plan.Object) bool { return p != nil && p.TakenOver[o] }

// MayAddKinds reports whether CRDs or operators among the objects may add kinds.
func (p *Provided) MayAddKinds() bool {
	return p != nil && (len(p.Kinds) > 0 || p.OperatorsMayAddKinds)
}

// Defines reports whether a CRD among the objects defines a kind.
func (p *Provided) Defines(kind plan.GroupKind) bool { return p != nil && p.Kinds[kind] }

// Served returns the kinds that CRDs among the objects define, by version.
func (p *Provided) Served() []schema.GroupVersionKind {
	if p == nil {
		return nil
	}
	return slices.Collect(maps.Keys(p.Versions))
}
