package kube

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	chartcommon "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// Upgrade is what to upgrade to.
type Upgrade struct {
	Common
	Rendering
	// Install installs where there is no release of the name; CreateNamespace
	// goes with it.
	Install         bool
	CreateNamespace bool
	// ServerSide is "true", "false" or "auto": as the release was applied.
	ServerSide           string
	ReuseValues          bool
	ResetValues          bool
	ResetThenReuseValues bool
	CleanupOnFail        bool
	HistoryMax           int
	// UpgradeCRDs applies crds/ of the chart before everything else. Helm never
	// does; what it leaves in the cluster is not rolled back with the release.
	UpgradeCRDs bool
}

// PrepareUpgrade checks an upgrade and plans it. It writes nothing; an error
// means that nothing would be written.
func (c *Client) PrepareUpgrade(ctx context.Context, up Upgrade) (*Operation, error) {
	if err := up.complete(c.Namespace()); err != nil {
		return nil, err
	}
	if err := up.Chart.Check(); err != nil {
		return nil, err
	}
	p, err := c.planner(up.Common, up.Chart.Name())
	if err != nil {
		return nil, err
	}
	revs, err := p.revisions(up.Release)
	if errors.Is(err, driver.ErrReleaseNotFound) && up.Install {
		return c.PrepareInstall(ctx, up.installs())
	}
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, fmt.Errorf("upgrade %s in namespace %s: %w; install it, or use --install", up.Release, up.Namespace, err)
	}
	if err != nil {
		return nil, fmt.Errorf("look for release %s in namespace %s: %w", up.Release, up.Namespace, err)
	}
	if st := revs.last.Info.Status; st == rcommon.StatusUninstalled && up.Install {
		in := up.installs()
		in.Replace = true
		return c.PrepareInstall(ctx, in)
	} else if st.IsPending() || st == rcommon.StatusUninstalling {
		return nil, fmt.Errorf("upgrade %s: revision %d is %s: another operation is under way, or one was cut off; to go on, %s", up.Release, revs.last.Version, st, revs.goOn())
	}
	if err := p.checkCRDs(ctx, up.crdUse()); err != nil {
		return nil, err
	}
	rel, err := up.render(ctx, p)
	if err != nil {
		return nil, err
	}
	if !up.TakeOwnership {
		if err := p.ord.checkOwners(p.ord.last()); err != nil {
			return nil, fmt.Errorf("upgrade %s: %w", up.Release, err)
		}
	}
	tree, warnings, err := up.Chart.Tree(up.treeValues(revs, rel))
	if err != nil {
		return nil, err
	}
	op := c.operation("upgrade", up.Common, rel)
	op.crds, op.force = up.crdUse(), up.ForceConflicts
	if err := checkForce(up.ForceReplace, up.ForceConflicts, serverSide(up.ServerSide, rel)); err != nil {
		return nil, err
	}
	op.info.PreviousRevision, op.before = revs.good(), revs.current.Manifest
	if op.phases, err = up.phases(ctx, p, rel, revs.current, tree); err != nil {
		return nil, err
	}
	if err := op.deploys(ctx, p, tree, warnings); err != nil {
		return nil, err
	}
	op.do = func(p *pass) (*rel1.Release, error) { return up.run(p, tree, treeOf(revs.current)) }
	if back := revs.good(); back > 0 {
		op.undo = op.undoUpgrade(back, up)
	}
	return op, nil
}

// installs is the installation that the upgrade is where nothing is deployed.
func (up *Upgrade) installs() Install {
	return Install{Common: up.Common, Rendering: up.Rendering, CreateNamespace: up.CreateNamespace, ClientSide: up.ServerSide == "false", upgradeCRDs: up.UpgradeCRDs}
}

// revisions are those that an operation on a release looks at.
type revisions struct {
	last    *rel1.Release // the latest
	current *rel1.Release // what is deployed, or else the latest
}

// good is the revision to roll back to when the operation fails, 0 for none.
func (r *revisions) good() int {
	if r.current.Info.Status == rcommon.StatusDeployed {
		return r.current.Version
	}
	return 0
}

// goOn says what to do about a release whose last operation was cut off.
func (r *revisions) goOn() string {
	switch {
	case r.last.Info.Status == rcommon.StatusUninstalling:
		return "uninstall it again"
	case r.good() == 0:
		return "uninstall it"
	}
	return fmt.Sprintf("roll it back to revision %d", r.good())
}

// revisions reads the revisions of a release.
func (p *pass) revisions(name string) (*revisions, error) {
	x, err := p.cfg.Releases.Last(name)
	if err != nil {
		return nil, err
	}
	last, err := asV1(x)
	if err != nil {
		return nil, err
	}
	r := &revisions{last: last, current: last}
	if last.Info.Status == rcommon.StatusDeployed {
		return r, nil
	}
	x, err = p.cfg.Releases.Deployed(name)
	if errors.Is(err, driver.ErrNoDeployedReleases) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.current, err = asV1(x)
	return r, err
}

