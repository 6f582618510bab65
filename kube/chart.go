package kube

import (
	"context"
	"errors"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/registry"
	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/annotate"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/mask"
	"lockstep/kube/preview"
)

// What needs no cluster: charts and what they render to.
type (
	Chart         = charts.Chart
	ChartRef      = charts.Ref
	Rendered      = charts.Rendered
	RenderOptions = charts.RenderOptions
	PrintOptions  = charts.PrintOptions
	// RenderLimits are what templates may take of memory and time.
	RenderLimits = charts.Limits
	// AnnotatedChart is a chart whose files are to say the AnnotatedOrder.
	AnnotatedChart = annotate.Source
	// AnnotationSpelling is how its keys are written.
	AnnotationSpelling = annotate.Spelling
	AnnotatedOrder     = annotate.Order
	// Mask hides the secret values that it has been told of.
	Mask = mask.Mask
)

// What is asked and told of a cluster by a Client.
type (
	Diagnoser = diagnose.Diagnoser
	LogLine   = diagnose.LogLine
	// Listener is told when the API server is lost and when it is back.
	Listener = connect.Listener
)

// Ellipsis stands in a command line that Mask.Argument has made for a value to fill in.
const Ellipsis = mask.Ellipsis

// LoadChart finds the chart that ref names, downloads it where it is not local, and
// loads it. The registry client is needed for oci:// only.
func LoadChart(ref ChartRef, settings *cli.EnvSettings, reg *registry.Client) (*Chart, error) {
	return charts.Load(ref, settings, reg)
}

// LoadChartPath loads the chart at path, a directory or an archive.
func LoadChartPath(path string) (*Chart, error) { return charts.LoadPath(path) }

// CopyUnloadedChart copies the directory of a chart that cannot be loaded below dir, so
// that Helm's linter can read it, and returns the copy's path.
func CopyUnloadedChart(path, dir string) (string, error) { return charts.CopyUnloaded(path, dir) }

// FetchDependencies downloads what the chart in dir depends on, as Chart.lock says.
// The options are about signatures.
func FetchDependencies(dir string, o action.ChartPathOptions, settings *cli.EnvSettings, reg *registry.Client) error {
	return charts.FetchDependencies(dir, o, settings, reg)
}

// MergeValues merges the values that a user gave with -f and --set, as Helm does.
func MergeValues(o values.Options, settings *cli.EnvSettings) (map[string]any, error) {
	return charts.Values(o, settings)
}

// GiveValues adds to given values what has been changed in all values, from what they
// were to what they are.
func GiveValues(given, was, is map[string]any) { charts.Give(given, was, is) }

// YAML is what values or an object are in a file.
func YAML(fields map[string]any) (string, error) { return charts.YAML(fields) }

// RenderChart renders a chart without a cluster, and reads the order that it declares.
func RenderChart(ctx context.Context, c *Chart, vals map[string]any, o RenderOptions) (*Rendered, error) {
	return charts.Render(ctx, c, vals, o)
}

// RenderedRelease reads what Helm has rendered for an installation, or an upgrade, of
// the chart whose tree is given.
func RenderedRelease(rel *release.Release, tree *plan.Chart, upgrade bool) (*Rendered, error) {
	return charts.FromRelease(rel, tree, upgrade)
}

// WithinLimits calls a function that does nothing but render, and gives it up where
// it goes beyond the limits, with an error that IsRenderLimit knows.
func WithinLimits(ctx context.Context, l RenderLimits, do func() error) error {
	return charts.NewGuard(l).RunAll(ctx, do)
}

// IsRenderLimit reports whether an error is that a chart goes beyond RenderLimits.
func IsRenderLimit(err error) bool { return charts.IsLimit(err) }

// PrepareAnnotations finds out, and writes nothing, which lines to insert into the
// files of a chart so that they say an order.
func PrepareAnnotations(ctx context.Context, c AnnotatedChart, order AnnotatedOrder) (*annotate.Result, error) {
	return annotate.Prepare(ctx, c, order)
}

// MaskOfValues hides what is secret among the values of a chart: those that are named
// like credentials, and those that its templates put into Secrets.
func MaskOfValues(c *Chart, vals map[string]any) *Mask { return charts.MaskOfValues(c, vals) }

// MaskObject hides, by their place, the secret values of an object. It changes the object.
func MaskObject(object map[string]any) { mask.Object(object, nil) }

// StorageDriver is the kind of Helm's release storage, as in HELM_DRIVER.
func StorageDriver() string { return connect.StorageDriver() }

// NothingToShow reports whether an error of Operation.Sent, Operation.Change or a
// Diagnoser only says why there is nothing to show of an object, and returns what it says.
func NothingToShow(err error) (why string, is bool) {
	if nothing := preview.NothingSent(""); errors.As(err, &nothing) {
		return string(nothing), true
	}
	for _, nothing := range []error{diagnose.ErrAbsent, diagnose.ErrNoPods} {
		if errors.Is(err, nothing) {
			return nothing.Error(), true
		}
	}
	return "", false
}
