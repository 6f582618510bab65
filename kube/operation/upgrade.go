package operation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	chartcommon "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmrelease "helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/chartvalues"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// Deploy holds the options of an install or an upgrade.
type Deploy struct {
	Common
	ChartOptions
	Install         bool // an upgrade installs the release if it does not exist
	CreateNamespace bool // only for an install
	Replace         bool // an install reuses the name of an uninstalled release
	// ServerSide is "true", "false", or "auto" to apply as the previous revision was applied, an install on the server; "" is
	// "auto".
	ServerSide           string
	ReuseValues          bool
	ResetValues          bool
	ResetThenReuseValues bool
	CleanupOnFail        bool
	HistoryMax           int
}

// setValues makes values the user's values of the revision, instead of what it would reuse.
func (d *Deploy) setValues(values map[string]any) {
	d.Values, d.ResetValues, d.ReuseValues, d.ResetThenReuseValues = values, true, false, false
}

// prepare prepares an install or an upgrade.
func (d *Deploy) prepare(ctx context.Context, c *connect.Client, operation string, check func() error, makePlan planFunc) (*Operation, error) {
	d.PostRenderer = charts.PostRenderOnce(d.PostRenderer, d.Limits)
	return prepare(ctx, c, &d.Common, ending{operation, d.undo}, func() error {
		d.Mask.AddPaths(d.Namespace, d.Release, d.Values, d.SecretPaths)
		if d.NotLoaded != nil {
			return d.NotLoaded
		}
		if err := d.continueEdit(); err != nil {
			return err
		}
		return check()
	}, makePlan)
}

// PrepareUpgrade checks and plans an upgrade. It does not change the release.
func PrepareUpgrade(ctx context.Context, c *connect.Client, d Deploy) (*Operation, error) {
	return d.prepare(ctx, c, "upgrade", d.checkChart, d.prepareUpgrade)
}

func (d *Deploy) prepareUpgrade(s *session.Session, c *connect.Client) (*Operation, error) {
	state, found, err := loadRelease(s, "upgrade")
	switch {
	case err != nil:
		return nil, wrapUnlessRefused(d.Common, "upgrade", d.explainForbiddenWithPlan(s, "upgrade", err))
	case !found && !d.Install:
		return nil, &release.NotFound{Name: d.Release, Namespace: d.Namespace, Advice: "add --install to install it"}
	case !found:
		return d.install(s, c, nil)
	}
	switch {
	case testsLeft(d.Common, state.Last):
		return d.planTestsLeft(s, c, state, "upgrade")
	case d.Install && state.Last.Info.Status == rcommon.StatusUninstalled:
		return d.install(s, c, state)
	case state.Current.Info.Status == rcommon.StatusUninstalled: // nothing is deployed
		return nil, fmt.Errorf("release %s is uninstalled (revision %d); add --install to install it again", d.Release, state.Current.Version)
	case d.Install && resumable(state.Revisions):
		if d.Values, err = d.reusedValues(state.Last); err != nil {
			return nil, err
		}
		return d.install(s, c, state)
	}
	p, incoming, err := d.plan(s, state)
	if err != nil {
		return nil, err
	}
	if err := d.addStackPoints(s, state, p); err != nil {
		return nil, err
	}
	if p, err = preflight.Check(s, p, incoming); err != nil {
		return nil, err
	}
	op := newOperation(c, d.task(p, d.runUpgrade))
	op.editOptions = d
	op.rollback = d.undo(p, state)
	return op, nil
}

// task returns the task of an install or upgrade. It has tests if their phase is planned.
func (d *Deploy) task(p *session.Prepared, do func(*attempt) (*rel1.Release, error)) task {
	hasTests := len(charts.HooksOf(p.Target.Release.Hooks, rel1.HookTest)) > 0
	cleanup := d.CleanupOnFail && p.Info.Name == "upgrade"
	return task{prepared: p, do: do, options: d, tests: d.Test && hasTests, cleanupOnFail: cleanup, reorder: d.reorder}
}

