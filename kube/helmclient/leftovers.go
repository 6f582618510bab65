package helmclient

import (
	"fmt"
	"maps"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/manifest"
)

// Leftovers are objects of other revisions to remove (R32a): Newer before the objects of the old
// revision, Older after them.
type Leftovers struct{ Newer, Older []Leftover }

// Leftover holds objects that a revision created and that neither the target nor the old
// revision has.
type Leftover struct {
	Manifest string
	Planned  Planned
	// Created reports whether an object may be what a revision created. A removal keeps the others.
	Created func(plan.Object, manifest.Seen) bool
}

// Removal says how the leftovers are deleted.
func (l Leftover) Removal() cluster.Removal {
	return cluster.Removal{Policy: metav1.DeletePropagationBackground, Keep: true, Created: l.Created}
}

// Of returns the leftovers that a phase removes. found is false if it removes other objects.
func (l Leftovers) Of(phase string) (left Leftover, found bool) {
	for _, left := range slices.Concat(l.Newer, l.Older) {
		if left.Planned.Phase.Name == phase {
			return left, true
		}
	}
	return Leftover{}, false
}

// Planned returns the phases of the leftovers.
func (l Leftovers) Planned() (newer, older []Planned) {
	for _, x := range l.Newer {
		newer = append(newer, x.Planned)
	}
	for _, x := range l.Older {
		older = append(older, x.Planned)
	}
	return newer, older
}

// PlanLeftovers plans the phase that removes the leftovers of revision r; number is its revision number.
func (o Ordering) PlanLeftovers(number int, r Revision, leftovers []plan.Resource) (Planned, []plan.Warning) {
	p, warnings := o.PlanRemoval(r, leftovers)
	p.Phase.Name = fmt.Sprintf("%s%s-%d", o.Prefix, PhaseRemove, number)
	return p, warnings
}

// removeLeftovers removes leftovers as planned.
func (c *Client) removeLeftovers(left []Leftover) error {
	for _, l := range left {
		c.cfg.announce(l.Planned.Phase) // that of a rollback after a failure is new
		list, _, err := c.builder().BuildTarget(l.Manifest)
		if err == nil {
			err = c.builder().ResolveStored(list...)
		}
		if err != nil {
			return fmt.Errorf("read the manifest of %s: %w", l.Planned.Phase.Name, err)
		}
		list, warnings := c.builder().Expand(c.cfg.Context, list)
		c.cfg.warn(warnings)
		list = list.Filter(func(i *resource.Info) bool {
			f := c.builder().Fact(i)
			return f != nil && slices.ContainsFunc(l.Planned.Resources, func(r plan.Resource) bool { return r.Object == f.Resource.Object })
		})
		if err := c.removeStage(l.Planned, list, l.Removal()); err != nil {
			return err
		}
	}
	return nil
}

// removeStage runs a phase that removes a list. Only an uninstall fails if an object is not
// gone in time (R30).
func (c *Client) removeStage(planned Planned, list helmkube.ResourceList, removal cluster.Removal) error {
	if err := c.keepDependents(list, removal); err != nil {
		return err
	}
	removal.Awaited = c.awaitedRemovals(planned.Phase)
	stage := run.Stage{
		Phase:         planned.Phase,
		Cluster:       cluster.NewRemoval(c.cfg.Session, list, removal),
		Await:         func(*plan.Group) bool { return c.cfg.Options.Wait != helmkube.HookOnlyStrategy },
		ObjectTimeout: c.cfg.Options.Removal,
	}
	if !c.cfg.Uninstalling {
		stage.Lenient, stage.ObjectTimeout = true, c.cfg.Options.Readiness
	}
	return c.cfg.Engine.Run(stage)
}

// awaitedRemovals returns the groups of a phase that others wait for: groups and, in a stack, releases.
func (c *Client) awaitedRemovals(p event.Phase) map[string]bool {
	if c.cfg.Options.Wait == helmkube.HookOnlyStrategy {
		return nil
	}
	awaited := (&plan.Plan{Groups: p.Groups}).Dependencies()
	for _, g := range p.Groups {
		awaited[g.ID] = awaited[g.ID] || c.cfg.Options.InStack && c.cfg.Uninstalling
	}
	return awaited
}

// keepDependents is cluster.Session.KeepDependents for a list that is about to be removed. An uninstall has not read what it keeps.
func (c *Client) keepDependents(list helmkube.ResourceList, removal cluster.Removal) error {
	var unread []plan.Object
	if c.cfg.Uninstalling {
		for _, r := range c.cfg.Old.Resources {
			if charts.Keeps(r.Annotations) {
				unread = append(unread, r.Object)
			}
		}
	}
	return c.cfg.Session.KeepDependents(c.cfg.Context, removedObjects(c.builder(), list, removal.Keep), unread)
}

// removedObjects returns the objects of a list that a removal deletes; keep leaves out those with helm.sh/resource-policy: keep.
func removedObjects(b *manifest.Builder, list helmkube.ResourceList, keep bool) (out []plan.Object) {
	for _, i := range list {
		if f := b.Fact(i); f != nil && (!keep || !f.Seen().Keep) {
			out = append(out, f.Resource.Object)
		}
	}
	return out
}

// WarnOfDependents names the objects that stay although the objects of a list, which the operation deletes, are their owners.
func WarnOfDependents(b *manifest.Builder, removed helmkube.ResourceList) (warnings []plan.Warning) {
	dependents := b.Dependents(removedObjects(b, removed, true))
	for _, o := range slices.SortedFunc(maps.Keys(dependents), plan.Object.Compare) {
		warnings = append(warnings, plan.Warning{Rule: "R31c", Object: &o, Message: fmt.Sprintf(
			"%s stays, although its ownerReferences name %s, which is deleted: lockstep removes this reference first, because the cluster would delete %s too", o, dependents[o], o)})
	}
	return warnings
}
