package kube

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/postrenderer"
	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// Rendering is what an installation and an upgrade share. The names are those
// of Helm's flags.
type Rendering struct {
	Chart  *charts.Chart
	Values map[string]any

	SkipCRDs                 bool
	TakeOwnership            bool
	ForceConflicts           bool
	ForceReplace             bool
	DisableOpenAPIValidation bool
	SkipSchemaValidation     bool
	EnableDNS                bool
	SubNotes, HideNotes      bool
	Description              string
	Labels                   map[string]string
	PostRenderer             postrenderer.PostRenderer
	PostRenderStrategy       action.PostRenderStrategy
}

// Install is what to install.
type Install struct {
	Common
	Rendering
	CreateNamespace bool
	ClientSide      bool // apply on the client instead of the server
	Replace         bool

	upgradeCRDs bool // of an upgrade that installs
}

// PrepareInstall checks an installation and plans it. It writes nothing; an
// error means that nothing would be written.
func (c *Client) PrepareInstall(ctx context.Context, in Install) (*Operation, error) {
	if err := in.complete(c.Namespace()); err != nil {
		return nil, err
	}
	if err := chartutil.ValidateReleaseName(in.Release); err != nil {
		return nil, fmt.Errorf("release name %q: %w", in.Release, err)
	}
	if err := in.Chart.Check(); err != nil {
		return nil, err
	}
	tree, warnings, err := in.Chart.Tree(in.Values)
	if err != nil {
		return nil, err
	}
	p, err := c.planner(in.Common, in.Chart.Name())
	if err != nil {
		return nil, err
	}
	if err := p.checkCRDs(ctx, in.crdUse()); err != nil {
		return nil, err
	}
	newNamespace, err := c.checkNamespace(ctx, in.Namespace, in.CreateNamespace)
	if err != nil {
		return nil, err
	}
	revision, err := firstRevision(p, in.Release, in.Replace)
	if err != nil {
		return nil, err
	}
	rel, err := in.render(ctx, p)
	if err != nil {
		return nil, err
	}
	op := c.operation("install", in.Common, rel)
	op.info.Revision = revision
	op.crds, op.force = in.crdUse(), in.ForceConflicts
	if err := checkForce(in.ForceReplace && in.TakeOwnership, in.ForceConflicts, !in.ClientSide); err != nil {
		return nil, err
	}
	if op.phases, err = in.phases(p, rel, tree, newNamespace); err != nil {
		return nil, err
	}
	if err := op.deploys(ctx, p, tree, warnings); err != nil {
		return nil, err
	}
	op.do = func(p *pass) (*rel1.Release, error) { return in.run(p, tree, newNamespace) }
	op.undo = op.undoInstall
	return op, nil
}

// render asks Helm for a dry run: it renders with what the server can do,
// looks who owns the objects that are there, and writes nothing.
func (in *Install) render(ctx context.Context, p *pass) (*rel1.Release, error) {
	i, err := in.action(p)
	if err != nil {
		return nil, err
	}
	i.DryRunStrategy = action.DryRunServer
	return in.with(p, func(chart *chart.Chart, values map[string]any) (release.Releaser, error) {
		return i.RunWithContext(ctx, chart, values)
	})
}

// action is Helm's install action with our options. crds/ and the namespace
// are not left to it: they are units of the run.
func (in *Install) action(p *pass) (*action.Install, error) {
	ws, err := waitStrategy(in.Wait)
	if err != nil {
		return nil, err
	}
	i := action.NewInstall(p.cfg)
	i.ReleaseName, i.Namespace = in.Release, in.Namespace
	i.WaitStrategy, i.WaitForJobs, i.Timeout = ws, in.WaitForJobs, in.Timeout
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
	return i, nil
}

// run carries the installation out: R29.
func (in *Install) run(p *pass, tree *plan.Chart, newNamespace bool) (*rel1.Release, error) {
	p.ord.tree = tree
	if newNamespace {
		if err := p.createNamespace(in.Namespace); err != nil {
			return nil, err
		}
	}
	if err := p.applyCRDs(in.crdUse()); err != nil {
		return nil, err
	}
	if err := p.admitFirst(); err != nil {
		return nil, err
	}
	p.expectHooks(in.NoHooks, rel1.HookPreInstall, rel1.HookPostInstall)
	i, err := in.action(p)
	if err != nil {
		return nil, err
	}
	return in.with(p, func(chart *chart.Chart, values map[string]any) (release.Releaser, error) {
		return i.RunWithContext(context.Background(), chart, values)
	})
}

// undoInstall is the rollback of a first install: to uninstall (R33).
func (op *Operation) undoInstall() (event.Operation, func(*pass) error) {
	info := op.info
	info.Name, info.Timeout = "uninstall", op.common.Timeout
	return info, func(p *pass) error {
		u := Uninstall{Common: op.common}
		return u.run(p)
	}
}

// crdUse is what an installation does with crds/.
func (in *Install) crdUse() crdUse {
	if in.SkipCRDs {
		return crdUse{}
	}
	return crdUse{chart: in.Chart, upgrade: in.upgradeCRDs, force: in.ForceConflicts}
}

// firstRevision is the revision that an installation makes: 1, or where it
// replaces what was uninstalled with its history kept the next one. As in Helm
// it is an error where the name is in use.
func firstRevision(p *pass, name string, replace bool) (int, error) {
	last, err := p.cfg.Releases.Last(name)
	if errors.Is(err, driver.ErrReleaseNotFound) || last == nil {
		return 1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for release %s: %w", name, err)
	}
	rel, err := asV1(last)
	if err != nil {
		return 0, err
	}
	st := rel.Info.Status
	if replace && (st == rcommon.StatusUninstalled || st == rcommon.StatusFailed) {
		return rel.Version + 1, nil
	}
	instead := "use upgrade, or another name"
	if st.IsPending() || st == rcommon.StatusUninstalling {
		instead = "another operation is under way, or one was cut off: uninstall it to begin anew, or use another name"
	}
	return 0, fmt.Errorf("release name %s is in use in namespace %s (revision %d, %s): %s", name, rel.Namespace, rel.Version, st, instead)
}

func asV1(r release.Releaser) (*rel1.Release, error) {
	rel, ok := r.(*rel1.Release)
	if !ok {
		return nil, fmt.Errorf("read release: unexpected type %T", r)
	}
	return rel, nil
}

// phases lists what will run (R29).
func (in *Install) phases(p *pass, rel *rel1.Release, tree *plan.Chart, newNamespace bool) ([]event.Phase, error) {
	var phases []event.Phase
	if newNamespace {
		phases = append(phases, namespacePhase(in.Namespace))
	}
	crds, err := crdPhase(in.crdUse())
	if err != nil {
		return nil, err
	}
	phases = append(phases, crds...)
	if err := p.ord.scopeHooks(tree, rel, in.NoHooks, rel1.HookPreInstall, rel1.HookPostInstall); err != nil {
		return nil, err
	}
	apply, err := p.ord.applyPhase(tree, p.ord.last())
	if err != nil {
		return nil, err
	}
	return append(phases, p.aroundHooks(rel, in.NoHooks, rel1.HookPreInstall, rel1.HookPostInstall, apply)...), nil
}
