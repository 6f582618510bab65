package preflight

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/manifest"
)

// Provided are objects that other releases create before an operation starts (S3). The checks
// treat them as existing. A nil Provided is empty.
type Provided struct {
	objects map[plan.Object]map[string]any   // only those of keepsFields have fields
	kinds   map[plan.GroupKind]bool          // defined by CRDs among the objects
	served  map[schema.GroupVersionKind]bool // the same kinds, by version
	// operatorsMayAddKinds is set if an operator among the objects may add kinds that are not in kinds.
	operatorsMayAddKinds bool
}

// NewProvided returns an empty Provided.
func NewProvided() *Provided {
	return &Provided{objects: map[plan.Object]map[string]any{}, kinds: map[plan.GroupKind]bool{}, served: map[schema.GroupVersionKind]bool{}}
}

// Add adds the objects of others, which may be nil.
func (p *Provided) Add(others *Provided) {
	if others == nil {
		return
	}
	maps.Copy(p.objects, others.objects)
	maps.Copy(p.kinds, others.kinds)
	maps.Copy(p.served, others.served)
	p.operatorsMayAddKinds = p.operatorsMayAddKinds || others.operatorsMayAddKinds
}

// Has reports whether an object is provided.
func (p *Provided) Has(o plan.Object) bool {
	if p == nil {
		return false
	}
	_, ok := p.objects[o]
	return ok
}

// MayAddKinds reports whether CRDs or operators among the objects may add kinds.
func (p *Provided) MayAddKinds() bool {
	return p != nil && (len(p.kinds) > 0 || p.operatorsMayAddKinds)
}

func (p *Provided) defines(kind plan.GroupKind) bool { return p != nil && p.kinds[kind] }

// Served returns the kinds that CRDs among the objects define, by version.
func (p *Provided) Served() []schema.GroupVersionKind {
	if p == nil {
		return nil
	}
	return slices.Collect(maps.Keys(p.served))
}

// incoming returns the provided objects, at a position before all groups.
func (p *Provided) incoming() map[plan.Object]*incomingObject {
	all := map[plan.Object]*incomingObject{}
	if p != nil {
		for o, fields := range p.objects {
			all[o] = &incomingObject{Object: o, fields: fields, position: position{phase: -1, group: &plan.Group{}}}
		}
	}
	return all
}

// keepsFields are the kinds of provided objects whose fields matter: volumes, what runs to completion, and its permissions.
var keepsFields = []string{"StorageClass", "PersistentVolume", "Job", "Pod", "ConfigMap", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}

// Provides returns the objects that an operation creates.
func (p *Prepared) Provides() (*Provided, error) {
	out := NewProvided()
	if p.Target.NewNamespace {
		out.objects[plan.Object{Kind: "Namespace", Name: p.Common.Namespace}] = nil
	}
	if p.Target.Release == nil {
		return out, nil
	}
	docs := slices.Clone(p.Target.CRDs.Docs)
	texts := []string{p.Target.Release.Manifest}
	for _, h := range p.Target.Release.Hooks {
		texts = append(texts, h.Manifest)
	}
	for _, text := range texts {
		more, _, err := charts.ParseManifestWith(p.Common.reader, text, p.Target.Root())
		if err != nil {
			return nil, fmt.Errorf("read the manifest of release %s: %w", p.Common.Release, err)
		}
		docs = append(docs, more...)
	}
	for gvk := range manifest.DefinedKinds(docs) {
		out.served[gvk] = true
	}
	for n, r := range charts.Resources(docs, p.Common.Namespace, charts.OfflineScope(docs...)) {
		var fields map[string]any
		if slices.Contains(keepsFields, r.Object.Kind) {
			fields = docs[n].Object.Object
		}
		out.objects[r.Object] = fields
		if r.Defines != (plan.GroupKind{}) {
			out.kinds[r.Defines] = true
		}
		out.operatorsMayAddKinds = out.operatorsMayAddKinds || mayAddKinds(r.Object)
	}
	return out, nil
}
