package preflight

import (
	"fmt"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/manifest"
)

// CheckKinds looks for kinds that the cluster does not know. Those that a CRD of
// the chart brings are looked up again when their group starts (R29). For others
// a controller of an earlier group may bring the CRD, so they are a warning; an
// object that nothing comes before can never be applied, which is an error.
func CheckKinds(b *manifest.Builder, list helmkube.ResourceList, t Target, phases []event.Phase) (warnings []plan.Warning, err error) {
	brought, err := broughtKinds(b, list, t)
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		f := b.Fact(i)
		if f == nil || !f.Late || brought[plan.GroupKind{Group: f.Resource.Object.Group, Kind: f.Resource.Object.Kind}] {
			continue
		}
		unknown := fmt.Sprintf("%s: %s: the cluster does not know the kind %s (%s)", f.Resource.Chart, f.Resource.Object, f.Resource.Object.Kind, i.Mapping.GroupVersionKind.GroupVersion())
		if isFirst(f.Resource.Object, phases) {
			return nil, fmt.Errorf("%s, and no CRD of the chart brings it: install its CRD first (R29)", unknown)
		}
		warnings = append(warnings, plan.Warning{Rule: "R29", Message: unknown + ", and no CRD of the chart brings it, so what comes before its group has to"})
	}
	return warnings, nil
}

// broughtKinds are those that CRDs among crds/, the hooks and the manifest bring.
func broughtKinds(b *manifest.Builder, list helmkube.ResourceList, t Target) (map[plan.GroupKind]bool, error) {
	out := map[plan.GroupKind]bool{}
	docs, err := t.CRDs.docs()
	if err != nil {
		return nil, err
	}
	for _, h := range t.Release.Hooks {
		hook, _, err := charts.Parse(h.Manifest, t.Root())
		if err != nil {
			return nil, fmt.Errorf("hook %s/%s: %w", h.Kind, h.Name, err)
		}
		docs = append(docs, hook...)
	}
	for _, r := range append(charts.Resources(docs, b.Scope().Namespace, charts.OfflineScope()), b.Resources(list)...) {
		out[r.Defines] = true
	}
	return out, nil
}

// isFirst reports whether nothing comes before an object's group.
func isFirst(o plan.Object, phases []event.Phase) bool {
	for n, phase := range phases {
		for _, g := range phase.Groups {
			if phase.Kind == event.PhaseApply && slices.Contains(g.Objects, o) {
				return n == 0 && len(g.After) == 0
			}
		}
	}
	return false
}
