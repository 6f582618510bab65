package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	chartcommon "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/postrenderer"
	helmrelease "helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// ChartOptions holds the options that install and upgrade share, named like Helm's flags.
type ChartOptions struct {
	Chart  *charts.Chart
	Source string // see event.Operation
	Values map[string]any
	// SecretPaths are the places of values that are secret whatever they are called.
	SecretPaths mask.Paths
	// NotLoaded is why the chart or the values could not be loaded, nil if they were. The operation is then refused, or ends
	// the run that an earlier pod of its Job began.
	NotLoaded error

	// Order is OrderDeclared, the default, OrderInferred or OrderUpstream.
	Order string

	// CRDs is CRDsCreate, the default, CRDsUpgrade or CRDsSkip.
	CRDs string

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
	Limits                   charts.Limits
}

// The values of --order.
//
// Rule R68: an inferred order is in the plan and in the record only, not in annotations.
const (
	OrderDeclared = "declared" // by annotations
	OrderInferred = "inferred" // by annotations and by references between objects (R68)
	OrderUpstream = "upstream" // by annotations, and a chart's own objects after all its subcharts (R11a)
)

// The values of --crds.
const (
	CRDsCreate  = "create"  // an install creates missing objects, an upgrade does nothing, as in Helm
	CRDsUpgrade = "upgrade" // apply crds/ before everything else; a rollback does not revert that
	CRDsSkip    = "skip"
)

// checkChart checks the chart, --order and --crds.
func (d *Deploy) checkChart() error {
	if err := d.Chart.Check(); err != nil {
		return err
	}
	orders := []string{OrderDeclared, OrderInferred, OrderUpstream}
	switch {
	case d.Order != "" && !slices.Contains(orders, d.Order):
		return fmt.Errorf("--order=%s is unknown: use one of %s", d.Order, strings.Join(orders, ", "))
	case d.Order != "" && d.Order != OrderDeclared && d.WaitStrategy() != helmclient.WaitOrdered:
		return fmt.Errorf("--order=%s needs --wait=ordered, not --wait=%s", d.Order, d.Wait)
	case d.CRDs != "" && d.CRDs != CRDsCreate && d.CRDs != CRDsUpgrade && d.CRDs != CRDsSkip:
		return fmt.Errorf("--crds=%s is unknown: use %s, %s or %s", d.CRDs, CRDsCreate, CRDsUpgrade, CRDsSkip)
	case connect.RecordResource(connect.StorageDriver()) == "": // only Kubernetes restricts labels
		return nil
	}
	return checkLabels(d.Labels)
}

// LabelSyntax says which values a label may have, labelKeySyntax which keys.
const (
	LabelSyntax    = `use at most 63 letters, digits, "-", "_" and "."; start and end with a letter or digit`
	labelKeySyntax = `use NAME or PREFIX/NAME; PREFIX must be a DNS name, and for NAME ` + LabelSyntax
)

// checkLabels checks that the record of a release can have the labels.
func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if len(validation.IsQualifiedName(key)) > 0 {
			return fmt.Errorf("invalid --labels: key %q: %s", key, labelKeySyntax)
		}
		if value := labels[key]; len(validation.IsValidLabelValue(value)) > 0 {
			return fmt.Errorf("invalid --labels: value %q of key %s: %s", value, key, LabelSyntax)
		}
	}
	return nil
}

// orderTree returns the tree to plan by, and for --order=inferred the inferred order and its warnings.
func (o *ChartOptions) orderTree(c session.Common, tree *plan.Chart, rendered *rendered) (*infer.Order, *plan.Chart, []plan.Warning, error) {
	tree.Upstream = o.Order == OrderUpstream
	if o.Order != OrderInferred {
		return nil, tree, nil, nil
	}
	objects := charts.HookData(rendered.release)
	for _, i := range rendered.list {
		f := rendered.builder.Fact(i)
		if u, ok := i.Object.(*unstructured.Unstructured); ok && f != nil {
			objects = append(objects, infer.Object{Resource: f.Resource, Fields: u.Object})
		}
	}
	order := infer.From(c.Release, tree, objects)
	return order, order.Tree(tree), order.Warnings(), order.Check()
}

