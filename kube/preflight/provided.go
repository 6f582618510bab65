package preflight

import (
	"fmt"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// Provided are objects that other releases create before an operation starts (S3). The checks
// treat them as existing. nil and the zero value are empty.
type Provided struct {
	objects map[plan.Object]map[string]any
	kinds   kindSource
}

// Add adds the objects of others.
func (p *Provided) Add(others *Provided) {
	if others == nil {
		return
	}
	for o, fields := range others.objects {
		p.put(o, fields)
	}
	for kind := range others.kinds.defines {
		p.kinds.define(kind)
	}
	p.kinds.mayDefineMore = p.kinds.mayDefineMore || others.kinds.mayDefineMore
}

func (p *Provided) put(o plan.Object, fields map[string]any) {
	if p.objects == nil {
		p.objects = map[plan.Object]map[string]any{}
	}
	p.objects[o] = fields
}

// Has reports whether an object is provided.
func (p *Provided) Has(o plan.Object) bool {
	if p == nil {
		return false
	}
	_, ok := p.objects[o]
	return ok
}

// MayAddKinds reports whether CRDs or operators may add kinds.
func (p *Provided) MayAddKinds() bool {
	return p != nil && (len(p.kinds.defines) > 0 || p.kinds.mayDefineMore)
}

// incoming returns the provided objects, at a position before all groups.
func (p *Provided) incoming() map[plan.Object]*incomingObject {
	all := map[plan.Object]*incomingObject{}
	if p != nil {
		for o, fields := range p.objects {
			all[o] = &incomingObject{Object: o, fields: fields, at: position{phase: -1, group: &plan.Group{}}}
		}
	}
	return all
}

func (s *kindSources) addProvided(p *Provided) {
	if p == nil {
		return
	}
	for kind := range p.kinds.defines {
		s.first.define(kind)
	}
	s.first.mayDefineMore = s.first.mayDefineMore || p.kinds.mayDefineMore
}

// Provides returns the objects that an operation creates.
func (p *Prepared) Provides() (*Provided, error) {
	out := &Provided{}
	if p.Target.NewNamespace {
		out.put(plan.Object{Kind: "Namespace", Name: p.Common.Namespace}, nil)
	}
	if p.Target.Release == nil {
		return out, nil
	}
	docs, err := p.Target.CRDs.docs()
	if err != nil {
		return nil, err
	}
	texts := []string{p.Target.Release.Manifest}
	for _, h := range p.Target.Release.Hooks {
		texts = append(texts, h.Manifest)
	}
	for _, text := range texts {
		more, _, err := charts.ParseBy(p.Common.reader, text, p.Target.Root())
		if err != nil {
			return nil, fmt.Errorf("read the manifest of release %s: %w", p.Common.Release, err)
		}
		docs = append(docs, more...)
	}
	for n, r := range charts.Resources(docs, p.Common.Namespace, charts.OfflineScope(docs...)) {
		var fields map[string]any
		if r.Object.Kind == "StorageClass" || r.Object.Kind == "PersistentVolume" {
			fields = docs[n].Object.Object
		}
		out.put(r.Object, fields)
		out.kinds.add(r)
	}
	return out, nil
}
