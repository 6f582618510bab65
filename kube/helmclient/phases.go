package helmclient

import (
	"fmt"
	"reflect"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// WaitOrdered is the wait strategy of HIP-0025: in order, by the DAG (R27).
const WaitOrdered helmkube.WaitStrategy = "ordered"

// The names of the phases that bring a release's objects and take them away.
const (
	PhaseApply  = "apply"
	PhaseRemove = "remove"
)

// Ordering is how the objects of a release are put in order.
type Ordering struct {
	// Prefix is "" or event.RollbackPrefix: it goes before the names of phases.
	Prefix string
	// Root is the chart path of what has no chart of its own.
	Root string
}

// Revision is what an upgrade, a rollback or an uninstallation takes objects
// away from: its chart tree, nil where it was not sequenced, and all that it
// holds. Some of that stays, but counts for the order of what goes: a group
// whose gate stays is still a group (R8).
type Revision struct {
	Tree      *plan.Chart
	Resources []plan.Resource
}

// Planned is a phase with the resources that it was planned from. It is not
// changed once it is made.
type Planned struct {
	Phase     event.Phase
	Resources []plan.Resource
	Turns     []plan.Turn // of the hooks among the phase's groups
}

// Empty reports whether there is nothing to do.
func (p Planned) Empty() bool { return len(p.Resources) == 0 }

// of reports whether the phase was planned from these resources, in any order: Helm sorts
// what it uninstalls. The turns are those of the hooks.
func (p Planned) of(resources []plan.Resource, turns []plan.Turn) bool {
	planned := map[plan.Object]plan.Resource{}
	for _, r := range p.Resources {
		planned[r.Object] = r
	}
	if len(resources) != len(p.Resources) || !reflect.DeepEqual(p.Turns, turns) {
		return false
	}
	return !slices.ContainsFunc(resources, func(r plan.Resource) bool { return !reflect.DeepEqual(planned[r.Object], r) })
}

// Phases returns those of a number of plans, without the empty ones.
func Phases(all ...Planned) []event.Phase {
	var out []event.Phase
	for _, p := range all {
		if !p.Empty() {
			out = append(out, p.Phase)
		}
	}
	return out
}

// Apply plans the phase that brings resources to the cluster: by the DAG, or
// if there is no tree all at once (R27). The warnings are about the plan.
func (o Ordering) Apply(tree *plan.Chart, resources []plan.Resource, turns []plan.Turn) (Planned, []plan.Warning, error) {
	p, err := o.plan(tree, resources)
	if err != nil {
		return Planned{}, nil, err
	}
	phase := event.Phase{Name: o.Prefix + PhaseApply, Kind: event.PhaseApply, Groups: plan.AroundSubcharts(p.Groups, turns)}
	return Planned{phase, resources, turns}, p.Warnings, nil
}

// Remove plans the phase that takes resources of an old revision away, in
// reverse of the order that brought them (R30, R31). Where that order cannot be
// rebuilt, all goes at once, with a warning.
func (o Ordering) Remove(old Revision, goes []plan.Resource) (Planned, []plan.Warning) {
	known := map[plan.Object]bool{}
	for _, r := range old.Resources {
		known[r.Object] = true
	}
	all, leaves := slices.Clone(old.Resources), map[plan.Object]bool{}
	for _, r := range goes {
		leaves[r.Object] = true
		if !known[r.Object] { // whatever else is known of it, it has to go
			all = append(all, r)
		}
	}
	var warnings []plan.Warning
	p, err := o.plan(old.Tree, all)
	if err != nil {
		warnings = []plan.Warning{{Rule: "R28", Message: fmt.Sprintf("the previous order cannot be rebuilt, so everything is removed at once: %v", err)}}
		p = plan.Flat(all, o.Root)
	}
	groups := plan.Subset(p.Groups, func(x plan.Object) bool { return leaves[x] })
	return Planned{event.Phase{Name: o.Prefix + PhaseRemove, Kind: event.PhaseRemove, Groups: plan.Reverse(groups)}, goes, nil}, warnings
}

func (o Ordering) plan(tree *plan.Chart, resources []plan.Resource) (*plan.Plan, error) {
	if tree == nil {
		return plan.Flat(resources, o.Root), nil
	}
	return plan.Build(tree, resources)
}
