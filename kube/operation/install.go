package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmrelease "helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/preflight"
	"lockstep/kube/session"
)

// PrepareInstall checks and plans an install. It does not change the release.
func PrepareInstall(ctx context.Context, c *connect.Client, d Deploy) (*Operation, error) {
	d.Install = true // an edit is an upgrade that installs what the run has not installed yet
	if d.ServerSide != "false" {
		d.ServerSide = "true"
	}
	return d.prepare(ctx, c, "install", d.checkInstall, d.prepareInstall)
}

func (d *Deploy) prepareInstall(s *session.Session, c *connect.Client) (*Operation, error) {
	p, err := d.newPlanInput(s)
	if err != nil {
		return nil, err
	}
	state, _, err := loadRelease(s, "install")
	if err != nil {
		return nil, wrapUnlessRefused(d.Common, "install", d.explainForbiddenWithPlan(s, "install", err))
	}
	if state != nil && testsLeft(d.Common, state.Last) {
		return d.planTestsLeft(s, c, state, "install")
	}
	return d.planInstall(s, c, p, state, d)
}

// checkInstall runs the checks of an install that need no cluster.
func (d *Deploy) checkInstall() error {
	if err := charts.CheckReleaseName(d.Release); err != nil {
		return err
	}
	if err := d.checkChart(); err != nil {
		return err
	}
	_, _, err := d.Chart.Tree(d.Values)
	return err
}

// planInstall renders, plans and checks the install. state is nil if the release does not exist. Edits (R46) start from
// editOptions.
func (d *Deploy) planInstall(s *session.Session, c *connect.Client, p planInput, state *releaseState, editOptions *Deploy) (*Operation, error) {
	if state != nil && resumable(state.Revisions) {
		d.Replace = true
	}
	revision, err := d.revision(s, state)
	if err != nil {
		return nil, err
	}
	p.state = state
	info, tree, err := d.renderInto(s, &p)
	if err != nil {
		return nil, err
	}
	info.Revision = revision
	p.target.MergeCustom = d.TakeOwnership || state.lastFailed() // see run
	if state.lastFailed() {
		p.otherRevisions = state.Others(nil)
	}
	prepared, incoming, err := p.planRevision(s, info, tree)
	if err != nil {
		return nil, err
	}
	if prepared, err = preflight.Check(s, prepared, incoming); err != nil {
		return nil, err
	}
	op := newOperation(c, d.task(prepared, d.runInstall))
	op.rollback = rollbackByUninstall(prepared)
	op.editOptions = editOptions
	return op, nil
}

// renderInto renders the chart and adds the result to p, which has no state if the release cannot be read.
func (d *Deploy) renderInto(s *session.Session, p *planInput) (info event.Operation, tree *plan.Chart, err error) {
	tree, warnings, err := d.Chart.Tree(d.Values)
	if err != nil {
		return info, nil, err
	}
	r, err := dryRun(s, d.Chart.Name(), d.dryRunInstall, p.target.CRDs.Docs...)
	if err != nil {
		return info, nil, err
	}
	// An install replaces only objects that it takes over.
	if err := checkForce(d.ForceReplace && d.TakeOwnership, d.ForceConflicts, d.ServerSide != "false"); err != nil {
		return info, nil, err
	}
	r.warnings = slices.Concat(warnings, p.crdWarnings, r.warnings)
	if tree, err = d.addRendered(p, r, tree); err != nil {
		return info, nil, err
	}
	p.hooks, p.tests = hookEvents(d.NoHooks, rel1.HookPreInstall, rel1.HookPostInstall), d.Test
	info = s.Info("install", r.release)
	info.Source = d.Source
	return info, tree, nil
}

// explainForbiddenWithPlan is like explainForbidden. If the chart can be planned as an install, the error also names the
// permissions that its objects need and the user lacks.
func (d *Deploy) explainForbiddenWithPlan(s *session.Session, operation string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if p, planErr := d.newPlanInput(s); planErr == nil {
		if info, tree, planErr := d.renderInto(s, &p); planErr == nil {
			if prepared, incoming, planErr := p.planRevision(s, info, tree); planErr == nil {
				prepared.Info.Name = operation
				return preflight.Refuse(s, prepared, incoming, err)
			}
		}
	}
	return explainForbidden(s, operation, err)
}