// addRendered adds a rendered chart to p: its release, its inferred order and its conflicts. It returns the tree to plan by.
func (d *Deploy) addRendered(p *planInput, r *rendered, tree *plan.Chart) (_ *plan.Chart, err error) {
	var warnings []plan.Warning
	if d.Order == OrderInferred {
		p.target.Declared, p.target.Undeclared = tree, !r.declaresOrder(tree)
	}
	if p.inferredOrder, tree, warnings, err = d.orderTree(d.Common, tree, r); err != nil {
		return nil, err
	}
	r.warnings = append(r.warnings, warnings...)
	claims, err := p.state.claims(d.Common, r.builder, r.release, r.list, d.TakeOwnership)
	if err != nil {
		return nil, err
	}
	claims.Hooks, claims.Needed = claims.AdoptHooks(r.builder, r.list), manifest.NeededBy(r.builder, r.list, r.release.Hooks)
	p.conflicts = append(p.conflicts, preflight.CheckOwners(r.builder, r.list, claims, d.Provided)...)
	p.rendered, p.target.Release, p.target.Outputs, p.target.Lookups, p.target.Claims = r, r.release, r.outputs, r.lookups, claims
	return tree, nil
}

// reorder returns the record of a revision that is about to be stored. If Helm has rendered other objects than those of the plan,
// because crds/ were applied since (see runWithCachedOutputs), it infers their order: names may change with each rendering.
func (d *Deploy) reorder(p *session.Prepared, client *helmclient.Client, rel *rel1.Release) (record *release.Record, err error) {
	t, same := p.Target, func(x, y *rel1.Hook) bool { return x.Manifest == y.Manifest }
	if t.Declared == nil || rel.Manifest == t.Release.Manifest && slices.EqualFunc(rel.Hooks, t.Release.Hooks, same) {
		return t.Record, nil
	}
	err = client.Reorder(func(b *manifest.Builder, list helmkube.ResourceList) (*infer.Order, *plan.Chart, []plan.Warning, error) {
		order, tree, warnings, err := d.orderTree(p.Common, t.Declared, &rendered{release: rel, builder: b, list: list})
		if err != nil {
			return nil, nil, nil, err
		}
		var more []plan.Warning
		record, more, err = newRecord(p.Common, rel, true, tree)
		return order, tree, append(warnings, more...), err
	})
	return record, err
}

// declaresOrder reports whether a group of a chart waits for another one.
func (r *rendered) declaresOrder(tree *plan.Chart) bool {
	built, err := plan.Build(tree, r.builder.Resources(r.list))
	return err != nil || slices.ContainsFunc(built.Groups, func(g *plan.Group) bool { return len(g.After) > 0 })
}

// lostOrder warns that objects are applied without an order, although the chart declares one or the deployed revision had one.
func (p planInput) lostOrder(c session.Common, tree *plan.Chart) []plan.Warning {
	declared, before := p.declaresOrder(tree), p.old.Revision.Tree
	switch {
	case c.WaitStrategy() != helmclient.WaitOrdered && declared:
		return []plan.Warning{{Rule: "R27", Chart: p.target.Root(), Message: fmt.Sprintf(
			"--wait=%s ignores the groups of the chart and applies all objects at once; remove --wait to deploy them in order", c.Wait)}}
	case declared || p.inferredOrder != nil || before == nil || len(before.Inferred) == 0:
		return nil
	}
	return []plan.Warning{{Rule: "R68", Chart: p.target.Root(), Message: fmt.Sprintf(
		"revision %d was deployed in an inferred order, but this one has no order; set LOCKSTEP_ORDER=inferred, "+
			"or write the order into the chart with: "+text.Program+" suggest CHART --write", p.old.Release.Version)}}
}

