package preflight

import (
	"fmt"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/manifest"
)

// CheckKinds checks kinds that the cluster does not have. A kind that a CRD of the chart or
// a provided CRD defines is fine; it is looked up again when its group starts (R29). CheckKinds
// warns about a kind that an earlier group may define, and refuses one that nothing can define.
func CheckKinds(b *manifest.Builder, list helmkube.ResourceList, t Target, phases []event.Phase, provided *Provided) (warnings, refused []plan.Warning, err error) {
	var s *kindSources
	for _, i := range list {
		f := b.Fact(i)
		if f == nil || !f.Late {
			continue
		}
		if s == nil {
			if s, err = findKindSources(b, list, t, phases); err != nil {
				return nil, nil, err
			}
			s.addProvided(provided)
		}
		unknown := fmt.Sprintf("%s: %s: the cluster has no kind %s (%s)", f.Resource.Chart, f.Resource.Object, f.Resource.Object.Kind, i.Mapping.GroupVersionKind.GroupVersion())
		w := plan.Warning{Rule: "R29", Chart: f.Resource.Chart, Object: &f.Resource.Object}
		exists, removed := s.availabilityOf(f.Resource.Object), manifest.Removed(i.Mapping.GroupVersionKind)
		switch {
		case exists == certain:
		case removed != "":
			w.Message = unknown + removed
			refused = append(refused, w)
		case !strings.Contains(f.Resource.Object.Group, "."):
			w.Message = unknown + ", and no CRD can define it: check its apiVersion"
			refused = append(refused, w)
		case exists == unavailable:
			w.Message = unknown + ", and no earlier group of the chart can define it: install its CRD first"
			refused = append(refused, w)
		default:
			w.Message = unknown + ", and no CRD in the chart defines it, so an earlier group must"
			warnings = append(warnings, w)
		}
	}
	return warnings, refused, nil
}

// availability is the likelihood that a kind will exist.
type availability int

const (
	unavailable availability = iota
	possible
	certain
)

// kindSources are the sources of new kinds before and during the groups of a plan.
type kindSources struct {
	first  kindSource            // crds/ and the hooks before the groups
	groups []*plan.Group         // those of the plan
	of     map[string]kindSource // by the group's id
	// dependencies are the ids of the groups that a group waits for, by its id.
	dependencies map[string]map[string]bool
}

// kindSource holds the kinds that CRDs define, and whether operators may define more.
type kindSource struct {
	defines       map[plan.GroupKind]bool
	mayDefineMore bool
}

func (s *kindSource) add(r plan.Resource) {
	if r.Defines != (plan.GroupKind{}) {
		s.define(r.Defines)
	}
	s.mayDefineMore = s.mayDefineMore || mayAddKinds(r.Object)
}

func (s *kindSource) define(kind plan.GroupKind) {
	if s.defines == nil {
		s.defines = map[plan.GroupKind]bool{}
	}
	s.defines[kind] = true
}

// workloads are the kinds that run pods.
var workloads = []string{"Pod", "Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"}

// mayAddKinds reports whether an object may lead to kinds that its manifest does not define:
// a workload, which may be an operator; an aggregated API; or a custom resource, for which an
// operator in the cluster may install more kinds.
func mayAddKinds(o plan.Object) bool {
	return custom(o) || slices.Contains(workloads, o.Kind) || o.Kind == "APIService"
}

// custom reports whether an object is of a kind that is not built into Kubernetes.
func custom(o plan.Object) bool {
	return strings.Contains(o.Group, ".") && !strings.HasSuffix(o.Group, ".k8s.io")
}

func findKindSources(b *manifest.Builder, list helmkube.ResourceList, t Target, phases []event.Phase) (*kindSources, error) {
	s := &kindSources{of: map[string]kindSource{}, dependencies: map[string]map[string]bool{}}
	crds, err := t.CRDs.docs()
	if err != nil {
		return nil, err
	}
	for _, r := range charts.Resources(crds, b.Scope().Namespace, charts.OfflineScope()) {
		s.first.add(r)
	}
	hooks, err := hookResources(b, t)
	if err != nil {
		return nil, err
	}
	resources := map[plan.Object]plan.Resource{}
	for _, r := range append(hooks, b.Resources(list)...) {
		resources[r.Object] = r
	}
	applies := slices.IndexFunc(phases, func(p event.Phase) bool { return p.Kind == event.PhaseApply })
	for n, p := range phases[:applies+1] {
		for _, g := range p.Groups {
			source := kindSource{}
			for _, o := range g.Objects {
				switch r, ok := resources[o]; {
				case ok && n == applies:
					source.add(r)
				case ok:
					s.first.add(r)
				}
			}
			if n == applies {
				s.groups, s.of[g.ID] = append(s.groups, g), source
			}
		}
	}
	addDependencies(s.dependencies, s.groups)
	return s, nil
}

// hookResources returns the objects of the target's hooks.
func hookResources(b *manifest.Builder, t Target) ([]plan.Resource, error) {
	var docs []charts.Document
	for _, h := range t.Release.Hooks {
		hook, _, err := charts.Parse(h.Manifest, t.Root())
		if err != nil {
			return nil, fmt.Errorf("hook %s/%s: %w", h.Kind, h.Name, err)
		}
		docs = append(docs, hook...)
	}
	return charts.Resources(docs, b.Scope().Namespace, charts.OfflineScope(docs...)), nil
}

// availabilityOf returns whether the kind of an object will exist. A CRD in the same group, or in
// one that runs in parallel, counts: the run waits for its API.
func (s *kindSources) availabilityOf(o plan.Object) availability {
	kind := plan.GroupKind{Group: o.Group, Kind: o.Kind}
	at := slices.IndexFunc(s.groups, func(g *plan.Group) bool { return slices.Contains(g.Objects, o) })
	if s.first.defines[kind] || at < 0 {
		return certain
	}
	group := s.groups[at]
	for _, g := range s.groups {
		if s.of[g.ID].defines[kind] && !s.dependencies[g.ID][group.ID] {
			return certain
		}
	}
	if s.unknownBefore(group) {
		return possible
	}
	return unavailable
}

// unknownBefore reports whether objects before a group may add kinds that no manifest defines.
func (s *kindSources) unknownBefore(group *plan.Group) bool {
	before := s.dependencies[group.ID]
	return s.first.mayDefineMore || slices.ContainsFunc(s.groups, func(g *plan.Group) bool { return before[g.ID] && s.of[g.ID].mayDefineMore })
}