// treeValues are the values that conditions of subcharts see: those of the
// release, with --reuse-values over the old chart's defaults, as Helm does.
func (up *Upgrade) treeValues(revs *revisions, rel *rel1.Release) map[string]any {
	if !up.ReuseValues {
		return rel.Config
	}
	old, err := chartcommon.CoalesceValues(revs.current.Chart, revs.current.Config)
	if err != nil {
		return rel.Config
	}
	return chartcommon.CoalesceTables(charts.CopyValues(rel.Config), old)
}

func (up *Upgrade) action(p *pass) (*action.Upgrade, error) {
	ws, err := waitStrategy(up.Wait)
	if err != nil {
		return nil, err
	}
	u := action.NewUpgrade(p.cfg)
	u.Install, u.Namespace = up.Install, up.Namespace
	u.WaitStrategy, u.WaitForJobs, u.Timeout = ws, up.WaitForJobs, up.Timeout
	u.DisableHooks, u.SkipCRDs = up.NoHooks, true
	u.ForceConflicts, u.ForceReplace, u.TakeOwnership = up.ForceConflicts, up.ForceReplace, up.TakeOwnership
	if up.ServerSide != "" {
		u.ServerSideApply = up.ServerSide
	}
	u.ReuseValues, u.ResetValues, u.ResetThenReuseValues = up.ReuseValues, up.ResetValues, up.ResetThenReuseValues
	u.MaxHistory, u.CleanupOnFail = up.HistoryMax, up.CleanupOnFail
	u.DisableOpenAPIValidation, u.SkipSchemaValidation, u.EnableDNS = up.DisableOpenAPIValidation, up.SkipSchemaValidation, up.EnableDNS
	u.SubNotes, u.HideNotes = up.SubNotes, up.HideNotes
	u.Description, u.Labels = up.Description, up.Labels
	u.PostRenderer = up.PostRenderer
	if up.PostRenderStrategy != "" {
		u.PostRenderStrategy = up.PostRenderStrategy
	}
	return u, nil
}

// render asks Helm for a dry run.
func (up *Upgrade) render(ctx context.Context, p *pass) (*rel1.Release, error) {
	u, err := up.action(p)
	if err != nil {
		return nil, err
	}
	u.DryRunStrategy = action.DryRunServer
	return up.with(p, func(c *chart.Chart, values map[string]any) (release.Releaser, error) {
		return u.RunWithContext(ctx, up.Release, c, values)
	})
}

// phases lists what will run: the new plan, then what is gone from the chart
// in reverse of the old one (R30).
func (up *Upgrade) phases(ctx context.Context, p *pass, rel, current *rel1.Release, tree *plan.Chart) ([]event.Phase, error) {
	target := p.ord.last()
	old, err := p.ord.hold(ctx, current)
	if err != nil {
		return nil, err
	}
	if err := p.ord.scopeHooks(tree, rel, up.NoHooks, rel1.HookPreUpgrade, rel1.HookPostUpgrade); err != nil {
		return nil, err
	}
	apply, err := p.ord.applyPhase(tree, target)
	if err != nil {
		return nil, err
	}
	remove, err := p.ord.removePhase(old.Difference(target))
	if err != nil {
		p.ord.warn("R28", "the order of revision %d cannot be rebuilt, so what is gone from the chart is removed at once: %v", current.Version, err)
	}
	crds, err := crdPhase(up.crdUse())
	if err != nil {
		return nil, err
	}
	return append(crds, p.aroundHooks(rel, up.NoHooks, rel1.HookPreUpgrade, rel1.HookPostUpgrade, apply, remove)...), nil
}

// run carries the upgrade out.
func (up *Upgrade) run(p *pass, tree, oldTree *plan.Chart) (*rel1.Release, error) {
	p.ord.tree, p.ord.old.tree = tree, oldTree
	if err := p.applyCRDs(up.crdUse()); err != nil {
		return nil, err
	}
	if err := p.admitFirst(); err != nil {
		return nil, err
	}
	p.expectHooks(up.NoHooks, rel1.HookPreUpgrade, rel1.HookPostUpgrade)
	u, err := up.action(p)
	if err != nil {
		return nil, err
	}
	return up.with(p, func(c *chart.Chart, values map[string]any) (release.Releaser, error) {
		return u.RunWithContext(context.Background(), up.Release, c, values)
	})
}

// crdUse is what an upgrade does with crds/: nothing, unless asked to.
func (up *Upgrade) crdUse() crdUse {
	if !up.UpgradeCRDs || up.SkipCRDs {
		return crdUse{}
	}
	return crdUse{chart: up.Chart, upgrade: true, force: up.ForceConflicts}
}

// undoUpgrade is the rollback of a failed upgrade: back to the last good
// revision (R33). The revision is named, since Helm's own choice can fall on
// one that failed.
func (op *Operation) undoUpgrade(revision int, up Upgrade) func() (event.Operation, func(*pass) error) {
	return func() (event.Operation, func(*pass) error) {
		info := op.info
		info.Name, info.ToRevision, info.PreviousRevision = "rollback", revision, 0
		back := Rollback{Common: op.common, Revision: revision, ForceConflicts: up.ForceConflicts, ForceReplace: up.ForceReplace, ServerSide: up.ServerSide}
		return info, func(p *pass) error {
			_, err := back.run(p)
			return err
		}
	}
}
