package operation

import (
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
)

// Install holds the options of an install.
type Install struct {
	Common
	ChartOptions
	CreateNamespace bool
	ClientSide      bool // use client-side apply
	Replace         bool

	upgradeCRDs bool // set by an upgrade that installs
}

// PrepareInstall checks and plans an install. It does not change the release.
func PrepareInstall(ctx context.Context, c *connect.Client, in Install) (*Operation, error) {
	in.PostRenderer = charts.PostRenderOnce(in.PostRenderer)
	if err := in.continueEdit(in.Common); err != nil {
		return nil, err
	}
	return prepare(ctx, c, &in.Common, ending{"install", in.asUpgrade().undo}, in.check, in.prepare)
}

func (in *Install) prepare(s *preflight.Session, c *connect.Client) (*Operation, error) {
	p, err := in.newPlanInput(s)
	if err != nil {
		return nil, err
	}
	state, _, err := loadRelease(s, "install")
	if err != nil {
		return nil, wrapUnlessRefused(in.Common, "install", in.explainForbiddenWithPlan(s, "install", p, err))
	}
	return in.planOperation(s, c, p, state, in.asUpgrade())
}

// check runs the checks that need no cluster.
func (in *Install) check() error {
	if err := charts.CheckReleaseName(in.Release); err != nil {
		return err
	}
	if err := in.ChartOptions.check(in.Common); err != nil {
		return err
	}
	_, _, err := in.Chart.Tree(in.Values)
	return err
}

// planOperation renders, plans and checks the install. state is nil if the release does not exist. Edits (R46) start from
// editOptions.
func (in *Install) planOperation(s *preflight.Session, c *connect.Client, p planInput, state *releaseState, editOptions *Upgrade) (*Operation, error) {
	if state != nil && resumable(state.Revisions) {
		in.Replace = true
	}
	revision, err := in.revision(s, state)
	if err != nil {
		return nil, err
	}
	info, tree, err := in.renderInto(s, &p, state)
	if err != nil {
		return nil, err
	}
	info.Revision = revision
	p.state = state
	p.target.MergeCustom = in.TakeOwnership || state.lastFailed() // see run
	if state.lastFailed() {
		p.otherRevisions = state.Others(nil)
	}
	prepared, incoming, err := p.planRevision(s, info, tree)
	if err != nil {
		return nil, err
	}
	if prepared, err = s.Check(prepared, incoming); err != nil {
		return nil, err
	}
	op := newOperation(c, task{prepared: prepared, do: in.run})
	op.rollback = rollbackByUninstall(prepared)
	op.editOptions = editOptions
	return op, nil
}

// renderInto renders the chart and adds the result, its inferred order and its conflicts to p. state is nil if the
// release does not exist or cannot be read.
func (in *Install) renderInto(s *preflight.Session, p *planInput, state *releaseState) (info event.Operation, tree *plan.Chart, err error) {
	tree, warnings, err := in.Chart.Tree(in.Values)
	if err != nil {
		return info, nil, err
	}
	r, err := dryRun(s, in.Chart.Name(), in.dryRun, p.target.CRDs.Docs...)
	if err != nil {
		return info, nil, err
	}
	// An install replaces only objects that it takes over.
	if err := checkForce(in.ForceReplace && in.TakeOwnership, in.ForceConflicts, !in.ClientSide); err != nil {
		return info, nil, err
	}
	var more []plan.Warning
	if p.inferredOrder, tree, more, err = in.inferOrder(in.Common, tree, r); err != nil {
		return info, nil, err
	}
	r.warnings = slices.Concat(warnings, r.warnings, more)
	if p.target.Claims, err = state.claims(in.Common, r.builder, r.release, in.TakeOwnership); err != nil {
		return info, nil, err
	}
	p.target.Claims.Hooks = p.target.Claims.AdoptHooks(r.builder, r.list)
	p.conflicts = preflight.CheckOwners(r.builder, r.list, p.target.Claims)
	p.rendered = r
	p.target.Release = r.release
	p.target.Outputs = r.outputs
	p.hooks = hookEvents(in.NoHooks, rel1.HookPreInstall, rel1.HookPostInstall)
	return s.Info("install", r.release), tree, nil
}

// explainForbiddenWithPlan is like explainForbidden. If the chart can be planned, the error also names the permissions that
// its objects need and the user lacks.
func (in *Install) explainForbiddenWithPlan(s *preflight.Session, operation string, p planInput, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if info, tree, planErr := in.renderInto(s, &p, nil); planErr == nil {
		if prepared, incoming, planErr := p.planRevision(s, info, tree); planErr == nil {
			prepared.Info.Name = operation
			return s.Refuse(prepared, incoming, err)
		}
	}
	return explainForbidden(s, operation, err)
}

