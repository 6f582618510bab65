package command

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

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/report"
)

// PostFlags are the flags of a post-renderer.
type PostFlags struct {
	name string
	args []string
}

// NewPostFlags returns PostFlags that are set without a command line.
func NewPostFlags(name string, args []string) PostFlags { return PostFlags{name, args} }

func (p *PostFlags) Add(f *pflag.FlagSet) {
	f.StringVar(&p.name, "post-renderer", "", "name of a Helm post-renderer plugin")
	f.StringArrayVar(&p.args, "post-renderer-args", nil, "argument for the post-renderer (repeatable)")
}

// Renderer returns the post-renderer, or nil if none is set.
func (p *PostFlags) Renderer(settings *helmcli.EnvSettings) (postrenderer.PostRenderer, error) {
	if p.name == "" {
		return nil, nil
	}
	r, err := postrenderer.NewPostRendererPlugin(settings, p.name, p.args...)
	if err != nil {
		if strings.HasSuffix(err.Error(), "not found") {
			err = errors.New("no such Helm plugin; list plugins with: helm plugin list")
		}
		return nil, fmt.Errorf("--post-renderer %s: %w", p.name, err)
	}
	return r, nil
}

// RenderFlags are the flags of commands that render a chart without a cluster.
type RenderFlags struct {
	Chart  ChartFlags
	Values values.Options
	name   NameFlags
	Post   PostFlags
	Order  Choice

	KubeVersion string
	apiVersions []string
	isUpgrade   bool
	SkipSchema  bool
	EnableDNS   bool

	// Kindless keeps documents without a kind. Flat renders without a plan.
	Kindless, Flat bool
}

func (r *RenderFlags) Add(f *pflag.FlagSet) {
	AddValueFlags(f, &r.Values)
	r.Chart.Add(f)
	r.name.Add(f)
	r.Post.Add(f)
	f.StringVar(&r.KubeVersion, "kube-version", "", "Kubernetes version that templates see")
	f.StringSliceVarP(&r.apiVersions, "api-versions", "a", nil, "additional API versions that templates see (repeatable)")
	f.BoolVar(&r.isUpgrade, "is-upgrade", false, "set .Release.IsUpgrade instead of .Release.IsInstall")
	f.BoolVar(&r.SkipSchema, "skip-schema-validation", false, "skip validation of values against the chart's schema")
	f.BoolVar(&r.EnableDNS, "enable-dns", false, "allow DNS lookups in templates")
}

// DefaultRelease is Helm's release name when none is given.
const DefaultRelease = "release-name"

// Rendered is a rendered chart with its plan (nil if Flat) and all warnings about both.
type Rendered struct {
	*kube.Rendered
	Planned     *plan.Plan
	AllWarnings []plan.Warning
	// Chart, GivenValues and Options are the inputs of the rendering.
	Chart       *kube.Chart
	GivenValues map[string]any
	Options     kube.RenderOptions
	Secrets     *kube.Mask
}

// Hide hides secret values in the warnings and the plan.
func (r *Rendered) Hide(secrets *kube.Mask) {
	r.Secrets, r.AllWarnings = secrets, secrets.Warnings(r.AllWarnings)
	if r.Planned != nil {
		r.Planned.Warnings, r.Planned.Groups = secrets.Warnings(r.Planned.Warnings), secrets.Groups(r.Planned.Groups)
	}
}

// HideValues hides the secret values of a chart in the logs.
func (a *App) HideValues(c *kube.Chart, values map[string]any) {
	if a.Logs.debug {
		a.Logs.Hide(kube.MaskOfValues(c, values).Text)
	}
}

// Render renders and plans the chart given by the arguments [NAME] CHART, and prints the
// warnings.
func (r *RenderFlags) Render(a *App, cmd *cobra.Command, args []string) (*Rendered, error) {
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
	a.Display(cmd, report.ModeText).Warnings(out.AllWarnings)
	return out, nil
}

// RenderAs renders and plans a chart for a release name.
func (r *RenderFlags) RenderAs(ctx context.Context, a *App, name, ref string) (*Rendered, error) {
	c, err := r.Chart.Load(ctx, ref, a.Settings)
	if err != nil {
		return nil, err
	}
	vals, err := kube.MergeValues(r.Values, a.Settings)
	if err != nil {
		return nil, err
	}
	a.HideValues(c, vals)
	opts, err := r.Options(a.Settings, name)
	if err != nil {
		return nil, err
	}
	rendered, err := kube.RenderChart(ctx, c, vals, opts)
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
	out.Chart, out.GivenValues, out.Options = c, vals, opts
	return out, nil
}

// plan plans a rendered chart in the order given by --order.
func (r *RenderFlags) plan(rendered *kube.Rendered) (*Rendered, error) {
	switch {
	case r.Flat:
		warnings, err := plan.Check(rendered.Tree, rendered.Resources)
		return &Rendered{Rendered: rendered, AllWarnings: append(rendered.Warnings, warnings...)}, err
	case r.Order.Value == kube.OrderInferred:
		return planInferred(rendered)
	}
	return PlanRendered(rendered)
}

// planInferred plans a rendered chart in the order that its objects imply (R68).
func planInferred(r *kube.Rendered) (*Rendered, error) {
	ordered, order := r.Ordered()
	if err := order.Check(); err != nil {
		return nil, err
	}
	out, err := PlanRendered(ordered)
	if err != nil {
		return nil, err
	}
	order.Explain(out.Planned.Groups)
	out.Planned.Warnings = append(order.Warnings(), out.Planned.Warnings...)
	out.AllWarnings = out.Planned.Warnings
	return out, nil
}

// Options returns the options for rendering a release.
func (r *RenderFlags) Options(settings *helmcli.EnvSettings, release string) (kube.RenderOptions, error) {
	post, err := r.Post.Renderer(settings)
	if err != nil {
		return kube.RenderOptions{}, err
	}
	limits, err := RenderLimits()
	return kube.RenderOptions{
		Release: release, Namespace: settings.Namespace(), IsUpgrade: r.isUpgrade,
		KubeVersion: r.KubeVersion, APIVersions: r.apiVersions,
		SkipSchemaValidation: r.SkipSchema, EnableDNS: r.EnableDNS, PostRenderer: post, Kindless: r.Kindless, Limits: limits,
	}, err
}

// RenderMemoryEnv is the environment variable that limits the memory of templates, as a
// Kubernetes quantity such as 4Gi.
const RenderMemoryEnv = "LOCKSTEP_RENDER_MEMORY"

// RenderLimits returns the limits from the environment.
func RenderLimits() (kube.RenderLimits, error) {
	value := os.Getenv(RenderMemoryEnv)
	if value == "" {
		return kube.RenderLimits{}, nil
	}
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() <= 0 {
		return kube.RenderLimits{}, fmt.Errorf("%s=%s is not an amount of memory such as 4Gi", RenderMemoryEnv, value)
	}
	return kube.RenderLimits{Memory: uint64(q.Value())}, nil
}

// PlanRendered plans a rendered chart. The plan also gets the warnings of the rendering.
func PlanRendered(r *kube.Rendered) (*Rendered, error) {
	plan, err := r.Plan()
	if err != nil {
		return nil, err
	}
	plan.Warnings = append(r.Warnings, plan.Warnings...)
	return &Rendered{Rendered: r, Planned: plan, AllWarnings: plan.Warnings}, nil
}
