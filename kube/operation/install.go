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
	"lockstep/kube/release"
)

// Install are the options of an install.
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
	of, err := in.target(s)
	if err != nil {
		return nil, err
	}
	revs, _, err := findRelease(s)
	if err != nil {
		return nil, fmt.Errorf("install %s in namespace %s: %w", in.Release, in.Namespace, in.readError(s, "install", of, err))
	}
	return in.planOperation(s, c, of, revs, in.asUpgrade())
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

// planOperation plans the install of a release with the revisions revs, nil for none,
// and makes the last checks. Edits (R46) start from edit.
func (in *Install) planOperation(s *preflight.Session, c *connect.Client, of planning, revs *existing, edit *Upgrade) (*Operation, error) {
	revision, err := in.revision(s, revs)
	if err != nil {
		return nil, err
	}
	info, tree, err := in.plan(s, &of, revs)
	if err != nil {
		return nil, err
	}
	info.Revision = revision
	if of.found = revs; revs != nil && revs.Last.Info.Status == rcommon.StatusFailed {
		of.others = revs.Others(nil)
	}
	p, incoming, err := of.planRevision(s, info, tree)
	if err != nil {
		return nil, err
	}
	if p, err = s.Check(p, incoming); err != nil {
		return nil, err
	}
	return newOperation(c, p, method{main: task{newSpec(p), in.run}, undo: undoInstall(p), edit: edit}), nil
}

// plan renders the chart and infers the order. It uses revs only for the objects of a failed
// attempt; revs is nil if the release does not exist or cannot be read.
func (in *Install) plan(s *preflight.Session, of *planning, revs *existing) (info event.Operation, tree *plan.Chart, err error) {
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
	if of.implied, tree, more, err = in.implied(in.Common, tree, r.release, r.builder, r.list); err != nil {
		return info, nil, err
	}
	r.warnings = slices.Concat(warnings, r.warnings, more)
	if of.refused, err = in.conflicts(r, revs); err != nil {
		return info, nil, err
	}
	of.rendered, of.target.Release, of.target.Outputs = r, r.release, r.outputs
	of.events = hookEvents(in.NoHooks, rel1.HookPreInstall, rel1.HookPostInstall)
	return s.Info("install", r.release), tree, nil
}

// readError is like cannotList, but also names the missing rights for the chart's objects if
// the chart can be planned.
func (in *Install) readError(s *preflight.Session, operation string, of planning, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if info, tree, failed := in.plan(s, &of, nil); failed == nil {
		if p, incoming, failed := of.planRevision(s, info, tree); failed == nil {
			p.Info.Name = operation
			return s.Refuse(p, incoming, err)
		}
	}
	return cannotList(s, operation, err)
}

// target returns a planning with everything but the rendered chart: the target's settings
// and the phases for the namespace and crds/.
func (in *Install) target(s *preflight.Session) (of planning, err error) {
	t := preflight.Target{CRDs: in.crds(in.upgradeCRDs), Force: in.ForceConflicts, ClientSide: in.ClientSide, Replace: in.ForceReplace}
	if err := s.CheckCRDs(t.CRDs); err != nil {
		return of, err
	}
	if t.NewNamespace, err = s.AwaitNamespace(in.CreateNamespace); err != nil {
		return of, err
	}
	if t.NewNamespace {
		of.before = append(of.before, preflight.NamespacePhase(in.Namespace))
	}
	crds, err := t.CRDs.Phases()
	of.target, of.before = t, append(of.before, crds...)
	return of, err
}

// conflicts returns a refusal for each existing object that the release does not own. As in
// Helm's upgrade --install, the release owns the objects of its failed attempt.
func (in *Install) conflicts(r *rendered, revs *existing) ([]plan.Warning, error) {
	if in.TakeOwnership {
		return nil, nil
	}
	var had helmkube.ResourceList
	if revs != nil && revs.Last.Info.Status == rcommon.StatusFailed {
		var err error
		if had, err = buildRevision(r.builder, revs.Last); err != nil {
			return nil, err
		}
	}
	return preflight.CheckOwners(r.builder, r.list, had), nil
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

// undoInstall returns the rollback of a first install, which is to uninstall (R33).
func undoInstall(p *preflight.Prepared) *undo {
	info := p.Info
	info.Name, info.Timeout = "uninstall", p.Common.Timeout
	u := Uninstall{Common: p.Common}
	return &undo{info, u.asRollback}
}

// resumable reports whether the last operation was a failed install.
//
// Rule R50: if no revision was ever deployed, an install resumes from the failed one.
func resumable(revs *release.Revisions) bool {
	return revs.Last.Info.Status == rcommon.StatusFailed && revs.Good() == 0
}

// revision returns the revision to create: 1, or the next one after a failed install or an
// uninstall that kept the history. As in Helm, it returns an error if the name is in use.
func (in *Install) revision(s *preflight.Session, revs *existing) (int, error) {
	if revs == nil {
		return 1, nil
	}
	st, deployed := revs.Last.Info.Status, revs.Current.Info.Status == rcommon.StatusDeployed
	in.Replace = in.Replace || resumable(revs.Revisions)
	if in.Replace && !deployed && (st == rcommon.StatusUninstalled || st == rcommon.StatusFailed) {
		return revs.Last.Version + 1, nil
	}
	done := ""
	if st == rcommon.StatusDeployed && killedBeforeUnlock(s, "install") {
		done = fmt.Sprintf("; nothing to install: a run that could not unlock the release deployed it, %s", s.Lease.Holder)
	}
	return 0, fmt.Errorf("release name %s is in use in namespace %s (revision %d, %s): upgrade it, or choose another name%s", in.Release, revs.Last.Namespace, revs.Last.Version, st, done)
}