// newPlanInput returns the input of the plan without the rendered chart: the target's settings, and the phases for the
// namespace and crds/.
func (in *Install) newPlanInput(s *preflight.Session) (p planInput, err error) {
	t := preflight.Target{Method: helmclient.Method{
		ClientSide: in.ClientSide, Replace: in.ForceReplace, Force: in.ForceConflicts, Migrate: true, Adopts: true,
	}}
	if t.CRDs, err = in.crds(in.Values, in.upgradeCRDs, in.ClientSide && !in.upgradeCRDs); err != nil {
		return p, err
	}
	if err := s.CheckCRDs(t.CRDs); err != nil {
		return p, err
	}
	if t.NewNamespace, err = s.WaitForNamespace(in.CreateNamespace); err != nil {
		return p, err
	}
	if t.NewNamespace {
		p.prelude = append(p.prelude, preflight.NamespacePhase(in.Namespace))
	}
	p.target = t
	p.prelude = append(p.prelude, t.CRDs.Phases()...)
	return p, nil
}

func (in *Install) dryRun(ctx context.Context, cfg *action.Configuration) (*rel1.Release, charts.Outputs, error) {
	i := in.action(cfg)
	i.DryRunStrategy = action.DryRunServer
	i.TakeOwnership = true // Helm stops at the first conflict; CheckOwners reports all
	return in.render(ctx, cfg, func(c *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		return i.RunWithContext(ctx, c, values)
	})
}

// action returns Helm's install action, without crds/ and the namespace, which are phases of the run.
func (in *Install) action(cfg *action.Configuration) *action.Install {
	i := action.NewInstall(cfg)
	i.ReleaseName = in.Release
	i.Namespace = in.Namespace
	i.WaitStrategy = in.WaitStrategy()
	i.WaitForJobs = in.WaitForJobs == plan.AllJobs
	i.Timeout = in.Timeout
	i.DisableHooks = in.NoHooks
	i.SkipCRDs = true
	i.ServerSideApply = !in.ClientSide
	i.ForceConflicts = in.ForceConflicts
	i.ForceReplace = in.ForceReplace
	i.TakeOwnership = in.TakeOwnership
	i.Replace = in.Replace
	i.DisableOpenAPIValidation = in.DisableOpenAPIValidation
	i.SkipSchemaValidation = in.SkipSchemaValidation
	i.EnableDNS = in.EnableDNS
	i.SubNotes = in.SubNotes
	i.HideNotes = in.HideNotes
	i.Description = in.Description
	i.Labels = in.Labels
	i.PostRenderer = in.PostRenderer
	if in.PostRenderStrategy != "" {
		i.PostRenderStrategy = in.PostRenderStrategy
	}
	return i
}

// run runs the install.
//
// Rule R29: the namespace, crds/, pre-install hooks, groups, post-install hooks.
func (in *Install) run(a *attempt) (*rel1.Release, error) {
	if err := a.runPrelude(a.op.prepared.Target); err != nil {
		return nil, err
	}
	i := in.action(a.helm.Config)
	i.TakeOwnership = i.TakeOwnership || a.op.prepared.Target.Claims.Hooks // Helm would refuse what was created as a hook
	return in.runWithCachedOutputs(a, func(c *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		return i.RunWithContext(context.Background(), c, values)
	})
}

// rollbackByUninstall returns the rollback of an install: an uninstall (R33).
func rollbackByUninstall(p *preflight.Prepared) *rollbackPlan {
	info := p.Info
	info.Name = "uninstall"
	u := Uninstall{Common: p.Common}
	return &rollbackPlan{info, u.prepareRollback, p.Target.Release, u.hookEvents(p.Target.Release)}
}

// revision returns the number of the revision to create: 1, or the next one after a failed install, a failed uninstall,
// or an uninstall that kept the history. As in Helm, it returns an error if the name is in use.
func (in *Install) revision(s *preflight.Session, state *releaseState) (int, error) {
	if state == nil {
		return 1, nil
	}
	last := state.Last
	status, deployed := last.Info.Status, state.Current.Info.Status == rcommon.StatusDeployed
	if in.Replace && !deployed && (status == rcommon.StatusUninstalled || status == rcommon.StatusFailed) {
		return last.Version + 1, nil
	}
	inUse := fmt.Sprintf("release name %s is in use in namespace %s (revision %d, %s)", in.Release, last.Namespace, last.Version, status)
	if status == rcommon.StatusDeployed && killedBeforeUnlock(s, "install") {
		if err := s.Lease.DeleteStale(s.Context, s.Client.Leases(in.Namespace)); err != nil {
			return 0, fmt.Errorf("release %s: delete the lock of a killed run: %w", in.Release, err)
		}
		return 0, fmt.Errorf("%s: already deployed by a run that was killed before it could unlock the release (%s); nothing to do",
			inUse, s.Lease.Holder)
	}
	if status == rcommon.StatusUninstalled {
		return 0, fmt.Errorf("%s: install it again with --replace, or choose another name", inUse)
	}
	return 0, fmt.Errorf("%s: upgrade it, or choose another name", inUse)
}