// newPlanInput returns the input of the plan without the rendered chart: the target's settings, and the phases for the
// namespace and crds/.
func (d *Deploy) newPlanInput(s *session.Session) (p planInput, err error) {
	clientSide := d.ServerSide == "false"
	t := session.Target{Method: helmclient.Method{
		ClientSide: clientSide, Replace: d.ForceReplace, Force: d.ForceConflicts, Migrate: true, Adopts: true,
	}}
	if t.CRDs, err = d.crds(d.Values, clientSide); err != nil {
		return p, err
	}
	crds, err := preflight.CheckCRDs(s, &t.CRDs)
	if err != nil {
		return p, err
	}
	p.conflicts, p.crdWarnings = crds.Conflicts, crds.Warnings
	if t.NewNamespace, err = preflight.WaitForNamespace(s, d.CreateNamespace); err != nil {
		return p, err
	}
	if t.NewNamespace {
		p.prelude = append(p.prelude, session.NamespacePhase(d.Namespace))
	}
	p.target = t
	p.prelude = append(p.prelude, t.CRDs.Phases()...)
	return p, nil
}

func (d *Deploy) dryRunInstall(ctx context.Context, cfg *action.Configuration) (*rel1.Release, charts.Outputs, error) {
	return d.render(ctx, cfg, d.helmInstall(ctx, cfg, action.DryRunServer, true)) // CheckOwners reports all conflicts, Helm only the first
}

// helmInstall returns Helm's install action, without crds/ and the namespace, which are phases of the run. adopt makes it
// take over existing objects.
func (d *Deploy) helmInstall(ctx context.Context, cfg *action.Configuration, dryRun action.DryRunStrategy, adopt bool) helmAction {
	i := action.NewInstall(cfg)
	i.DryRunStrategy = dryRun
	i.ReleaseName = d.Release
	i.Namespace = d.Namespace
	i.WaitStrategy = d.WaitStrategy()
	i.WaitForJobs = d.WaitForJobs == plan.AllJobs
	i.Timeout = d.Timeout
	i.DisableHooks = d.NoHooks
	i.SkipCRDs = true
	i.ServerSideApply = d.ServerSide != "false"
	i.ForceConflicts = d.ForceConflicts
	i.ForceReplace = d.ForceReplace
	i.TakeOwnership = d.TakeOwnership || adopt
	i.Replace = d.Replace
	i.DisableOpenAPIValidation = d.DisableOpenAPIValidation
	i.SkipSchemaValidation = d.SkipSchemaValidation
	i.EnableDNS = d.EnableDNS
	i.SubNotes = d.SubNotes
	i.HideNotes = d.HideNotes
	i.Description = d.Description
	i.Labels = d.Labels
	i.PostRenderer = d.PostRenderer
	i.PostRenderStrategy = cmp.Or(d.PostRenderStrategy, i.PostRenderStrategy)
	return func(c *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		return i.RunWithContext(ctx, c, values)
	}
}

// runInstall runs the install.
//
// Rule R29: the namespace, crds/, pre-install hooks, groups, post-install hooks.
func (d *Deploy) runInstall(a *attempt) (*rel1.Release, error) {
	if err := a.runPrelude(a.op.prepared.Target); err != nil {
		return nil, err
	}
	adopt := a.op.prepared.Target.Claims.Hooks // Helm would refuse what was created as a hook
	return d.runWithCachedOutputs(a, d.helmInstall(context.Background(), a.helm.Config, action.DryRunNone, adopt))
}

// rollbackByUninstall returns the rollback of an install: an uninstall (R33).
func rollbackByUninstall(p *session.Prepared) *rollbackPlan {
	info := p.Info
	info.Name = "uninstall"
	u := Uninstall{Common: p.Common}
	return &rollbackPlan{info, u.prepareRollback, p.Target.Release, u.hookEvents(p.Target.Release)}
}

// revision returns the number of the revision to create: 1, or the next one after a failed install, a failed uninstall,
// or an uninstall that kept the history. As in Helm, it returns an error if the name is in use.
func (d *Deploy) revision(s *session.Session, state *releaseState) (int, error) {
	if state == nil {
		return 1, nil
	}
	last := state.Last
	status, deployed := last.Info.Status, state.Current.Info.Status == rcommon.StatusDeployed
	if d.Replace && !deployed && (status == rcommon.StatusUninstalled || status == rcommon.StatusFailed) {
		return last.Version + 1, nil
	}
	inUse := fmt.Sprintf("release name %s is in use in namespace %s (revision %d, %s)", d.Release, last.Namespace, last.Version, status)
	if status == rcommon.StatusDeployed && killedBeforeUnlock(s, "install") {
		if err := s.Lease.DeleteStale(s.Context, s.Client.Leases(d.Namespace)); err != nil {
			return 0, fmt.Errorf("release %s: delete the lock of a killed run: %w", d.Release, err)
		}
		return 0, fmt.Errorf("%s: already deployed by a run that was killed before it could unlock the release (%s); nothing to do",
			inUse, s.Lease.Holder)
	}
	if status == rcommon.StatusUninstalled {
		return 0, fmt.Errorf("%s: install it again with --replace, or choose another name", inUse)
	}
	return 0, fmt.Errorf("%s: upgrade it, or choose another name", inUse)
}
