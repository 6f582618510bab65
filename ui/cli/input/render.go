package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcli "helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/postrenderer"
	"k8s.io/apimachinery/pkg/api/resource"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
)

// PostFlags are the flags of a post-renderer.
type PostFlags struct {
	Name string
	Args []string
}

func (p *PostFlags) Add(f *pflag.FlagSet) {
	f.StringVar(&p.Name, "post-renderer", "", "name of a Helm post-renderer plugin")
	f.StringArrayVar(&p.Args, "post-renderer-args", nil, "argument for the post-renderer (repeatable)")
}

// Renderer returns the post-renderer, or nil if none is set.
func (p PostFlags) Renderer(settings *helmcli.EnvSettings) (postrenderer.PostRenderer, error) {
	if p.Name == "" {
		return nil, nil
	}
	r, err := postrenderer.NewPostRendererPlugin(settings, p.Name, p.Args...)
	if err != nil {
		if strings.HasSuffix(err.Error(), "not found") {
			err = errors.New("no such Helm plugin; list plugins with: helm plugin list")
		}
		return nil, fmt.Errorf("--post-renderer %s: %w", p.Name, err)
	}
	return r, nil
}

// ChartInput are the flags for a chart, its values and how it is rendered.
type ChartInput struct {
	Chart  ChartFlags
	Values values.Options
	Post   PostFlags
	// Base is the revision whose values lie below the given ones.
	Base BaseRevision
	// Options are the options with flags that need not be loaded.
	Options kube.ChartOptions
}

func (i *ChartInput) Add(f *pflag.FlagSet) {
	AddValueFlags(f, &i.Values)
	i.Chart.Add(f)
	i.Post.Add(f)
	f.BoolVar(&i.Options.SkipSchemaValidation, "skip-schema-validation", false, "skip validation of values against the chart's schema")
	f.BoolVar(&i.Options.EnableDNS, "enable-dns", false, "allow DNS lookups in templates")
}

// Load loads a chart and its values. Logs hide the secret values from then on.
func (i *ChartInput) Load(ctx context.Context, a *command.App, ref string) (kube.ChartOptions, error) {
	o := i.Options
	var err error
	if o.Chart, err = i.Chart.Load(ctx, ref, a.Settings); err != nil {
		return o, err
	}
	o.Source = i.Chart.source(ref)
	o.Values, err = command.Load(ctx, "the values", func(context.Context) (map[string]any, error) { return charts.Values(i.Values, a.Settings) })
	if err != nil {
		return o, err
	}
	if o.Values, err = i.Base.Merge(ctx, a, a.Settings.Namespace(), o.Values); err != nil {
		return o, err
	}
	hideValues(a, o.Chart, o.Values, nil)
	if o.PostRenderer, err = i.Post.Renderer(a.Settings); err != nil {
		return o, err
	}
	o.Limits, err = RenderLimits()
	return o, err
}

// RenderFlags are the flags of commands that render a chart.
type RenderFlags struct {
	ChartInput
	name NameFlags

	kubeVersion string
	apiVersions []string
	isUpgrade   bool

	// Kindless keeps documents without a kind. Flat renders without a plan. Server renders for the cluster, and only what it accepts.
	Kindless, Flat, Server bool
}

func (r *RenderFlags) Add(f *pflag.FlagSet) {
	r.ChartInput.Add(f)
	r.name.Add(f)
	AddKubeVersion(f, &r.kubeVersion)
	f.StringSliceVarP(&r.apiVersions, "api-versions", "a", nil, "additional API versions that templates see (repeatable)")
	f.BoolVar(&r.isUpgrade, "is-upgrade", false, "set .Release.IsUpgrade instead of .Release.IsInstall")
}

// AddKubeVersion adds --kube-version.
func AddKubeVersion(f *pflag.FlagSet, version *string) {
	f.StringVar(version, "kube-version", "", "Kubernetes version that templates see")
}

// DefaultRelease is Helm's release name when none is given.
const DefaultRelease = "release-name"

// Rendered is a rendered chart with its plan (nil if Flat) and all warnings about both.
type Rendered struct {
	*charts.Rendered
	Planned     *plan.Plan
	AllWarnings []plan.Warning
	// Input and Options are the inputs of the rendering.
	Input   kube.ChartOptions
	Options charts.RenderOptions
	Secrets *mask.Mask
}

// Hide hides secret values in the warnings and the plan.
func (r *Rendered) Hide(secrets *mask.Mask) {
	r.Secrets, r.AllWarnings = secrets, secrets.Warnings(r.AllWarnings)
	if r.Planned != nil {
		r.Planned.Warnings, r.Planned.Groups = secrets.Warnings(r.Planned.Warnings), secrets.Groups(r.Planned.Groups)
	}
}

// hideValues hides the secret values of a chart in the logs.
func hideValues(a *command.App, c *charts.Chart, values map[string]any, secret mask.Paths) {
	if a.Logs.Debug() {
		m := charts.MaskOfValues(c, values)
		m.AddPaths("", "", values, secret)
		a.Logs.Hide(m.Text)
	}
}

