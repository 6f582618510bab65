package operation

import (
	"context"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmkube "helm.sh/helm/v4/pkg/kube"
	helmrelease "helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/preflight"
)

// Install holds the options of an install.
type Install struct {
	Common
	Rendering
	CreateNamespace bool
	ClientSide      bool // apply on the client instead of the server
	Replace         bool

	upgradeCRDs bool // set by an upgrade that installs
}

// PrepareInstall checks and plans an install. It writes nothing.
func PrepareInstall(ctx context.Context, c *connect.Client, in Install) (*Operation, error) {
	in.PostRenderer = charts.PostRenderOnce(in.PostRenderer)
	return prepare(ctx, c, &in.Common, in.check, in.prepare)
}

func (in *Install) prepare(s *preflight.Session, c *connect.Client) (*Operation, error) {
	p, err := in.newPlanning(s)
	if err != nil {
		return nil, err
	}
	state, _, err := loadRelease(s)
	if err != nil {
		return nil, fmt.Errorf("install %s in namespace %s: %w", in.Release, in.Namespace, in.explainForbiddenWithPlan(s, "install", p, err))
	}
	return in.planOperation(s, c, p, state, in.asUpgrade())
}

// check makes the checks that need no cluster.
func (in *Install) check() error {
	if err := charts.CheckReleaseName(in.Release); err != nil {
		return err
	}
	if err := in.Rendering.check(in.Common); err != nil {
		return err
	}
	_, _, err := in.Chart.Tree(in.Values)
	return err
}

// planOperation plans the install of a release and makes the last checks. state is nil if there
// is no release. Edits (R46) start from edit.
func (in *Install) planOperation(s *preflight.Session, c *connect.Client, p planning, state *releaseState, edit *Upgrade) (*Operation, error) {
	revision, err := in.revision(s, state)
	if err != nil {
		return nil, err
	}
	info, tree, err := in.plan(s, &p, state)
	if err != nil {
		return nil, err
	}
	info.Revision = revision
	p.state = state
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
	return newOperation(c, prepared, tasks{main: task{spec{prepared: prepared}, in.run}, rollback: in.rollbackPlan(prepared), edit: edit}), nil
}

// plan renders the chart and infers the order. It uses state only for the objects of a failed
// attempt; state is nil if the release does not exist or cannot be read.
func (in *Install) plan(s *preflight.Session, p *planning, state *releaseState) (info event.Operation, tree *plan.Chart, err error) {
	tree, warnings, err := in.Chart.Tree(in.Values)
	if err != nil {
		return info, nil, err
	}
	r, err := dryRun(s, in.Chart.Name(), in.dryRun)
	if err != nil {
		return info, nil, err
	}
	if err := checkForce(in.ForceReplace && in.TakeOwnership, in.ForceConflicts, !in.ClientSide); err != nil {
		return info, nil, err
	}
	var more []plan.Warning
	if p.inferredOrder, tree, more, err = in.inferOrder(in.Common, tree, r); err != nil {
		return info, nil, err
	}
	r.warnings = slices.Concat(warnings, r.warnings, more)
	if p.refused, err = in.conflicts(r, state); err != nil {
		return info, nil, err
	}
	p.rendered, p.target.Release, p.target.Outputs = r, r.release, r.outputs
	p.hooks = hookEvents(in.NoHooks, rel1.HookPreInstall, rel1.HookPostInstall)
	return s.Info("install", r.release), tree, nil
}

// explainForbiddenWithPlan is like explainForbidden, but also names the missing rights for the chart's objects if
// the chart can be planned.
func (in *Install) explainForbiddenWithPlan(s *preflight.Session, operation string, p planning, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if info, tree, planErr := in.plan(s, &p, nil); planErr == nil {
		if prepared, incoming, planErr := p.planRevision(s, info, tree); planErr == nil {
			prepared.Info.Name = operation
			return s.Refuse(prepared, incoming, err)
		}
	}
	return explainForbidden(s, operation, err)
}