// undo returns the rollback of the upgrade, nil if there is nothing to roll back to.
func (d *Deploy) undo(p *session.Prepared, state *releaseState) *rollbackPlan {
	switch goodRevision := state.goodRevision(); {
	case goodRevision > 0:
		return d.rollbackPlan(p, state, goodRevision)
	case state.start != nil: // this run has installed it
		return rollbackByUninstall(p)
	}
	return nil
}

// plan renders the chart and plans the upgrade (R30).
func (d *Deploy) plan(s *session.Session, state *releaseState) (*session.Prepared, *preflight.Incoming, error) {
	r, err := dryRun(s, d.Chart.Name(), d.dryRunUpgrade)
	if err != nil {
		return nil, nil, err
	}
	values := d.treeValues(state.Revisions, r.release)
	target, crds, err := d.newTarget(s, values)
	if err != nil {
		return nil, nil, err
	}
	onServer := serverSide(d.ServerSide, r.release)
	// Of a failed revision it is not known which objects it has applied: only the live ones tell.
	target.ClientSide, target.MergeCustom = !onServer, state.lastFailed()
	// Helm migrates if the deployed revision was applied client-side (Helm 3 records no method). Objects to take over may have been, too.
	target.Migrate = d.TakeOwnership || state.Current.ApplyMethod != string(rel1.ApplyMethodServerSideApply)
	tree, treeWarnings, err := d.Chart.Tree(values)
	if err != nil {
		return nil, nil, err
	}
	if d.Provided != nil && !onServer { // the releases of a helmfile share the flag; client-side apply has no conflicts
		d.ForceConflicts, target.Force = false, false
	}
	if err := checkForce(d.ForceReplace, d.ForceConflicts, onServer); err != nil {
		return nil, nil, err
	}
	old, _, oldWarnings, err := readRevision(s.Context, r.builder, state.Current)
	if err != nil {
		return nil, nil, err
	}
	r.warnings = slices.Concat(treeWarnings, crds.Warnings, r.warnings, oldWarnings)
	r.warnings = append(r.warnings, unreadOrder(state.Current, "objects that the chart no longer has are deleted all at once, and a rollback to it has no order")...)
	r.warnings = append(r.warnings, chartWarnings(state.Current, r.release)...)
	if d.PlanOnly {
		r.warnings = append(r.warnings, d.valuesWarnings(state.Current, r.release.Config)...)
	}
	p := planInput{
		state: state, target: target, old: old, otherRevisions: state.Others(state.Current), prelude: target.CRDs.Phases(), conflicts: crds.Conflicts,
		hooks: hookEvents(d.NoHooks, rel1.HookPreUpgrade, rel1.HookPostUpgrade), tests: d.Test,
	}
	if tree, err = d.addRendered(&p, r, tree); err != nil {
		return nil, nil, err
	}
	info := s.Info("upgrade", r.release)
	info.Source, info.PreviousRevision, info.PreviousChart = d.Source, state.goodRevision(), session.ChartName(state.Current)
	return p.planRevision(s, info, tree)
}

// newTarget returns the settings of the target, without the rendered chart. The values decide which subcharts are enabled.
func (d *Deploy) newTarget(s *session.Session, values map[string]any) (target session.Target, crds preflight.Findings, err error) {
	target = session.Target{Method: helmclient.Method{Force: d.ForceConflicts, Replace: d.ForceReplace, Adopts: true}}
	if d.CRDs != CRDsUpgrade {
		return target, crds, nil
	}
	if target.CRDs, err = d.crds(values, false); err != nil {
		return target, crds, err
	}
	crds, err = preflight.CheckCRDs(s, &target.CRDs)
	return target, crds, err
}

// install plans the upgrade as an install, because nothing is deployed. Edits of it start from the options of the upgrade.
func (d *Deploy) install(s *session.Session, c *connect.Client, state *releaseState) (*Operation, error) {
	in := *d
	in.Replace = state != nil
	if err := in.checkInstall(); err != nil {
		return nil, err
	}
	p, err := in.newPlanInput(s)
	if err != nil {
		return nil, err
	}
	return in.planInstall(s, c, p, state, d)
}

