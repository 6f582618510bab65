package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
)

// planner returns a pass that can plan and write nothing, to a cluster that
// answers.
func (c *Client) planner(common Common, root string) (*pass, error) {
	p, err := c.newPass(common.Namespace, root)
	if err != nil {
		return nil, err
	}
	if p.ord.opts.wait, err = waitStrategy(common.Wait); err != nil {
		return nil, err
	}
	p.ord.opts.waitAll = common.WaitAll
	p.ord.self = owner(common.Release, common.Namespace)
	c.getter.bound.set(context.Background())
	if err := p.ord.Client.IsReachable(); err != nil {
		if c.noContext() {
			return nil, fmt.Errorf("%w; the kubeconfig names no cluster: set KUBECONFIG or --kubeconfig, or try --sandbox", err)
		}
		return nil, fmt.Errorf("%w; is the cluster of context %q up, and is it the right one?", err, c.ContextName())
	}
	return p, nil
}

// with runs an action of Helm's on a fresh copy of the chart and the values,
// since it changes both, with the lists in templates normalised (R1). Helm's
// context is never cancelled by us: the action would go on behind our back.
func (r *Rendering) with(p *pass, do func(*chart.Chart, map[string]any) (release.Releaser, error)) (*rel1.Release, error) {
	c, err := r.Chart.Helm()
	if err != nil {
		return nil, err
	}
	p.cfg.CustomTemplateFuncs = charts.TemplateFuncs()
	charts.WrapTemplates(c)
	out, err := do(c, charts.CopyValues(r.Values))
	rel, _ := out.(*rel1.Release)
	if rel != nil {
		charts.UnwrapTemplates(rel.Chart)
	}
	if stage := (*run.StageError)(nil); errors.As(err, &stage) {
		return nil, stage // it names the groups; what Helm puts around it says no more
	}
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", r.Chart.Name(), charts.CleanError(err))
	}
	return rel, nil
}

// aroundHooks puts the phases of a release's hooks before and after the main
// phases.
func (p *pass) aroundHooks(rel *rel1.Release, none bool, before, after rel1.HookEvent, main ...[]event.Phase) []event.Phase {
	var pre, all, post []event.Phase
	if !none {
		for _, h := range p.ord.hooks.learn(rel, p.ord.opts.prefix, before, after) {
			if h.Name == p.ord.opts.prefix+string(before) {
				pre = append(pre, h)
			} else {
				post = append(post, h)
			}
		}
	}
	all = pre
	for _, m := range main {
		all = append(all, m...)
	}
	return append(all, post...)
}

// expectHooks has the hooks of a new revision learned when it is stored, which
// is just before Helm executes them.
func (p *pass) expectHooks(none bool, before, after rel1.HookEvent) {
	p.rec.seen = func(rel *rel1.Release) error {
		if err := p.ord.scopeHooks(p.ord.tree, rel, none, before, after); err != nil || none {
			return err
		}
		for _, phase := range p.ord.hooks.learn(rel, p.ord.opts.prefix, before, after) {
			p.ord.announce(phase)
		}
		return nil
	}
}

// operation starts an Operation of the given name.
func (c *Client) operation(name string, common Common, rel *rel1.Release) *Operation {
	op := &Operation{client: c, common: common, preview: rel, info: event.Operation{
		Name: name, Release: common.Release, Namespace: common.Namespace, Context: c.ContextName(),
		Timeout: common.Timeout, ReadinessTimeout: common.ReadinessTimeout,
	}}
	if rel != nil && rel.Chart != nil && rel.Chart.Metadata != nil {
		op.root = rel.Chart.Name()
		op.info.Chart = rel.Chart.Name() + "-" + rel.Chart.Metadata.Version
		op.info.Revision = rel.Version
	}
	return op
}

// deploys completes an operation that brings a chart, whose phases are known:
// what its revision will keep, its warnings, and the last checks.
func (op *Operation) deploys(ctx context.Context, p *pass, tree *plan.Chart, warnings []plan.Warning) error {
	full := &record{Version: recordVersion, Sequenced: p.ord.opts.wait == WaitOrdered, Tree: tree}
	fits, more, err := fitRecord(op.preview, full)
	if err != nil {
		return err
	}
	op.record = fits
	if err := op.checkKinds(p); err != nil {
		return err
	}
	if op.warns, err = planWarnings(p, tree, append(warnings, more...)); err != nil {
		return err
	}
	return op.check(ctx)
}

// checkForce refuses what Helm's client refuses for each object.
func checkForce(replace, conflicts, serverSide bool) error {
	switch {
	case replace && serverSide:
		return errors.New("--force-replace replaces objects, and server-side apply does not: add --server-side=false")
	case conflicts && !serverSide:
		return errors.New("--force-conflicts takes fields over in server-side apply, which this release is not applied with: add --server-side=true")
	}
	return nil
}

// serverSide reads --server-side: true, false, or as the release was applied.
func serverSide(flag string, rel *rel1.Release) bool {
	if flag == "true" || flag == "false" {
		return flag == "true"
	}
	return rel.ApplyMethod == string(rel1.ApplyMethodServerSideApply)
}

// check is about what keeps an operation from being run.
func (op *Operation) check(ctx context.Context) error {
	if err := checkBreakpoints(op.common.BreakOn, op.phases); err != nil || op.common.PlanOnly {
		return err
	}
	return op.checkRights(ctx)
}

// planWarnings are those about the chart, the manifest and the plan.
func planWarnings(p *pass, tree *plan.Chart, warnings []plan.Warning) ([]plan.Warning, error) {
	warnings = append(warnings, p.ord.warned()...)
	resources := p.ord.builder.resources(p.ord.last())
	if p.ord.opts.wait != WaitOrdered {
		more, err := plan.Check(tree, resources)
		return append(warnings, more...), err
	}
	plan, err := plan.Build(tree, resources)
	if err != nil {
		return nil, err
	}
	return append(warnings, plan.Warnings...), nil
}

// checkBreakpoints refuses a breakpoint on a group that is not there (R42).
func checkBreakpoints(ids []string, phases []event.Phase) error {
	var known []string
	for _, p := range phases {
		for _, g := range p.Groups {
			known = append(known, g.ID)
		}
	}
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return fmt.Errorf("--break-on %s: there is no such group; there are %s", id, strings.Join(known, ", "))
		}
	}
	return nil
}
