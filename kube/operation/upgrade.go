package operation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	chartcommon "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmrelease "helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// Upgrade holds the options of an upgrade.
type Upgrade struct {
	Common
	ChartOptions
	Install         bool // install the release if it does not exist
	CreateNamespace bool // only for an install
	// ServerSide is "true", "false", or "auto" to apply as the previous revision was applied; "" is "auto".
	ServerSide           string
	ReuseValues          bool
	ResetValues          bool
	ResetThenReuseValues bool
	CleanupOnFail        bool
	HistoryMax           int
	// UpgradeCRDs applies crds/ before everything else. Helm's upgrade never does. A rollback does not revert them.
	UpgradeCRDs bool
}

// PrepareUpgrade checks and plans an upgrade. It does not change the release.
func PrepareUpgrade(ctx context.Context, c *connect.Client, up Upgrade) (*Operation, error) {
	up.PostRenderer = charts.PostRenderOnce(up.PostRenderer)
	if err := up.continueEdit(up.Common); err != nil {
		return nil, err
	}
	if up.editContinued(up.Common) {
		up.ResetValues, up.ReuseValues, up.ResetThenReuseValues = true, false, false
	}
	return prepare(ctx, c, &up.Common, ending{"upgrade", up.undo}, func() error { return up.ChartOptions.check(up.Common) }, up.prepare)
}

func (up *Upgrade) prepare(s *preflight.Session, c *connect.Client) (*Operation, error) {
	state, found, err := loadRelease(s, "upgrade")
	switch {
	case err != nil:
		return nil, wrapUnlessRefused(up.Common, "upgrade", up.explainForbiddenWithPlan(s, err))
	case !found && !up.Install:
		return nil, &release.NotFound{Name: up.Release, Namespace: up.Namespace, Advice: "add --install to install it"}
	case !found:
		return up.install(s, c, nil)
	}
	switch {
	case up.Install && state.Last.Info.Status == rcommon.StatusUninstalled:
		return up.install(s, c, state)
	case state.Current.Info.Status == rcommon.StatusUninstalled: // nothing is deployed
		return nil, fmt.Errorf("release %s is uninstalled (revision %d); add --install to install it again", up.Release, state.Current.Version)
	case up.Install && resumable(state.Revisions):
		if up.Values, err = up.reusedValues(state.Last); err != nil {
			return nil, err
		}
		return up.install(s, c, state)
	}
	p, incoming, err := up.plan(s, state)
	if err != nil {
		return nil, err
	}
	if p, err = s.Check(p, incoming); err != nil {
		return nil, err
	}
	op := newOperation(c, task{prepared: p, do: up.run})
	op.editOptions = up
	op.rollback = up.undo(p, state)
	return op, nil
}

// undo returns the rollback of the upgrade, nil if there is nothing to roll back to.
func (up *Upgrade) undo(p *preflight.Prepared, state *releaseState) *rollbackPlan {
	switch goodRevision := state.goodRevision(); {
	case goodRevision > 0:
		return up.rollbackPlan(p, state, goodRevision)
	case state.start != nil: // this run has installed it
		return rollbackByUninstall(p)
	}
	return nil
}

// plan renders the chart and plans the upgrade (R30).
func (up *Upgrade) plan(s *preflight.Session, state *releaseState) (*preflight.Prepared, *preflight.Incoming, error) {
	r, err := dryRun(s, up.Chart.Name(), up.dryRun)
	if err != nil {
		return nil, nil, err
	}
	values := up.treeValues(state.Revisions, r.release)
	target, err := up.newTarget(s, values)
	if err != nil {
		return nil, nil, err
	}
	onServer := serverSide(up.ServerSide, r.release)
	target.Release = r.release
	target.Outputs = r.outputs
	target.ClientSide = !onServer
	target.Migrate = state.Current.ApplyMethod != string(rel1.ApplyMethodServerSideApply) // also Helm 3, which records no method
	tree, treeWarnings, err := up.Chart.Tree(values)
	if err != nil {
		return nil, nil, err
	}
	if up.Provided != nil && !onServer { // the releases of a helmfile share the flag; client-side apply has no conflicts
		up.ForceConflicts, target.Force = false, false
	}
	if err := checkForce(up.ForceReplace, up.ForceConflicts, onServer); err != nil {
		return nil, nil, err
	}
	old, oldObjects, oldWarnings, err := readRevision(s.Context, r.builder, state.Current)
	if err != nil {
		return nil, nil, err
	}
	if target.Claims, err = state.claims(up.Common, r.builder, r.release, up.TakeOwnership); err != nil {
		return nil, nil, err
	}
	target.Claims.Hooks = target.Claims.AdoptHooks(r.builder, r.list)
	conflicts := preflight.CheckOwners(r.builder, r.list, target.Claims)
	info := s.Info("upgrade", r.release)
	info.PreviousRevision = state.goodRevision()
	inferred, tree, orderWarnings, err := up.inferOrder(up.Common, tree, r)
	if err != nil {
		return nil, nil, err
	}
	r.warnings = slices.Concat(treeWarnings, r.warnings, oldWarnings, orderWarnings)
	return planInput{
		state: state, inferredOrder: inferred, rendered: r, target: target, old: old, oldObjects: oldObjects,
		otherRevisions: state.Others(state.Current), prelude: target.CRDs.Phases(), conflicts: conflicts,
		hooks: hookEvents(up.NoHooks, rel1.HookPreUpgrade, rel1.HookPostUpgrade),
	}.planRevision(s, info, tree)
}

