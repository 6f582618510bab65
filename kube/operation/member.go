package operation

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// The methods in this file are for stacks, which run one operation per release.

// Provides returns the objects that the operation creates.
func (op *Operation) Provides() (*session.Provided, error) { return preflight.Provides(op.prepared) }

// NeedsReplan reports whether the plan may have changed since the releases that this one needs are deployed: the run has
// deployed one of them (deployed), and the templates look up objects that are not the release's own; or they may have added kinds,
// and the templates may ask which kinds the cluster serves.
func (op *Operation) NeedsReplan(deployed bool) bool {
	target := op.prepared.Target.Release
	switch {
	case target == nil:
		return false
	case deployed && op.looksUpOthers():
		return true
	}
	return op.prepared.Common.Provided.MayAddKinds() && charts.AsksCluster(target.Chart, target.Config)
}

// looksUpOthers reports whether the templates look up anything but objects of the release itself, such as its own passwords.
func (op *Operation) looksUpOthers() bool {
	p := op.prepared
	return slices.ContainsFunc(p.Target.Lookups, func(t connect.Target) bool {
		return !slices.ContainsFunc(p.Apply.Resources, func(r plan.Resource) bool { return isTarget(t, r.Object) })
	})
}

// LooksUp reports whether the templates look up an object.
func (op *Operation) LooksUp(o plan.Object) bool {
	return slices.ContainsFunc(op.prepared.Target.Lookups, func(t connect.Target) bool { return isTarget(t, o) })
}

// isTarget reports whether a request is about an object.
func isTarget(t connect.Target, o plan.Object) bool {
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: o.Kind})
	return t.Group == o.Group && t.Resource == plural.Resource && t.Namespace == o.Namespace && t.Name == o.Name
}

// Unchanged reports whether the operation is an upgrade that would change nothing: not the chart, the values, --order or the
// manifests, and no object in the cluster; or that an earlier pod of the run's Job has deployed the release (S13). It writes
// nothing. If it returns true, a later Check notices whatever anybody writes to the release from now on. A release whose tests are
// to run and have not passed in this revision is changed (S11).
//
// Rule S4: a stack skips an unchanged release without a new revision.
func (op *Operation) Unchanged(ctx context.Context) (bool, error) {
	p := op.prepared
	if p.Info.Name != "upgrade" || p.Resumes || len(p.Marks) > 0 || op.main.tests && !release.TestsPassed(p.Last) {
		return false, nil
	}
	if op.deployedEarlier() {
		op.ledger.Seal(time.Time{})
		return true, nil
	}
	if p.Last == nil || p.Last.Info.Status != rcommon.StatusDeployed || !sameRelease(p.Target.Release, p.Last) ||
		!sameOrder(p.Target.Record, release.ReadRecord(p.Last)) {
		return false, nil
	}
	changed, err := op.changedObjects(ctx)
	if err != nil || len(changed) > 0 {
		return false, err
	}
	op.ledger.Seal(time.Time{})
	return true, nil
}

// deployedEarlier reports whether an earlier pod of the run's Job has deployed the release. The chart may render other random
// values now.
func (op *Operation) deployedEarlier() bool {
	return op.prepared.Last != nil && release.DeployedBy(op.prepared.Last, op.prepared.Common.Job)
}

// changedObjects returns the objects that the operation would change or could not apply. Jobs that have run and that their
// TTL deleted are none of them.
func (op *Operation) changedObjects(ctx context.Context) (changed []plan.Object, err error) {
	changes, err := op.Changes(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare release %s with the cluster: %w", op.prepared.Common.Release, err)
	}
	for _, c := range changes {
		if c.Modifies() && !c.HasRun || c.Action == inspect.Refuse {
			changed = append(changed, c.Object)
		}
	}
	return changed, nil
}

// Ledger tracks the records of the release for the whole run, see session.Common.Continues.
func (op *Operation) Ledger() *release.Ledger { return op.ledger }

// Rollback returns the options of a rollback to the revision before the upgrade. The stack that runs it adds its own.
func (op *Operation) Rollback() Rollback {
	to := op.Info().PreviousRevision
	if d, ok := op.main.options.(*Deploy); ok {
		return d.rollbackTo(to, op.prepared)
	}
	return Rollback{Revision: to}
}

// Taken are the objects of others that the run has taken over, see session.Common.Taken.
func (op *Operation) Taken() *cluster.TakenOver { return op.taken }

// RollbackHooks returns the phases of the hooks that a rollback of the operation would run, by itself or by its stack.
func (op *Operation) RollbackHooks() []event.Phase {
	if op.rollback == nil || op.rollback.target == nil {
		return nil
	}
	before, after := helmclient.HookPhases(op.rollback.target, event.RollbackPrefix, op.rollback.hooks, nil)
	return slices.Concat(before, after)
}

// NoReturn returns the reasons of the points of no return that earlier runs have passed since the revision to roll back to (R33a).
func (op *Operation) NoReturn() []string { return op.prepared.NoReturn }

