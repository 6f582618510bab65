package kube

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/plan"
)

// Uninstall is what to uninstall.
type Uninstall struct {
	Common
	KeepHistory         bool
	IgnoreNotFound      bool
	DeletionPropagation string
	Description         string
}

// PrepareUninstall checks an uninstallation and plans it. It writes nothing;
// an error means that nothing would be written. Where there is no release and
// IgnoreNotFound is set, both results are nil.
func (c *Client) PrepareUninstall(ctx context.Context, u Uninstall) (*Operation, error) {
	if err := u.complete(c.Namespace()); err != nil {
		return nil, err
	}
	p, err := c.planner(u.Common, u.Release)
	if err != nil {
		return nil, err
	}
	rel, err := u.release(p)
	if errors.Is(err, driver.ErrReleaseNotFound) && u.IgnoreNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("uninstall %s in namespace %s: %w", u.Release, u.Namespace, err)
	}
	if rel.Info.Status == rcommon.StatusUninstalled && u.KeepHistory {
		return nil, fmt.Errorf("uninstall %s: it is uninstalled already; its history is kept", u.Release)
	}
	p.ord.builder.root = rel.Chart.Name()
	op := c.operation("uninstall", u.Common, rel)
	op.do = func(p *pass) (*rel1.Release, error) { return nil, u.run(p) }
	if rel.Info.Status == rcommon.StatusUninstalled {
		return op, nil // all there is to do is to forget its history
	}
	list, err := p.ord.hold(ctx, rel)
	if err != nil {
		return nil, err
	}
	c.lookAhead(ctx, p.ord.builder, list)
	remove, err := p.ord.removePhase(p.ord.removable(list))
	if err != nil {
		p.ord.warn("R28", "the order of revision %d cannot be rebuilt, so all is removed at once: %v", rel.Version, err)
	}
	op.phases = p.aroundHooks(rel, u.NoHooks, rel1.HookPreDelete, rel1.HookPostDelete, remove)
	op.warns = p.ord.warned()
	if err := op.check(ctx); err != nil {
		return nil, err
	}
	return op, nil
}

func (u *Uninstall) release(p *pass) (*rel1.Release, error) {
	last, err := p.cfg.Releases.Last(u.Release)
	if err != nil {
		return nil, err
	}
	return asV1(last)
}

// run carries an uninstallation out: R31.
func (u *Uninstall) run(p *pass) error {
	rel, err := u.release(p)
	if err != nil {
		return fmt.Errorf("look for release %s: %w", u.Release, err)
	}
	ws, err := waitStrategy(u.Wait)
	if err != nil {
		return err
	}
	p.ord.builder.root, p.ord.uninstalling = rel.Chart.Name(), true
	if _, err := p.ord.hold(p.ord.requests(), rel); err != nil {
		return err
	}
	if !u.NoHooks && rel.Info.Status != rcommon.StatusUninstalled {
		for _, phase := range p.ord.hooks.learn(rel, p.ord.opts.prefix, rel1.HookPreDelete, rel1.HookPostDelete) {
			p.ord.announce(phase)
		}
	}
	if err := p.admitFirst(); err != nil {
		return err
	}
	a := action.NewUninstall(p.cfg)
	a.DisableHooks, a.IgnoreNotFound, a.KeepHistory = u.NoHooks, u.IgnoreNotFound, u.KeepHistory
	a.WaitStrategy, a.Timeout = ws, u.Timeout
	a.DeletionPropagation, a.Description = u.DeletionPropagation, u.Description
	if _, err := a.Run(u.Release); err != nil {
		if p.ord.removeErr != nil { // Helm tells only that there is one
			return p.ord.removeErr
		}
		return err
	}
	return nil
}

// treeOf is the chart tree that a revision was sequenced by, or nil for one
// that was not (R32).
func treeOf(rel *rel1.Release) *plan.Chart {
	if r := readRecord(rel); r != nil && r.Sequenced {
		return r.Tree
	}
	return nil
}