// crds returns the objects in crds/ to apply. The values decide which subcharts are enabled. clientSide is set if Helm would
// create them on the client.
func (d *Deploy) crds(values map[string]any, clientSide bool) (session.CRDs, error) {
	upgrade := d.CRDs == CRDsUpgrade
	if d.CRDs == CRDsSkip {
		return session.CRDs{}, nil
	}
	docs, err := d.Chart.CRDs(values, clientSide && !upgrade)
	return session.CRDs{Root: d.Chart.Name(), Namespace: d.Namespace, Docs: docs, Upgrade: upgrade, Leave: clientSide && !upgrade, Force: d.ForceConflicts}, err
}

// helmAction runs a Helm action on a chart and values. It changes both.
type helmAction func(*chart.Chart, map[string]any) (helmrelease.Releaser, error)

// render runs an action that renders the chart within the limits (charts.Guard), and returns the release and the output of
// the templates. Lists in annotations are normalised (R1).
func (o *ChartOptions) render(ctx context.Context, cfg *action.Configuration, do helmAction) (*rel1.Release, charts.Outputs, error) {
	c, err := o.Chart.Helm()
	if err != nil {
		return nil, nil, err
	}
	restConfig, err := cfg.RESTClientGetter.ToRESTConfig()
	if err != nil {
		return nil, nil, err
	}
	e := engine.New(restConfig)
	e.EnableDNS = o.EnableDNS
	r := charts.NewRendering(ctx, c, e, charts.NewGuard(o.Limits))
	rel, err := o.runAction(cfg, r, c, do)
	return rel, r.Outputs(), err
}

// runWithCachedOutputs runs an action with the templates' output from planning. It renders them again if crds/ were
// applied since and the templates may ask which kinds the cluster serves, because Helm renders after it has applied
// crds/. The objects are then planned again during the run.
func (o *ChartOptions) runWithCachedOutputs(a *attempt, do helmAction) (*rel1.Release, error) {
	cfg := a.helm.Config
	c, err := o.Chart.Helm()
	if err != nil {
		return nil, err
	}
	if a.crdsApplied && charts.AsksCluster(c, o.Values) && a.op.prepared.Common.SavedPlan == nil { // else what was approved is sent
		rel, _, err := o.render(a.engine.RequestContext(), cfg, do)
		return rel, err
	}
	return o.runAction(cfg, charts.Replay(c, a.op.prepared.Target.Outputs), c, do)
}

// runAction runs an action on a copy of the values, with the templates' output from r. do must not pass a context that ends
// to an action that writes: Helm would leave it running, even while it applies objects.
func (o *ChartOptions) runAction(cfg *action.Configuration, r *charts.Rendering, c *chart.Chart, do helmAction) (*rel1.Release, error) {
	cfg.CustomTemplateFuncs = r.Funcs()
	out, err := do(c, charts.CopyValues(o.Values))
	if stage := (*run.StageError)(nil); errors.As(err, &stage) {
		return nil, stage // without Helm's wrapping
	}
	if err = cmp.Or(r.Err(), err); err != nil {
		err = charts.ExplainError(err, r.Outputs(), o.Chart.Name(), charts.WrongClusterVersion)
		return nil, charts.HideValues(o.Chart, o.Values, fmt.Errorf("chart %s: %w", o.Chart.Name(), err))
	}
	rel, _ := out.(*rel1.Release)
	return rel, nil
}

// rendered is the target revision with its objects: the result of Helm's dry run or, in a rollback, a stored revision.
type rendered struct {
	release      *rel1.Release
	outputs      charts.Outputs // none in a rollback
	builder      *manifest.Builder
	list         helmkube.ResourceList
	warnings     []plan.Warning
	deferredAPIs []schema.GroupVersion // unavailable APIs that the chart itself provides
	lookups      []connect.Target      // what the templates have looked up in the cluster
}

// renderFunc renders a chart with a Helm action.
type renderFunc func(context.Context, *action.Configuration) (*rel1.Release, charts.Outputs, error)

