package operation

import (
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// planning is what an operation that brings objects is planned from.
type planning struct {
	*rendered
	found  *existing // nil where there is no release
	target preflight.Target
	old    preflight.Old
	// held is what the old revision holds; besides are the other revisions that
	// may have left something (R32a).
	held    helmkube.ResourceList
	others  []*rel1.Release
	events  helmclient.HookEvents
	refused []plan.Warning
	// before are phases that come before all others.
	before []event.Phase
	// implied is the order of the target, where that was inferred.
	implied *infer.Order
}

// plan orders all of an operation: the objects and hooks of the target, and what
// goes of the old revision.
func (p planning) plan(s *preflight.Session, info event.Operation) (*preflight.Prepared, error) {
	warnings := slices.Concat(p.found.allWarnings(), p.warnings)
	hooks, more, err := scopedHooks(p.builder, p.target.Release, p.target.Tree, p.list, p.events)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	order := helmclient.Ordering{Root: p.target.Root()}
	apply, more, err := order.Apply(p.target.Tree, p.builder.Resources(p.list), hookTurns(hooks))
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	if p.implied != nil {
		p.implied.Explain(apply.Phase.Groups)
	}
	remove, more := order.Remove(p.old.Revision, p.builder.Resources(manifest.Without(p.held, p.list)))
	warnings = append(warnings, more...)
	left, more := leftoverSearch{s, p.builder, "", p.others, p.old.Release, []helmkube.ResourceList{p.list, p.held}}.leftovers()
	warnings = append(warnings, more...)
	newer, older := left.Planned()
	pre, post := helmclient.HookPhases(p.target.Release, "", p.events, hooks)
	return &preflight.Prepared{
		Common: s.Common, Info: info, Target: p.target, Old: p.old, Apply: apply, Remove: remove, Leftovers: left, Hooks: p.events,
		Phases:   slices.Concat(p.before, pre, helmclient.Phases(slices.Concat([]helmclient.Planned{apply}, newer, []helmclient.Planned{remove}, older)...), post),
		Warnings: uniqueWarnings(warnings), Refused: p.refused, Later: p.later, Basis: p.found.basis(s, info.Revision),
	}, nil
}

// once leaves out warnings whose message has been given.
func uniqueWarnings(warnings []plan.Warning) []plan.Warning {
	given := map[string]bool{}
	return slices.DeleteFunc(warnings, func(w plan.Warning) bool {
		seen := given[w.Message]
		given[w.Message] = true
		return seen
	})
}

// bring prepares an operation that brings a new revision of a chart: it finds
// out what that keeps. The last checks are to be made.
func (p planning) planRevision(s *preflight.Session, info event.Operation, tree *plan.Chart) (*preflight.Prepared, *preflight.Brings, error) {
	ordered := s.Common.Strategy() == helmclient.WaitOrdered
	if ordered {
		p.target.Tree = tree
	} else {
		unordered, err := plan.Check(tree, p.builder.Resources(p.list))
		if err != nil {
			return nil, nil, err
		}
		p.warnings = append(p.warnings, unordered...)
	}
	record, warnings, err := release.Fit(p.target.Release, release.NewRecord(ordered, tree))
	if err != nil {
		return nil, nil, err
	}
	p.target.Record = record
	p.warnings = append(p.warnings, warnings...)
	prepared, err := p.plan(s, info)
	if err != nil {
		return nil, nil, err
	}
	unknown, never, err := preflight.CheckKinds(p.builder, p.list, p.target, prepared.Phases)
	if err != nil {
		return nil, nil, err
	}
	prepared.Warnings, prepared.Refused = uniqueWarnings(append(prepared.Warnings, unknown...)), append(prepared.Refused, never...)
	return prepared, &preflight.Brings{Builder: p.builder, List: p.list}, nil
}
