package helmclient

import (
	"fmt"
	"reflect"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/event"
	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// WaitOrdered is lockstep's own wait strategy: group by group, as HIP-0025 specifies (R27).
const WaitOrdered helmkube.WaitStrategy = "ordered"

// The names of the phases that apply and remove a release's objects.
const (
	PhaseApply  = "apply"
	PhaseRemove = "remove"
)

// Ordering plans phases for the objects of a release.
type Ordering struct {
	// Prefix is the prefix of phase names: "" or event.RollbackPrefix.
	Prefix string
	// Root is the chart path of objects without a chart.
	Root string
	// Jobs says which Jobs must complete (R22).
	Jobs plan.Jobs
	// WaitFor are the objects outside the release that its first groups wait for (R22d).
	WaitFor []plan.Object
	// WaitOutside returns how the run waits for an object outside the release. Nil waits for none.
	WaitOutside func(plan.Object) plan.Wait
	// Inferred explains why groups wait, nil if the order is declared.
	Inferred *infer.Order
	// Charts are the charts of what PlanApply plans without an order: what they ask for counts without one, too. Nil if they
	// are unknown.
	Charts *plan.Chart
}

// Revision is a revision whose objects an upgrade, a rollback or an uninstall removes.
type Revision struct {
	Tree *plan.Chart // nil if it was not ordered
	// Resources are all of its objects, because those that stay affect the order of the others (R8).
	Resources []plan.Resource
}

// Planned is a phase with the resources and the Ordering.Charts that it was planned from. It is immutable.
type Planned struct {
	Phase     event.Phase
	Resources []plan.Resource
	Hooks     []plan.SubchartHook // among the phase's groups
	Charts    *plan.Chart
}

// Empty reports whether there is nothing to do.
func (p Planned) Empty() bool { return len(p.Resources) == 0 }

// matches reports whether the phase was planned from these resources, in any order (Helm sorts
// them for an uninstall), and hooks.
func (p Planned) matches(resources []plan.Resource, hooks []plan.SubchartHook) bool {
	if len(resources) != len(p.Resources) || !reflect.DeepEqual(p.Hooks, hooks) {
		return false
	}
	byObject := map[plan.Object]plan.Resource{}
	for _, r := range p.Resources {
		byObject[r.Object] = r
	}
	return !slices.ContainsFunc(resources, func(r plan.Resource) bool { return !reflect.DeepEqual(byObject[r.Object], r) })
}

// Phases returns the phases of plans, without empty ones.
func Phases(all ...Planned) []event.Phase {
	var out []event.Phase
	for _, p := range all {
		if !p.Empty() {
			out = append(out, p.Phase)
		}
	}
	return out
}

// PlanApply plans the phase that applies resources: in the order of the DAG or, if tree is nil, all
// at once (R27), after the approvals that objects and Charts ask for (R42a). The warnings are those of the plan.
func (o Ordering) PlanApply(tree *plan.Chart, resources []plan.Resource, hooks []plan.SubchartHook) (Planned, []plan.Warning, error) {
	p, err := o.plan(tree, o.Charts, resources)
	if err != nil {
		return Planned{}, nil, err
	}
	phase := event.Phase{Name: o.Prefix + PhaseApply, Kind: event.PhaseApply, Groups: plan.AroundSubcharts(p.Groups, hooks)}
	o.Jobs.Complete(phase.Groups)
	if err := plan.WaitForFirst(phase.Groups, o.WaitFor); err != nil {
		return Planned{}, nil, err
	}
	for _, g := range phase.Groups {
		if i := slices.IndexFunc(hooks, func(h plan.SubchartHook) bool { return h.Group.ID == g.ID }); i >= 0 { // it comes before what its chart asks for
			g.Approve = append(slices.Clip(g.Approve), tree.Approvals(hooks[i].Chart)...)
		}
		if o.WaitOutside == nil {
			g.WaitFor = nil
		} else {
			g.WaitOutside(o.WaitOutside)
		}
	}
	if o.Inferred != nil {
		o.Inferred.Explain(phase.Groups)
	}
	return Planned{phase, resources, hooks, o.Charts}, p.Warnings, nil
}

// PlanRemoval plans the phase that removes resources of an old revision, in the reverse of the order
// that applied them (R30, R31). If that order cannot be rebuilt, it plans to remove everything at
// once, with a warning.
func (o Ordering) PlanRemoval(old Revision, resources []plan.Resource) (Planned, []plan.Warning) {
	known := map[plan.Object]bool{}
	for _, r := range old.Resources {
		known[r.Object] = true
	}
	all, removed := slices.Clone(old.Resources), map[plan.Object]bool{}
	for _, r := range resources {
		removed[r.Object] = true
		if !known[r.Object] {
			all = append(all, r)
		}
	}
	var warnings []plan.Warning
	p, err := o.plan(old.Tree, nil, all)
	if err != nil {
		warnings = []plan.Warning{{Rule: "R28", Message: fmt.Sprintf("the previous order cannot be rebuilt, so everything is removed at once: %v", err)}}
		p = plan.Flat(nil, all, o.Root)
	}
	groups := plan.RemovalOrder(plan.Subset(p.Groups, func(x plan.Object) bool { return removed[x] }))
	phase := event.Phase{Name: o.Prefix + PhaseRemove, Kind: event.PhaseRemove, Groups: groups}
	return Planned{Phase: phase, Resources: resources}, warnings
}

// Reorder replaces the inferred order by that of the objects of the last Build, which differ from those of the plan.
func (c *Client) Reorder(tree func(*manifest.Builder, helmkube.ResourceList) (*infer.Order, *plan.Chart, []plan.Warning, error)) error {
	order, ordered, warnings, err := tree(c.builder(), c.builtObjects())
	if err != nil {
		return err
	}
	c.cfg.warn(warnings)
	c.cfg.Tree, c.cfg.Apply, c.inferred = ordered, Planned{}, order // planApply plans again
	return nil
}

func (o Ordering) plan(tree, charts *plan.Chart, resources []plan.Resource) (*plan.Plan, error) {
	if tree == nil {
		return plan.Flat(charts, resources, o.Root), nil
	}
	return plan.Build(tree, resources)
}