// newTarget returns the settings of the target, without the rendered chart. The values decide which subcharts are enabled.
func (up *Upgrade) newTarget(s *preflight.Session, values map[string]any) (target preflight.Target, err error) {
	target = preflight.Target{Method: helmclient.Method{Force: up.ForceConflicts, Replace: up.ForceReplace, Adopts: true}}
	if !up.UpgradeCRDs {
		return target, nil
	}
	if target.CRDs, err = up.crds(values, true, false); err != nil {
		return target, err
	}
	return target, s.CheckCRDs(target.CRDs)
}

// asInstall converts the options to those of an install.
func (up *Upgrade) asInstall() Install {
	return Install{
		Common: up.Common, ChartOptions: up.ChartOptions, CreateNamespace: up.CreateNamespace,
		ClientSide: up.ServerSide == "false", upgradeCRDs: up.UpgradeCRDs,
	}
}

// install plans the upgrade as an install, because nothing is deployed. Edits of it start from the options of the upgrade.
func (up *Upgrade) install(s *preflight.Session, c *connect.Client, state *releaseState) (*Operation, error) {
	in := up.asInstall()
	in.Replace = state != nil
	if err := in.check(); err != nil {
		return nil, err
	}
	p, err := in.newPlanInput(s)
	if err != nil {
		return nil, err
	}
	return in.planOperation(s, c, p, state, up)
}

// explainForbiddenWithPlan is like explainForbidden. If the chart can be planned, the error also names the permissions that
// its objects need and the user lacks.
func (up *Upgrade) explainForbiddenWithPlan(s *preflight.Session, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	in := up.asInstall()
	p, planErr := in.newPlanInput(s)
	if planErr != nil {
		return explainForbidden(s, "upgrade", err)
	}
	return in.explainForbiddenWithPlan(s, "upgrade", p, err)
}

// asUpgrade converts the options to those of an upgrade. Edits of the install start from them.
func (in *Install) asUpgrade() *Upgrade {
	up := &Upgrade{
		Common: in.Common, ChartOptions: in.ChartOptions, Install: true, CreateNamespace: in.CreateNamespace,
		ServerSide: "true", UpgradeCRDs: in.upgradeCRDs,
	}
	if in.ClientSide {
		up.ServerSide = "false"
	}
	return up
}

// reusedValues returns the values for an install that continues from a failed revision (R50). It reuses that
// revision's values as an upgrade with the same flags would.
func (up *Upgrade) reusedValues(failed *rel1.Release) (map[string]any, error) {
	switch {
	case up.ResetValues:
		return up.Values, nil
	case up.ReuseValues:
		old, err := chartcommon.CoalesceValues(failed.Chart, failed.Config)
		if err != nil {
			return nil, fmt.Errorf("reuse the values of revision %d: %w", failed.Version, err)
		}
		return chartcommon.CoalesceTables(charts.CopyValues(up.Values), old), nil
	case up.ResetThenReuseValues, len(up.Values) == 0:
		return chartcommon.CoalesceTables(charts.CopyValues(up.Values), failed.Config), nil
	}
	return up.Values, nil
}

