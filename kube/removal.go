package kube

import (
	"context"
	"fmt"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// oldRevision is what an upgrade, a rollback or an uninstallation takes objects
// away from: its chart tree, nil where it was not sequenced, and all that it
// holds. Some of that stays, but counts for the order of what goes: a group
// whose gate stays is still a group (R8).
type oldRevision struct {
	tree      *plan.Chart
	resources []plan.Resource
}

// hold reads what a revision holds from its manifest.
func (o *ordered) hold(ctx context.Context, rel *rel1.Release) (helmkube.ResourceList, error) {
	list, _, err := o.builder.build(rel.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of revision %d: %w", rel.Version, err)
	}
	list = o.expand(ctx, list)
	o.old = oldRevision{treeOf(rel), o.builder.resources(list)}
	return list, nil
}

// remove runs the phase that takes a list away, in reverse of the plan that it
// was brought by (R30, R31). keep honours helm.sh/resource-policy.
func (o *ordered) remove(list helmkube.ResourceList, policy metav1.DeletionPropagation, keep bool) error {
	if len(list) == 0 {
		return nil
	}
	phases, err := o.removePhase(list)
	if err != nil {
		o.engine.Publish(event.Event{Kind: event.KindWarning, Rule: "R28", Message: fmt.Sprintf("the old order cannot be rebuilt, so all is removed at once: %v", err)})
	}
	o.announce(phases[0])
	err = o.engine.Run(run.Stage{
		Phase:   phases[0],
		Cluster: newTarget(o, list, nil, &removal{policy: policy, keep: keep}),
		Await:   func(*plan.Group) bool { return o.opts.wait != helmkube.HookOnlyStrategy },
	})
	if err != nil {
		return err
	}
	o.hooks.mainDone()
	return nil
}

// removePhase is the phase that takes a list of the old revision away, or none
// for an empty list. With an error the phase removes all at once.
func (o *ordered) removePhase(list helmkube.ResourceList) ([]event.Phase, error) {
	if len(list) == 0 {
		return nil, nil
	}
	held := map[plan.Object]bool{}
	for _, r := range o.old.resources {
		held[r.Object] = true
	}
	all, goes := slices.Clone(o.old.resources), map[plan.Object]bool{}
	for _, r := range o.builder.resources(list) {
		goes[r.Object] = true
		if !held[r.Object] { // whatever else is known of it, it has to go
			all = append(all, r)
		}
	}
	old, err := o.plan(o.old.tree, all)
	if err != nil {
		old = plan.Flat(all, o.builder.root)
	}
	groups := plan.Subset(old.Groups, func(x plan.Object) bool { return goes[x] })
	return []event.Phase{{Name: o.opts.prefix + phaseRemove, Kind: event.PhaseRemove, Groups: plan.Reverse(groups)}}, err
}

// nothingToDelete goes through the removal of what is gone already: Helm leaves
// out what is not there, and of nothing it asks no deletion.
func (o *ordered) nothingToDelete(list helmkube.ResourceList) error {
	switch {
	case len(o.absent(list)) < len(list):
		return nil
	case len(list) == 0, o.opts.prefix != "": // a rollback plans what is there
		o.hooks.mainDone()
		return nil
	}
	return o.remove(list, metav1.DeletePropagationBackground, false)
}

// absent are the objects of a list that were not there when it was built.
func (o *ordered) absent(list helmkube.ResourceList) helmkube.ResourceList {
	return list.Filter(func(i *resource.Info) bool {
		f := o.builder.fact(i)
		return f != nil && f.known && f.before == ""
	})
}