// reusedValues returns the values for an install that continues from a failed revision (R50). It reuses that
// revision's values as an upgrade with the same flags would.
func (d *Deploy) reusedValues(failed *rel1.Release) (map[string]any, error) {
	switch {
	case d.ResetValues:
		return d.Values, nil
	case d.ReuseValues:
		old, err := chartcommon.CoalesceValues(failed.Chart, failed.Config)
		if err != nil {
			return nil, fmt.Errorf("reuse the values of revision %d: %w", failed.Version, err)
		}
		return chartcommon.CoalesceTables(charts.CopyValues(d.Values), old), nil
	case d.ResetThenReuseValues, len(d.Values) == 0:
		return chartcommon.CoalesceTables(charts.CopyValues(d.Values), failed.Config), nil
	}
	return d.Values, nil
}

// helmUpgrade returns Helm's upgrade action. adopt makes it take over existing objects.
func (d *Deploy) helmUpgrade(ctx context.Context, cfg *action.Configuration, dryRun action.DryRunStrategy, adopt bool) helmAction {
	u := action.NewUpgrade(cfg)
	u.DryRunStrategy = dryRun
	u.Install = d.Install
	u.Namespace = d.Namespace
	u.WaitStrategy = d.WaitStrategy()
	u.WaitForJobs = d.WaitForJobs == plan.AllJobs
	u.Timeout = d.Timeout
	u.DisableHooks = d.NoHooks
	u.SkipCRDs = true
	u.ForceConflicts = d.ForceConflicts
	u.ForceReplace = d.ForceReplace
	u.TakeOwnership = d.TakeOwnership || adopt
	u.ServerSideApply = cmp.Or(d.ServerSide, u.ServerSideApply)
	u.ReuseValues = d.ReuseValues
	u.ResetValues = d.ResetValues
	u.ResetThenReuseValues = d.ResetThenReuseValues
	u.MaxHistory = d.HistoryMax
	u.CleanupOnFail = d.CleanupOnFail
	u.DisableOpenAPIValidation = d.DisableOpenAPIValidation
	u.SkipSchemaValidation = d.SkipSchemaValidation
	u.EnableDNS = d.EnableDNS
	u.SubNotes = d.SubNotes
	u.HideNotes = d.HideNotes
	u.Description = d.Description
	u.Labels = d.labels()
	u.PostRenderer = d.PostRenderer
	u.PostRenderStrategy = cmp.Or(d.PostRenderStrategy, u.PostRenderStrategy)
	return func(c *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		return u.RunWithContext(ctx, d.Release, c, values)
	}
}

// StackLabel is the label of a named stack on its release records (S10).
const StackLabel = "lockstep/stack"

// labels returns the labels for Helm's upgrade, which copies those of the revision before it. The label of a stack is not
// copied, because it says that the stack created the revision: Helm removes a label that is null.
func (d *Deploy) labels() map[string]string {
	all := map[string]string{StackLabel: "null"}
	maps.Copy(all, d.Labels)
	return all
}

func (d *Deploy) dryRunUpgrade(ctx context.Context, cfg *action.Configuration) (*rel1.Release, charts.Outputs, error) {
	return d.render(ctx, cfg, d.helmUpgrade(ctx, cfg, action.DryRunServer, true)) // CheckOwners reports all conflicts, Helm only the first
}

// runUpgrade runs the upgrade.
//
// Rule R30: the new plan in order, then removals in reverse order of the old plan.
func (d *Deploy) runUpgrade(a *attempt) (*rel1.Release, error) {
	if err := a.runPrelude(a.op.prepared.Target); err != nil {
		return nil, err
	}
	adopt := a.op.prepared.Target.Claims.Hooks // Helm would refuse what was created as a hook
	rel, err := d.runWithCachedOutputs(a, d.helmUpgrade(context.Background(), a.helm.Config, action.DryRunNone, adopt))
	if err == nil {
		err = a.confirmReady()
	}
	if d.CleanupOnFail && a.unready != nil { // Helm does not clean up after an error of the record
		a.client.DeleteCreated()
	}
	return rel, err
}