// treeValues returns the values that decide conditions of subcharts: those of the release. With --reuse-values they are
// merged over the defaults of the old chart, as in Helm.
func (up *Upgrade) treeValues(revs *release.Revisions, rel *rel1.Release) map[string]any {
	if !up.ReuseValues {
		return rel.Config
	}
	old, err := chartcommon.CoalesceValues(revs.Current.Chart, revs.Current.Config)
	if err != nil {
		return rel.Config
	}
	return chartcommon.CoalesceTables(charts.CopyValues(rel.Config), old)
}

// action returns Helm's upgrade action.
func (up *Upgrade) action(cfg *action.Configuration) *action.Upgrade {
	u := action.NewUpgrade(cfg)
	u.Install = up.Install
	u.Namespace = up.Namespace
	u.WaitStrategy = up.WaitStrategy()
	u.WaitForJobs = up.WaitForJobs == plan.AllJobs
	u.Timeout = up.Timeout
	u.DisableHooks = up.NoHooks
	u.SkipCRDs = true
	u.ForceConflicts = up.ForceConflicts
	u.ForceReplace = up.ForceReplace
	u.TakeOwnership = up.TakeOwnership
	if up.ServerSide != "" {
		u.ServerSideApply = up.ServerSide
	}
	u.ReuseValues = up.ReuseValues
	u.ResetValues = up.ResetValues
	u.ResetThenReuseValues = up.ResetThenReuseValues
	u.MaxHistory = up.HistoryMax
	u.CleanupOnFail = up.CleanupOnFail
	u.DisableOpenAPIValidation = up.DisableOpenAPIValidation
	u.SkipSchemaValidation = up.SkipSchemaValidation
	u.EnableDNS = up.EnableDNS
	u.SubNotes = up.SubNotes
	u.HideNotes = up.HideNotes
	u.Description = up.Description
	u.Labels = up.labels()
	u.PostRenderer = up.PostRenderer
	if up.PostRenderStrategy != "" {
		u.PostRenderStrategy = up.PostRenderStrategy
	}
	return u
}

// StackLabel is the label of a named stack on its release records (S10).
const StackLabel = "lockstep/stack"

// labels returns the labels for Helm's upgrade, which copies those of the revision before it. The label of a stack is not
// copied, because it says that the stack created the revision: Helm removes a label that is null.
func (up *Upgrade) labels() map[string]string {
	all := map[string]string{StackLabel: "null"}
	maps.Copy(all, up.Labels)
	return all
}

func (up *Upgrade) dryRun(ctx context.Context, cfg *action.Configuration) (*rel1.Release, charts.Outputs, error) {
	u := up.action(cfg)
	u.DryRunStrategy = action.DryRunServer
	u.TakeOwnership = true // Helm stops at the first conflict; CheckOwners reports all
	return up.render(ctx, cfg, func(c *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		return u.RunWithContext(ctx, up.Release, c, values)
	})
}

// run runs the upgrade.
//
// Rule R30: the new plan in order, then removals in reverse order of the old plan.
func (up *Upgrade) run(a *attempt) (*rel1.Release, error) {
	if err := a.runPrelude(a.op.prepared.Target); err != nil {
		return nil, err
	}
	u := up.action(a.helm.Config)
	u.TakeOwnership = u.TakeOwnership || a.op.prepared.Target.Claims.Hooks // Helm would refuse what was created as a hook
	rel, err := up.runWithCachedOutputs(a, func(c *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		return u.RunWithContext(context.Background(), up.Release, c, values)
	})
	if err == nil {
		err = a.confirmReady()
	}
	if up.CleanupOnFail && a.unready != nil { // Helm does not clean up after an error of the record
		a.client.DeleteCreated()
	}
	return rel, err
}

// rollbackPlan returns the rollback of the upgrade to a good revision (R33). Helm itself may choose a failed one.
func (up *Upgrade) rollbackPlan(p *preflight.Prepared, state *releaseState, goodRevision int) *rollbackPlan {
	info := p.Info
	info.Name = "rollback"
	info.ToRevision = goodRevision
	info.PreviousRevision = 0
	rb := Rollback{
		Common: p.Common, Revision: goodRevision, ForceConflicts: up.ForceConflicts,
		ForceReplace: up.ForceReplace, ServerSide: up.ServerSide, TakeOwnership: up.TakeOwnership,
	}
	plan := &rollbackPlan{info, rb.prepareRollback, nil, hookEvents(up.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback)}
	if i := slices.IndexFunc(state.All, func(rel *rel1.Release) bool { return rel.Version == goodRevision }); i >= 0 {
		plan.target = state.All[i]
	}
	return plan
}
