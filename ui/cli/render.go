package cli

import (
	"context"
	"fmt"
	"os"

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

// postFlags name a post-renderer.
type postFlags struct {
	name string
	args []string
}

func (p *postFlags) add(f *pflag.FlagSet) {
	f.StringVar(&p.name, "post-renderer", "", "name of a post-renderer plugin of Helm")
	f.StringArrayVar(&p.args, "post-renderer-args", nil, "argument for the post-renderer (repeatable)")
}

// renderer returns the post-renderer, nil where there is none.
func (p *postFlags) renderer(settings *helmcli.EnvSettings) (postrenderer.PostRenderer, error) {
	if p.name == "" {
		return nil, nil
	}
	r, err := postrenderer.NewPostRendererPlugin(settings, p.name, p.args...)
	if err != nil {
		return nil, fmt.Errorf("--post-renderer: %w", err)
	}
	return r, nil
}

// renderFlags are those of commands that render a chart without a cluster.
type renderFlags struct {
	chart  chartFlags
	values values.Options
	name   nameFlags
	post   postFlags
	order  choice

	kubeVersion string
	apiVersions []string
	isUpgrade   bool
	skipSchema  bool
	enableDNS   bool

	// kindless keeps documents without kind, flat makes no plan.
	kindless, flat bool
}

func (r *renderFlags) add(f *pflag.FlagSet) {
	addValueFlags(f, &r.values)
	r.chart.add(f)
	r.name.add(f)
	r.post.add(f)
	f.StringVar(&r.kubeVersion, "kube-version", "", "Kubernetes version that templates see")
	f.StringSliceVarP(&r.apiVersions, "api-versions", "a", nil, "API versions that templates see, besides Kubernetes' own (repeatable)")
	f.BoolVar(&r.isUpgrade, "is-upgrade", false, "set .Release.IsUpgrade instead of .Release.IsInstall")
	f.BoolVar(&r.skipSchema, "skip-schema-validation", false, "do not check values against the chart's schema")
	f.BoolVar(&r.enableDNS, "enable-dns", false, "let templates look names up in DNS")
}

// defaultRelease is Helm's name for a release that is not one.
const defaultRelease = "release-name"

// rendered is a chart with its plan, which is nil where none was wanted, and all
// warnings about both.
type rendered struct {
	*kube.Rendered
	plan     *plan.Plan
	warnings []plan.Warning
	// chart, values and options are what it was rendered from.
	chart   *kube.Chart
	values  map[string]any
	options kube.RenderOptions
	secrets *kube.Mask
}

// hide hides secret values in what is said of the chart and its plan.
func (r *rendered) hide(secrets *kube.Mask) {
	r.secrets, r.warnings = secrets, secrets.Warnings(r.warnings)
	if r.plan != nil {
		r.plan.Warnings, r.plan.Groups = secrets.Warnings(r.plan.Warnings), secrets.Groups(r.plan.Groups)
	}
}

// hideValues keeps what is secret among the values of a chart out of the logs.
func (a *app) hideValues(c *kube.Chart, values map[string]any) {
	if a.logs.debug {
		a.logs.hide(kube.MaskOfValues(c, values).Text)
	}
}

// render renders the chart that [NAME] CHART names and plans it. Warnings go to
// the command's stderr.
func (r *renderFlags) render(a *app, cmd *cobra.Command, args []string) (*rendered, error) {
	name, ref := defaultRelease, args[0]
	if len(args) > 1 || r.name.generate || r.name.template != "" {
		var err error
		if name, ref, err = r.name.nameAndChart(args); err != nil {
			return nil, err
		}
	}
	out, err := r.renderAs(cmd.Context(), a, name, ref)
	if err != nil {
		return nil, err
	}
	a.display(cmd, report.ModeText).Warnings(out.warnings)
	return out, nil
}

func (r *renderFlags) renderAs(ctx context.Context, a *app, name, ref string) (*rendered, error) {
	c, err := r.chart.load(ctx, ref, a.settings)
	if err != nil {
		return nil, err
	}
	vals, err := kube.MergeValues(r.values, a.settings)
	if err != nil {
		return nil, err
	}
	a.hideValues(c, vals)
	opts, err := r.options(a.settings, name)
	if err != nil {
		return nil, err
	}
	made, err := kube.RenderChart(ctx, c, vals, opts)
	if err != nil {
		return nil, err
	}
	secrets := made.Mask()
	a.logs.hide(secrets.Text)
	out, err := r.ordered(made)
	if err != nil {
		return nil, secrets.Error(err)
	}
	out.hide(secrets)
	out.chart, out.values, out.options = c, vals, opts
	return out, nil
}

// ordered plans what was rendered by the order that is asked for.
func (r *renderFlags) ordered(made *kube.Rendered) (*rendered, error) {
	switch {
	case r.flat:
		warnings, err := plan.Check(made.Tree, made.Resources)
		return &rendered{Rendered: made, warnings: append(made.Warnings, warnings...)}, err
	case r.order.value == kube.OrderInferred:
		return inferred(made)
	}
	return planned(made)
}

// inferred plans what was rendered by the order that it implies (R68).
func inferred(r *kube.Rendered) (*rendered, error) {
	ordered, order := r.Ordered()
	if err := order.Check(); err != nil {
		return nil, err
	}
	out, err := planned(ordered)
	if err != nil {
		return nil, err
	}
	order.Explain(out.plan.Groups)
	out.plan.Warnings = append(order.Warnings(), out.plan.Warnings...)
	out.warnings = out.plan.Warnings
	return out, nil
}

func (r *renderFlags) options(settings *helmcli.EnvSettings, release string) (kube.RenderOptions, error) {
	post, err := r.post.renderer(settings)
	if err != nil {
		return kube.RenderOptions{}, err
	}
	limits, err := renderLimits()
	return kube.RenderOptions{
		Release: release, Namespace: settings.Namespace(), IsUpgrade: r.isUpgrade,
		KubeVersion: r.kubeVersion, APIVersions: r.apiVersions,
		SkipSchemaValidation: r.skipSchema, EnableDNS: r.enableDNS, PostRenderer: post, Kindless: r.kindless, Limits: limits,
	}, err
}

// renderMemory says how much memory the templates of a chart may take, as
// Kubernetes writes it: 4Gi.
const renderMemory = "LOCKSTEP_RENDER_MEMORY"

// renderLimits are those of a rendering.
func renderLimits() (kube.RenderLimits, error) {
	given := os.Getenv(renderMemory)
	if given == "" {
		return kube.RenderLimits{}, nil
	}
	q, err := resource.ParseQuantity(given)
	if err != nil || q.Sign() <= 0 {
		return kube.RenderLimits{}, fmt.Errorf("%s=%s is no amount of memory such as 4Gi", renderMemory, given)
	}
	return kube.RenderLimits{Memory: uint64(q.Value())}, nil
}

// planned plans what was rendered; the plan has all warnings about it.
func planned(r *kube.Rendered) (*rendered, error) {
	plan, err := r.Plan()
	if err != nil {
		return nil, err
	}
	plan.Warnings = append(r.Warnings, plan.Warnings...)
	return &rendered{Rendered: r, plan: plan, warnings: plan.Warnings}, nil
}