// rollbackPlan returns the rollback of the upgrade to a good revision (R33). Helm itself may choose a failed one.
func (d *Deploy) rollbackPlan(p *session.Prepared, state *releaseState, goodRevision int) *rollbackPlan {
	info := p.Info
	info.Name = "rollback"
	info.Revision, info.ToRevision = info.Revision+1, goodRevision
	info.Source, info.PreviousRevision, info.PreviousChart = "", 0, ""
	rb := d.rollbackTo(goodRevision, p)
	rb.Common = p.Common
	plan := &rollbackPlan{info, rb.prepareRollback, nil, hookEvents(d.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback)}
	if i := slices.IndexFunc(state.All, func(rel *rel1.Release) bool { return rel.Version == goodRevision }); i >= 0 {
		plan.target = state.All[i]
	}
	return plan
}

// rollbackTo returns the options of a rollback of the upgrade, which applies as the upgrade did.
func (d *Deploy) rollbackTo(revision int, p *session.Prepared) Rollback {
	rb := Rollback{
		Revision: revision, ForceConflicts: d.ForceConflicts, ForceReplace: d.ForceReplace, ServerSide: d.ServerSide, TakeOwnership: d.TakeOwnership,
	}
	for _, r := range p.Replaced {
		if r.UID = ""; !r.Failed { // the upgrade has created another object
			rb.replaced = append(rb.replaced, r)
		}
	}
	return rb
}

// chartWarnings says that a release gets a chart of another name, which is usually a mistake: most objects of the old chart are
// deleted, and the values are those of the old one.
//
// Rule R46b: an upgrade to a chart of another name warns
func chartWarnings(old, now *rel1.Release) []plan.Warning {
	if session.ChartName(old) == "" || session.ChartName(now) == "" || old.Chart.Name() == now.Chart.Name() {
		return nil
	}
	return []plan.Warning{{Rule: "R46b", Chart: now.Chart.Name(), Message: fmt.Sprintf("another chart: the release has %s, and the upgrade deploys %s",
		session.ChartName(old), session.ChartName(now))}}
}

// maxNamedValues is how many values a warning names.
const maxNamedValues = 5

// RuleOfValues is the rule of the warnings about values.
const RuleOfValues = "R46a"

// valuesWarnings says what another version of the chart does to the values of the release.
//
// Rule R46a: an upgrade to another version of a chart says what that does to the values
func (d *Deploy) valuesWarnings(old *rel1.Release, mine map[string]any) []plan.Warning {
	h, err := d.Chart.Helm()
	if err != nil || old.Chart == nil || old.Chart.Metadata == nil || old.Chart.Metadata.Version == h.Metadata.Version {
		return nil
	}
	now := h.Name() + "-" + h.Metadata.Version
	changes, err := chartvalues.Compare(chartvalues.OfRelease(old), chartvalues.Version{Chart: h}, mine)
	if err != nil { // the plan explains it
		return nil
	}
	named := map[chartvalues.Kind][]string{}
	for _, c := range changes {
		name := c.Path
		if c.Kind == chartvalues.Default {
			name += " (" + c.Old + " → " + c.New + ")"
		}
		named[c.Kind] = append(named[c.Kind], name)
	}
	var out []plan.Warning
	for _, kind := range []chartvalues.Kind{chartvalues.Unused, chartvalues.Default} {
		names := named[kind]
		if len(names) == 0 {
			continue
		}
		what := text.Count(len(names), "value") + " of the release without effect in " + now + ", unlike in " + session.ChartName(old)
		if kind == chartvalues.Default {
			what = text.Count(len(names), "changed default") + " that the release does not set, in " + now
		}
		message := fmt.Sprintf("%s: %s", what, strings.Join(names[:min(len(names), maxNamedValues)], ", "))
		if more := len(names) - maxNamedValues; more > 0 {
			message += fmt.Sprintf(" and %d more; list them with: "+text.Program+" values diff %s CHART -n %s", more, d.Release, d.Namespace)
		}
		out = append(out, plan.Warning{Rule: RuleOfValues, Chart: h.Name(), Message: message})
	}
	return out
}