// newPlanning returns a planning with everything but the rendered chart: the target's settings
// and the phases for the namespace and crds/.
func (in *Install) newPlanning(s *preflight.Session) (p planning, err error) {
	t := preflight.Target{CRDs: in.crds(in.upgradeCRDs), Force: in.ForceConflicts, ClientSide: in.ClientSide, Replace: in.ForceReplace}
	if err := s.CheckCRDs(t.CRDs); err != nil {
		return p, err
	}
	if t.NewNamespace, err = s.AwaitNamespace(in.CreateNamespace); err != nil {
		return p, err
	}
	if t.NewNamespace {
		p.prelude = append(p.prelude, preflight.NamespacePhase(in.Namespace))
	}
	crds, err := t.CRDs.Phases()
	p.target, p.prelude = t, append(p.prelude, crds...)
	return p, err
}

// conflicts returns a refusal for each existing object that the release does not own. As in
// Helm's upgrade --install, the release owns the objects of its failed attempt.
func (in *Install) conflicts(r *rendered, state *releaseState) ([]plan.Warning, error) {
	if in.TakeOwnership {
		return nil, nil
	}
	var owned helmkube.ResourceList
	if state.lastFailed() {
		var err error
		if owned, err = buildRevision(r.builder, state.Last); err != nil {
			return nil, err
		}
	}
	return preflight.CheckOwners(r.builder, r.list, owned), nil
}

func (in *Install) dryRun(ctx context.Context, cfg *action.Configuration) (*rel1.Release, charts.Outputs, error) {
	i := in.action(cfg)
	i.DryRunStrategy = action.DryRunServer
	i.TakeOwnership = true // Helm stops at the first conflict; CheckOwners reports all
	return in.render(ctx, cfg, func(chart *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		return i.RunWithContext(ctx, chart, values)
	})
}

// action returns Helm's install action with our options, except for crds/ and the namespace,
// which are units of the run.
func (in *Install) action(cfg *action.Configuration) *action.Install {
	i := action.NewInstall(cfg)
	i.ReleaseName, i.Namespace = in.Release, in.Namespace
	i.WaitStrategy, i.WaitForJobs, i.Timeout = in.Strategy(), in.WaitForJobs, in.Timeout
	i.DisableHooks, i.SkipCRDs = in.NoHooks, true
	i.ServerSideApply, i.ForceConflicts, i.ForceReplace = !in.ClientSide, in.ForceConflicts, in.ForceReplace
	i.TakeOwnership, i.Replace = in.TakeOwnership, in.Replace
	i.DisableOpenAPIValidation, i.SkipSchemaValidation, i.EnableDNS = in.DisableOpenAPIValidation, in.SkipSchemaValidation, in.EnableDNS
	i.SubNotes, i.HideNotes = in.SubNotes, in.HideNotes
	i.Description, i.Labels = in.Description, in.Labels
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
	if err := a.prelude(a.op.prepared.Target); err != nil {
		return nil, err
	}
	i := in.action(a.helm.Config)
	i.TakeOwnership = i.TakeOwnership || a.op.prepared.Resumes // Helm's install does not know the failed attempt; see conflicts
	return in.execute(a, func(chart *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		return i.RunWithContext(context.Background(), chart, values)
	})
}

// rollbackPlan returns the rollback of a first install, which is to uninstall (R33).
func (in *Install) rollbackPlan(p *preflight.Prepared) *rollbackPlan {
	info := p.Info
	info.Name, info.Timeout = "uninstall", p.Common.Timeout
	u := Uninstall{Common: p.Common}
	return &rollbackPlan{info, u.prepareRollback}
}

// revision returns the revision to create: 1, or the next one after a failed install or an
// uninstall that kept the history. As in Helm, it returns an error if the name is in use.
func (in *Install) revision(s *preflight.Session, state *releaseState) (int, error) {
	if state == nil {
		return 1, nil
	}
	last := state.Last
	status, deployed := last.Info.Status, state.Current.Info.Status == rcommon.StatusDeployed
	in.Replace = in.Replace || resumable(state.Revisions)
	if in.Replace && !deployed && (status == rcommon.StatusUninstalled || status == rcommon.StatusFailed) {
		return last.Version + 1, nil
	}
	inUse := fmt.Sprintf("release name %s is in use in namespace %s (revision %d, %s)", in.Release, last.Namespace, last.Version, status)
	if status == rcommon.StatusDeployed && killedBeforeUnlock(s, "install") {
		return 0, fmt.Errorf("%s: already deployed by a run that was killed before it could unlock the release (%s); nothing to do", inUse, s.Lease.Holder)
	}
	return 0, fmt.Errorf("%s: upgrade it, or choose another name", inUse)
}