// PassNoReturn tells the operation that another release of its stack has passed a point of no return.
func (op *Operation) PassNoReturn(reason string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.noReturn = append(op.noReturn, reason); op.engine != nil {
		op.engine.PassNoReturn(reason)
	}
}

// passedByOthers returns the reasons of PassNoReturn.
func (op *Operation) passedByOthers() []string {
	op.mu.Lock()
	defer op.mu.Unlock()
	return slices.Clone(op.noReturn)
}

// KeepNoReturn adds the reasons of points of no return that hooks of the stack have passed for the release to the record of the
// revision that the operation creates, and the other releases of the run (release.Record.Others). It is called before Run.
func (op *Operation) KeepNoReturn(reasons []string, others map[string]int) {
	op.passedBefore, op.others = reasons, others
}

// KeepApprovals adds the approvals that the stack has asked for before the release to the record of the revision that the operation
// creates. It is called before Run.
func (op *Operation) KeepApprovals(given []event.Approval) { op.approvedBefore = given }

// PassedBefore returns the reasons of the points of no return that earlier runs have passed in this release, before they could deploy
// another one of the stack: a rollback of that still goes to the same revision, and not to one of the same number that was deployed
// later, because the release was uninstalled.
func (op *Operation) PassedBefore(id string, other *Operation) (reasons []string) {
	for _, p := range op.prepared.StackPoints {
		good, found := p.Others[id]
		later := slices.ContainsFunc(other.prepared.Applied, func(rel *rel1.Release) bool { return rel.Version == good && rel.Info.LastDeployed.After(p.Begun) })
		if found && good == other.prepared.Info.PreviousRevision && !later {
			reasons = append(reasons, p.Reasons...)
		}
	}
	return reasons
}

// DeleteDeadLease deletes the Lease of a killed run that had completed its operation, so that nothing is left to do.
func (op *Operation) DeleteDeadLease() error {
	c := op.prepared.Common
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	client, err := op.client.Bind(ctx, &connect.Writes{})
	if err == nil {
		err = op.prepared.Lease.DeleteStale(ctx, client.Leases(c.Namespace))
	}
	if err != nil {
		return fmt.Errorf("release %s: delete the lock of a killed run: %w", c.Release, err)
	}
	return nil
}

// CreatedAndKept reports whether Run has created a revision and has not started to roll it back.
func (op *Operation) CreatedAndKept() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.createdRevision(op.attempt) && !op.rollbackStarted
}

// sameRelease reports whether a rendered revision has the same chart, values, labels and manifests as a stored one. A record of
// another stack is never the same, also for a run of none: that stack would prune the release (S10).
func sameRelease(rendered, stored *rel1.Release) bool {
	sameHook := func(a, b *rel1.Hook) bool { return charts.RewriteKeys(a.Manifest) == b.Manifest && a.Path == b.Path }
	if rendered.Chart == nil || stored.Chart == nil || charts.RewriteKeys(rendered.Manifest) != stored.Manifest ||
		!slices.EqualFunc(rendered.Hooks, stored.Hooks, sameHook) || !sameValues(rendered.Config, stored.Config) ||
		rendered.Labels[StackLabel] != stored.Labels[StackLabel] {
		return false
	}
	for label, value := range rendered.Labels {
		if stored.Labels[label] != value {
			return false
		}
	}
	a, b := rendered.Chart.Metadata, stored.Chart.Metadata
	return a.Name == b.Name && a.Version == b.Version && a.AppVersion == b.AppVersion
}

// sameOrder reports whether two records have the same order, apart from what the chart declares. A revision without a record has any.
func sameOrder(rendered, stored *release.Record) bool {
	if rendered == nil || stored == nil || rendered.Tree == nil || stored.Tree == nil {
		return true
	}
	a, b := rendered.Tree, stored.Tree
	return a.Upstream == b.Upstream && (len(a.Inferred)+len(b.Inferred) == 0 || reflect.DeepEqual(a.Inferred, b.Inferred))
}

// sameValues compares values in the form in which they are stored.
func sameValues(a, b map[string]any) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	x, errX := charts.YAML(a)
	y, errY := charts.YAML(b)
	return errX == nil && errY == nil && x == y
}

// FindGroups returns the ids of the groups that match an argument of --break-on, nil if none match or it is ambiguous.
func (op *Operation) FindGroups(text string) []string {
	var groups []*plan.Group
	for g := range event.Groups(op.Phases()) {
		groups = append(groups, g.Group)
	}
	ids, err := plan.Pick(text, groups)
	if err != nil {
		return nil
	}
	return ids
}

// BreakOn sets breakpoints on groups, by their ids. Each is event.Set or event.Disabled; others are ignored. Call it before Run.
func (op *Operation) BreakOn(breakpoints map[string]event.Status) {
	op.mu.Lock()
	defer op.mu.Unlock()
	for id, status := range breakpoints {
		switch status {
		case event.Disabled:
			op.disabledBreakpoints = append(op.disabledBreakpoints, id)
		case event.Set:
			op.breakpoints = append(op.breakpoints, id)
		}
	}
}