// dryRun renders a chart with Helm's server-side dry run. For its templates, the cluster already serves the kinds of crds, and
// those of releases that are deployed before, because Helm would render it after them. If that fails, they see the cluster as
// it is: a lookup of such a kind is an error until it is served.
func dryRun(s *session.Session, root string, render renderFunc, crds ...charts.Document) (*rendered, error) {
	kinds := slices.AppendSeq(s.Common.Provided.Served(), maps.Keys(manifest.DefinedKinds(crds)))
	if len(kinds) > 0 {
		if r, err := dryRunWithKinds(s, root, render, kinds); err == nil {
			return r, nil
		}
	}
	return dryRunWithKinds(s, root, render, nil)
}

func dryRunWithKinds(s *session.Session, root string, render renderFunc, kinds []schema.GroupVersionKind) (*rendered, error) {
	s.Common.ReportStep("rendering chart " + root)
	helm, err := s.Client.Helm(s.Common.Namespace)
	if err != nil {
		return nil, err
	}
	var lookups []connect.Target
	helm.Config.RESTClientGetter = connect.WithReads(connect.WithKinds(helm.Config.RESTClientGetter, kinds), func(t connect.Target) { lookups = append(lookups, t) })
	b := s.Builder(root)
	client := helmclient.NewDryRun(s.Context, helm.Client, b, func(list helmkube.ResourceList) (waited, deferred []schema.GroupVersion, err error) {
		return preflight.WaitForAPIs(s, list)
	})
	helm.Config.KubeClient = client
	helm.Config.Releases = s.Releases()
	rel, outputs, err := render(s.Context, helm.Config)
	if refusal := (*preflight.Refusal)(nil); errors.As(err, &refusal) {
		return nil, refusal // without Helm's wrapping
	}
	if err == nil {
		err = errors.Join(charts.CheckReadable(s.Common.Reader(), rel.Manifest)...)
	}
	if err != nil {
		return nil, err
	}
	s.Common.Mask.AddRelease(rel)
	list, deferredAPIs, warnings := client.Built()
	return &rendered{
		release:      rel,
		outputs:      outputs,
		builder:      b,
		list:         list,
		warnings:     append(warnings, charts.IgnoredAnnotations(outputs, root, nil)...),
		deferredAPIs: deferredAPIs,
		lookups:      lookups,
	}, nil
}

// hookEvents returns the hook events of an operation. There are none with --no-hooks.
func hookEvents(noHooks bool, before, after rel1.HookEvent) helmclient.HookEvents {
	if noHooks {
		return helmclient.HookEvents{}
	}
	return helmclient.HookEvents{Before: before, After: after}
}

// checkForce returns an error for combinations of flags that Helm's client would refuse for each object.
func checkForce(replace, conflicts, serverSide bool) error {
	switch {
	case replace && serverSide:
		return errors.New("--force-replace does not work with server-side apply: use --server-side=false")
	case conflicts && !serverSide:
		return errors.New("--force-conflicts requires server-side apply: use --server-side=true")
	}
	return nil
}

// serverSide reports whether to use server-side apply: as --server-side says or, with auto, as for the given revision.
func serverSide(flag string, rel *rel1.Release) bool {
	if flag == "true" || flag == "false" {
		return flag == "true"
	}
	return rel.ApplyMethod == string(rel1.ApplyMethodServerSideApply)
}

// treeValues returns the values that decide conditions of subcharts: those of the release. With --reuse-values they are
// merged over the defaults of the old chart, as in Helm.
func (d *Deploy) treeValues(revs *release.Revisions, rel *rel1.Release) map[string]any {
	if !d.ReuseValues {
		return rel.Config
	}
	old, err := chartcommon.CoalesceValues(revs.Current.Chart, revs.Current.Config)
	if err != nil {
		return rel.Config
	}
	return chartcommon.CoalesceTables(charts.CopyValues(rel.Config), old)
}
