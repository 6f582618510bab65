package kube

import (
	"context"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// Rollback is what to roll back to.
type Rollback struct {
	Common
	// Revision is the revision to go back to, 0 for the one before the last.
	Revision       int
	ForceConflicts bool
	ForceReplace   bool
	// ServerSide is "true", "false" or "auto": as the revision was applied.
	ServerSide    string
	CleanupOnFail bool
	HistoryMax    int
	Description   string

	// from is the latest revision when the rollback was prepared, 0 where it
	// does not matter.
	from int
}

// PrepareRollback checks a rollback and plans it. It writes nothing; an error
// means that nothing would be written.
func (c *Client) PrepareRollback(ctx context.Context, back Rollback) (*Operation, error) {
	if err := back.complete(c.Namespace()); err != nil {
		return nil, err
	}
	p, err := c.planner(back.Common, back.Release)
	if err != nil {
		return nil, err
	}
	current, target, err := back.revisions(p)
	if err != nil {
		return nil, err
	}
	p.ord.builder.root = target.Chart.Name()
	op := c.operation("rollback", back.Common, target)
	op.info.Revision = current.Version + 1
	op.info.ToRevision = target.Version
	op.force, op.before = back.ForceConflicts, current.Manifest
	if err := checkForce(back.ForceReplace, back.ForceConflicts, serverSide(back.ServerSide, target)); err != nil {
		return nil, err
	}
	old, err := p.ord.hold(ctx, current)
	if err != nil {
		return nil, err
	}
	list, _, err := p.ord.builder.build(target.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of revision %d: %w", target.Version, err)
	}
	p.ord.built = append(p.ord.built, list)
	c.lookAhead(ctx, p.ord.builder, list)
	p.ord.warnOwners(list)
	if err := p.ord.scopeHooks(treeOf(target), target, back.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback); err != nil {
		return nil, err
	}
	apply, err := p.ord.applyPhase(treeOf(target), list)
	if err != nil {
		return nil, fmt.Errorf("order revision %d: %w", target.Version, err)
	}
	remove, err := p.ord.removePhase(old.Difference(list))
	if err != nil {
		p.ord.warn("R28", "the order of revision %d cannot be rebuilt, so what is not in revision %d is removed at once: %v", current.Version, target.Version, err)
	}
	op.phases = p.aroundHooks(target, back.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback, apply, remove)
	op.warns = p.ord.warned()
	if err := op.check(ctx); err != nil {
		return nil, err
	}
	back.from = current.Version
	op.do = back.run
	return op, nil
}

// revisions returns the latest revision and the one to go back to.
func (back *Rollback) revisions(p *pass) (current, target *rel1.Release, err error) {
	x, err := p.cfg.Releases.Last(back.Release)
	if err != nil {
		return nil, nil, fmt.Errorf("roll back %s: %w", back.Release, err)
	}
	if current, err = asV1(x); err != nil {
		return nil, nil, err
	}
	to := back.Revision
	if to == 0 {
		to = current.Version - 1
	}
	if to == 0 {
		return nil, nil, fmt.Errorf("roll back %s: revision 1, %s, is the only one, so there is nothing to go back to; uninstall it, or upgrade it", back.Release, current.Info.Status)
	}
	x, err = p.cfg.Releases.Get(back.Release, to)
	if err != nil {
		return nil, nil, fmt.Errorf("roll back %s to revision %d: %w; lockstep history shows which there are", back.Release, to, err)
	}
	target, err = asV1(x)
	return current, target, err
}

// run carries the rollback out: in the order of the target revision, where
// that was sequenced; what it has not is removed in reverse of the current
// one's (R32).
func (back *Rollback) run(p *pass) (*rel1.Release, error) {
	current, target, err := back.revisions(p)
	if err != nil {
		return nil, err
	}
	if back.from > 0 && current.Version != back.from { // Helm would not look
		return nil, fmt.Errorf("roll back %s: revision %d, %s, has come in between: another operation is under way", back.Release, current.Version, current.Info.Status)
	}
	ws, err := waitStrategy(back.Wait)
	if err != nil {
		return nil, err
	}
	p.ord.tree, p.ord.old.tree = treeOf(target), treeOf(current)
	p.ord.builder.root = target.Chart.Name()
	if err := p.admitFirst(); err != nil {
		return nil, err
	}
	p.rec.record = nil // the revision's own comes back with its chart
	p.expectHooks(back.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback)
	a := action.NewRollback(p.cfg)
	a.Version, a.Timeout = target.Version, back.Timeout
	a.WaitStrategy, a.WaitForJobs, a.DisableHooks = ws, back.WaitForJobs, back.NoHooks
	a.ForceConflicts, a.ForceReplace = back.ForceConflicts, back.ForceReplace
	if back.ServerSide != "" {
		a.ServerSideApply = back.ServerSide
	}
	a.CleanupOnFail, a.MaxHistory, a.Description = back.CleanupOnFail, back.HistoryMax, back.Description
	return nil, a.Run(back.Release)
}