// Render renders and plans the chart given by the arguments [NAME] CHART, and prints the
// warnings.
func (r *RenderFlags) Render(a *command.App, cmd *cobra.Command, args []string) (*Rendered, error) {
	name, ref := DefaultRelease, args[0]
	if len(args) > 1 || r.name.Generate || r.name.template != "" {
		var err error
		if name, ref, err = r.name.NameAndChart(args); err != nil {
			return nil, err
		}
	}
	out, err := r.RenderAs(cmd.Context(), a, name, ref)
	if err != nil {
		return nil, err
	}
	a.Display(cmd).Warnings(out.AllWarnings)
	return out, nil
}

// RenderAs renders and plans a chart for a release name.
func (r *RenderFlags) RenderAs(ctx context.Context, a *command.App, name, ref string) (*Rendered, error) {
	input, err := r.Load(ctx, a, ref)
	if err != nil {
		return nil, err
	}
	opts := RenderOptions(input, name, a.Settings.Namespace())
	opts.IsUpgrade, opts.KubeVersion, opts.APIVersions, opts.Kindless = r.isUpgrade, r.kubeVersion, r.apiVersions, r.Kindless
	if r.Server {
		if err := a.ConnectHelm(ctx, a.Settings.Namespace()); err != nil {
			return nil, err
		}
		opts.Server, opts.TakeOwnership, opts.DisableOpenAPIValidation = a.Helm, input.TakeOwnership, input.DisableOpenAPIValidation
	}
	rendered, err := charts.Render(ctx, input.Chart, input.Values, opts)
	if err != nil {
		return nil, err
	}
	secrets := rendered.Mask()
	a.Logs.Hide(secrets.Text)
	out, err := r.plan(rendered)
	if err != nil {
		return nil, secrets.Error(err)
	}
	out.Hide(secrets)
	out.Input, out.Options = input, opts
	return out, nil
}

// RenderOptions returns the options for rendering a release without a cluster.
func RenderOptions(in kube.ChartOptions, release, namespace string) charts.RenderOptions {
	return charts.RenderOptions{
		Release: release, Namespace: namespace, SkipSchemaValidation: in.SkipSchemaValidation, EnableDNS: in.EnableDNS,
		PostRenderer: in.PostRenderer, Limits: in.Limits,
	}
}

// plan plans a rendered chart in the order given by --order.
func (r *RenderFlags) plan(rendered *charts.Rendered) (*Rendered, error) {
	switch {
	case r.Flat:
		warnings, err := plan.Check(rendered.Tree, rendered.Resources)
		return &Rendered{Rendered: rendered, AllWarnings: append(rendered.Warnings, warnings...)}, err
	case r.Options.Order == kube.OrderUpstream:
		rendered.Tree.Upstream = true
	case r.Options.Order == kube.OrderInferred:
		out, _, err := PlanInferred(rendered)
		return out, err
	}
	return PlanRendered(rendered)
}

// RenderMemoryEnv is the environment variable that limits the memory of templates, as a
// Kubernetes quantity such as 4Gi.
const RenderMemoryEnv = "LOCKSTEP_RENDER_MEMORY"

// RenderLimits returns the limits from the environment.
func RenderLimits() (charts.Limits, error) {
	value := os.Getenv(RenderMemoryEnv)
	if value == "" {
		return charts.Limits{}, nil
	}
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() <= 0 {
		return charts.Limits{}, fmt.Errorf("%s=%s is not an amount of memory; use a form such as 4Gi", RenderMemoryEnv, value)
	}
	return charts.Limits{Memory: uint64(q.Value())}, nil
}

// PlanRendered plans a rendered chart. The plan also gets the warnings of the rendering.
func PlanRendered(r *charts.Rendered) (*Rendered, error) {
	plan, err := r.Plan()
	if err != nil {
		return nil, err
	}
	plan.Warnings = append(r.Warnings, plan.Warnings...)
	return &Rendered{Rendered: r, Planned: plan, AllWarnings: plan.Warnings}, nil
}

// PlanInferred plans a rendered chart in the order that the references of its objects imply (R68).
func PlanInferred(r *charts.Rendered) (*Rendered, *infer.Order, error) {
	ordered, order := r.Ordered()
	if err := order.Check(); err != nil {
		return nil, nil, err
	}
	out, err := PlanRendered(ordered)
	if err != nil {
		return nil, nil, err
	}
	order.Explain(out.Planned.Groups)
	out.Planned.Warnings = append(order.Warnings(), out.Planned.Warnings...)
	out.AllWarnings = out.Planned.Warnings
	return out, order, nil
}

// NoOrder is the note about a chart that declares no order (plan.Unordered). ref is its reference on the command line.
func NoOrder(ref string) string {
	return "the chart declares no groups and no dependencies; to see the order that its objects imply, run: " +
		command.ShellJoin([]string{text.Program, "suggest", ref}) + "; to deploy in that order, add --order=inferred"
}
