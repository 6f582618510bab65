package helmclient

import (
	"fmt"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/engine/run"
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
