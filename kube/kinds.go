package kube

import (
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// checkKinds looks for kinds that the cluster does not know. Those that a CRD of
// the chart brings are looked up again when their group starts (R29). For others
// a controller of an earlier group may bring the CRD, so they are a warning; an
// object that nothing comes before can never be applied, which is an error.
func (op *Operation) checkKinds(p *pass) error {
	brought, err := op.broughtKinds(p)
	if err != nil {
		return err
	}
	for _, i := range p.ord.last() {
		f := p.ord.builder.fact(i)
		if f == nil || !f.late || brought[plan.GroupKind{Group: f.resource.Object.Group, Kind: f.resource.Object.Kind}] {
			continue
		}
		unknown := fmt.Sprintf("%s: %s: the cluster does not know the kind %s (%s)", f.resource.Chart, f.resource.Object, f.resource.Object.Kind, i.Mapping.GroupVersionKind.GroupVersion())
		if op.isFirst(f.resource.Object) {
			return fmt.Errorf("%s, and no CRD of the chart brings it: install its CRD first (R29)", unknown)
		}
		p.ord.warn("R29", "%s, and no CRD of the chart brings it, so what comes before its group has to", unknown)
	}
	return nil
}

// broughtKinds are those that CRDs among crds/, the hooks and the manifest bring.
func (op *Operation) broughtKinds(p *pass) (map[plan.GroupKind]bool, error) {
	out := map[plan.GroupKind]bool{}
	docs, err := op.crds.docs()
	if err != nil {
		return nil, err
	}
	for _, h := range op.preview.Hooks {
		hook, _, err := charts.Parse(h.Manifest, op.root)
		if err != nil {
			return nil, fmt.Errorf("hook %s/%s: %w", h.Kind, h.Name, err)
		}
		docs = append(docs, hook...)
	}
	for _, r := range append(charts.Resources(docs, op.common.Namespace, charts.OfflineScope()), p.ord.builder.resources(p.ord.last())...) {
		out[r.Defines] = true
	}
	return out, nil
}

// isFirst reports whether nothing comes before an object's group.
func (op *Operation) isFirst(o plan.Object) bool {
	for n, phase := range op.phases {
		for _, g := range phase.Groups {
			if phase.Kind == event.PhaseApply && slices.Contains(g.Objects, o) {
				return n == 0 && len(g.After) == 0
			}
		}
	}
	return false
}
