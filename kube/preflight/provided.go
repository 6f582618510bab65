package preflight

import (
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/manifest"
	"lockstep/kube/session"
)

// providedObjects returns the provided objects, at a position before all groups.
func providedObjects(p *session.Provided) map[plan.Object]*incomingObject {
	all := map[plan.Object]*incomingObject{}
	if p != nil {
		for o, fields := range p.Objects {
			all[o] = &incomingObject{Object: o, fields: fields, position: position{phase: -1, group: &plan.Group{}}}
		}
	}
	return all
}

// keepsFields are the kinds of provided objects whose fields matter: volumes, what runs to completion, and its permissions.
var keepsFields = []string{"StorageClass", "PersistentVolume", "Job", "Pod", "ConfigMap", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}

// Provides returns the objects that an operation creates, and those that it deletes.
func Provides(p *session.Prepared) (*session.Provided, error) {
	out := session.NewProvided()
	if p.Target.NewNamespace {
		out.Objects[plan.Object{Kind: "Namespace", Name: p.Common.Namespace}] = nil
	}
	if p.Target.Release == nil {
		return out, nil
	}
	keeps := map[plan.Object]bool{}
	for _, r := range p.Remove.Resources {
		keeps[r.Object] = charts.Keeps(r.Annotations)
	}
	for g, o := range event.Objects(p.Phases) {
		if g.Phase.Kind == event.PhaseRemove {
			out.Removed[o] = session.Removed{Owner: p.Common.Scope("").Owner(), Keeps: keeps[o]}
		}
	}
	if p.Target.Claims.Take {
		for _, r := range p.Apply.Resources {
			out.TakenOver[r.Object] = true
		}
	}
	docs := slices.Clone(p.Target.CRDs.Docs)
	texts := []string{p.Target.Release.Manifest}
	for _, h := range p.Target.Release.Hooks {
		texts = append(texts, h.Manifest)
	}
	for _, text := range texts {
		more, _, err := charts.ParseManifestWith(p.Common.Reader(), text, p.Target.Root())
		if err != nil {
			return nil, fmt.Errorf("read the manifest of release %s: %w", p.Common.Release, err)
		}
		docs = append(docs, more...)
	}
	for gvk := range manifest.DefinedKinds(docs) {
		out.Versions[gvk] = true
	}
	for n, r := range charts.Resources(docs, p.Common.Namespace, charts.OfflineScope(docs...)) {
		var fields map[string]any
		if slices.Contains(keepsFields, r.Object.Kind) {
			fields = docs[n].Object.Object
		}
		out.Objects[r.Object] = fields
		if r.Defines != (plan.GroupKind{}) {
			out.Kinds[r.Defines] = true
		}
		out.OperatorsMayAddKinds = out.OperatorsMayAddKinds || mayAddKinds(r.Object)
	}
	return out, nil
}