// Check looks at a release again that is unchanged or that the run has deployed. It writes nothing: it makes sure that nobody
// else has changed the records or, of an unchanged release, the objects since planning. Then it waits until all groups are
// ready, within the timeouts of an upgrade, and workloads without probes have settled, if a container of theirs started
// lately (R22c).
type Check struct {
	*Operation
	release   *rel1.Release // whose objects it waits for
	unchanged *Operation    // the upgrade that would change nothing, nil if the objects are not compared
	changed   []plan.Object
}

// Check prepares a check of the release, for which Unchanged returned true. compare makes it compare the objects with the
// chart again. again is set after an earlier check, which has waited for first statuses (R22a).
func (op *Operation) Check(compare, again bool) (*Check, error) {
	c, err := op.check(op.prepared.Last, op.prepared.Last.Version, again)
	if err == nil && compare && !op.deployedEarlier() {
		c.unchanged = op
	}
	return c, err
}

// CheckDeployed prepares a check of the release after Run has deployed it. Objects with generated names and those of hooks are
// left out: hooks and the cluster may delete them.
func (op *Operation) CheckDeployed() (*Check, error) {
	op = op.current()
	c, err := op.check(op.prepared.Target.Release, op.prepared.Info.Revision, true)
	if err == nil {
		c.main.checksDeployed = true
	}
	return c, err
}

func (op *Operation) check(rel *rel1.Release, revision int, again bool) (*Check, error) {
	p := *op.prepared
	generated := generatedObjects(op.feed.Events())
	resources := slices.DeleteFunc(slices.Clone(p.Apply.Resources), func(r plan.Resource) bool { return generated[r.Object] })
	planned, _, err := helmclient.Ordering{Root: p.Target.Root(), Jobs: p.Common.WaitForJobs}.PlanApply(p.Target.Tree, resources, nil)
	if err != nil {
		return nil, err
	}
	p.Info.Name, p.Info.Revision, p.Info.PreviousRevision = "check", revision, 0
	p.Common.Step, p.Common.RollbackOnFailure = false, false
	if again {
		p.Common.FirstStatusTimeout = -1
	}
	p.Breakpoints, p.Warnings = nil, nil
	p.Apply, p.Remove, p.Leftovers, p.Hooks = planned, helmclient.Planned{}, helmclient.Leftovers{}, helmclient.HookEvents{}
	p.Phases = helmclient.Phases(planned)
	for g := range event.Groups(p.Phases) {
		g.Approve = nil // nothing is written
	}
	c := &Check{release: rel}
	c.Operation = newOperation(op.client, task{prepared: &p, do: c.run})
	c.setLedger(op.ledger)
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.attempt != nil {
		c.applied = op.attempt.session.Applied
	}
	return c, nil
}

// generatedObjects returns the objects to which the API server gave names, with their names in the plan.
func generatedObjects(events []event.Event) map[plan.Object]bool {
	generated := map[plan.Object]bool{}
	for _, e := range events {
		if e.Kind == event.KindObject && e.Planned != "" {
			o := *e.Object
			o.Name = e.Planned
			generated[o] = true
		}
	}
	return generated
}

// Changed returns the objects that somebody else has changed since planning.
func (c *Check) Changed() []plan.Object { return c.changed }

func (c *Check) run(a *attempt) (*rel1.Release, error) {
	ctx := a.engine.RequestContext()
	if err := c.ledger.Look(ctx, c.listRecords); err != nil {
		return nil, err
	}
	if err := c.compareObjects(ctx); err != nil {
		return nil, err
	}
	list, _, err := buildRevision(a.session.Builder, c.release)
	if err != nil {
		return nil, err
	}
	list, _ = a.session.Builder.Expand(ctx, list)
	named := list.Filter(func(i *resource.Info) bool { return !a.session.Builder.Fact(i).Generated })
	return nil, a.client.Observe(c.prepared.Apply.Phase, named)
}

// compareObjects returns an error that names the objects that somebody else has changed.
func (c *Check) compareObjects(ctx context.Context) error {
	if c.unchanged == nil {
		return nil
	}
	changed, err := c.unchanged.changedObjects(ctx)
	if err != nil || len(changed) == 0 {
		return err
	}
	c.changed = changed
	var names []string
	for _, o := range changed {
		names = append(names, o.String())
	}
	return fmt.Errorf("somebody else changed %s since planning; run the command again", strings.Join(names, ", "))
}

// Newest returns the newest revision of a release for which there was no operation, because it was not installed at planning;
// nil if it still is not.
func Newest(ctx context.Context, c *connect.Client, common Common) (*event.NewerRevision, error) {
	common, err := common.Complete(c.Namespace())
	if err != nil {
		return nil, err
	}
	s, err := session.New(ctx, c, common, &connect.Writes{}, release.NewLedger(common.Namespace, common.Release))
	if err != nil {
		return nil, err
	}
	last, found, err := release.Last(s.Releases(), common.Release)
	if !found || last.Info.Status == rcommon.StatusUninstalled {
		return nil, err
	}
	return &event.NewerRevision{Revision: last.Version, Status: last.Info.Status.String(), Author: release.AuthorOf(last).String()}, nil
}
