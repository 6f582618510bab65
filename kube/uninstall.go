package kube

import (
	"errors"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine"
)

// Uninstall is what to uninstall.
type Uninstall struct {
	Common
	KeepHistory         bool
	IgnoreNotFound      bool
	DeletionPropagation string
	Description         string
}

// run carries an uninstallation out: R31.
func (u *Uninstall) run(p *pass) error {
	last, err := p.cfg.Releases.Last(u.Release)
	if errors.Is(err, driver.ErrReleaseNotFound) && u.IgnoreNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for release %s: %w", u.Release, err)
	}
	rel, err := asV1(last)
	if err != nil {
		return err
	}
	p.ord.oldTree = treeOf(rel)
	if !u.NoHooks {
		for _, phase := range p.ord.hooks.learn(rel, p.ord.opts.prefix, rel1.HookPreDelete, rel1.HookPostDelete) {
			p.ord.announce(phase)
		}
	}
	ws, err := waitStrategy(u.Wait)
	if err != nil {
		return err
	}
	p.wrote = true
	a := action.NewUninstall(p.cfg)
	a.DisableHooks, a.IgnoreNotFound, a.KeepHistory = u.NoHooks, u.IgnoreNotFound, u.KeepHistory
	a.WaitStrategy, a.Timeout = ws, u.Timeout
	a.DeletionPropagation, a.Description = u.DeletionPropagation, u.Description
	if _, err := a.Run(u.Release); err != nil {
		return errors.Join(err, p.ord.removeErr)
	}
	return nil
}

// treeOf is the chart tree that a revision was sequenced by, or a tree without
// any order for one that was not (R32).
func treeOf(rel *rel1.Release) *engine.Chart {
	if r := readRecord(rel); r != nil && r.Sequenced {
		return r.Tree
	}
	return nil
}
