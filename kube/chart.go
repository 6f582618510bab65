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

// Charts and what they render to. No cluster is needed.
type (
	Chart         = charts.Chart
	ChartRef      = charts.Ref
	Rendered      = charts.Rendered
	RenderOptions = charts.RenderOptions
	PrintOptions  = charts.PrintOptions
	// MissingDependencies is the error about dependencies that are not in charts/.
	MissingDependencies = charts.MissingError
	// RenderLimits limit the memory and the time of templates.
	RenderLimits = charts.Limits
	// AnnotatedChart is a chart, and AnnotatedOrder the order to write into its files.
	AnnotatedChart = annotate.Source
	AnnotatedOrder = annotate.Order
	// AnnotationSpelling is how the annotation keys are spelled.
	AnnotationSpelling = annotate.Spelling
	// Mask hides the secret values that were added to it.
	Mask = mask.Mask
)

// Diagnosis of objects, and the connection of a Client.
type (
	Diagnoser = diagnose.Diagnoser
	Shell     = diagnose.Shell
	LogLine   = diagnose.LogLine
	// Listener is called when the API server becomes unreachable, and when it is back.
	Listener = connect.Listener
)

// Ellipsis replaces secret values in arguments from Mask.Argument.
const Ellipsis = mask.Ellipsis

// LoadChart loads the chart that ref names. It downloads a chart that is not local. reg is
// only needed for oci://.
func LoadChart(ref ChartRef, settings *cli.EnvSettings, reg *registry.Client) (*Chart, error) {
	return charts.Load(ref, settings, reg)
}

// PinChart returns an oci:// reference to a version of a chart by its digest.
func PinChart(ref, version string, reg *registry.Client) (string, error) {
	return charts.Pin(ref, version, reg)
}

// RegistryCredential is how a user logs in to a registry.
type RegistryCredential = charts.RegistryCredential

// FindRegistryCredential returns the stored credential for the registry of an oci:// chart,
// empty if there is none.
func FindRegistryCredential(ctx context.Context, ref string, settings *cli.EnvSettings) (RegistryCredential, error) {
	return charts.FindRegistryCredential(ctx, ref, settings)
}

// RegistryConfig returns a registry config file with the credentials for the registries of
// oci:// charts.
func RegistryConfig(byChart map[string]RegistryCredential) ([]byte, error) {
	return charts.RegistryConfig(byChart)
}

// LoadChartPath loads a chart from a directory or an archive.
func LoadChartPath(path string) (*Chart, error) { return charts.LoadPath(path) }

// CopyBrokenChart copies the directory of a chart that cannot be loaded to a directory
// below dir, in a form that Helm's linter can read, and returns its path.
func CopyBrokenChart(path, dir string) (string, error) { return charts.CopyBroken(path, dir) }

// FetchDependencies downloads the dependencies of the chart in dir, as Chart.lock lists
// them. The options say how to verify signatures.
func FetchDependencies(dir string, o action.ChartPathOptions, settings *cli.EnvSettings, reg *registry.Client) error {
	return charts.FetchDependencies(dir, o, settings, reg)
}

// MergeValues merges values files and --set arguments, as Helm does.
func MergeValues(o values.Options, settings *cli.EnvSettings) (map[string]any, error) {
	return charts.Values(o, settings)
}

// ApplyValueChanges adds the differences between before and after to given.
func ApplyValueChanges(given, before, after map[string]any) {
	charts.ApplyChanges(given, before, after)
}

// YAML formats values or an object.
func YAML(fields map[string]any) (string, error) { return charts.YAML(fields) }

// RenderChart renders a chart without a cluster and reads the order that it declares.
func RenderChart(ctx context.Context, c *Chart, vals map[string]any, o RenderOptions) (*Rendered, error) {
	return charts.Render(ctx, c, vals, o)
}

// RenderedRelease reads a release that Helm rendered for an install or an upgrade of the
// chart with the given tree.
func RenderedRelease(rel *release.Release, tree *plan.Chart, upgrade bool) (*Rendered, error) {
	return charts.FromRelease(rel, tree, upgrade)
}

// WithinLimits calls do, which must only render. If it exceeds the limits, WithinLimits
// abandons it and returns an error for which IsRenderLimit is true.
func WithinLimits(ctx context.Context, l RenderLimits, do func() error) error {
	return charts.NewGuard(l).RunAll(ctx, do)
}

// IsRenderLimit reports whether an error is about exceeded RenderLimits.
func IsRenderLimit(err error) bool { return charts.IsLimit(err) }

// PrepareAnnotations finds the lines to insert into the files of a chart to declare an
// order. It writes nothing.
func PrepareAnnotations(ctx context.Context, c AnnotatedChart, order AnnotatedOrder) (*annotate.Result, error) {
	return annotate.Prepare(ctx, c, order)
}

// MaskOfValues hides the secret values of a chart: those that are named like credentials,
// and those that its templates put into Secrets.
func MaskOfValues(c *Chart, vals map[string]any) *Mask { return charts.MaskOfValues(c, vals) }

// MaskObject hides the secret values of an object by their place. It modifies the object.
func MaskObject(object map[string]any) { mask.Object(object, nil) }

// StorageDriver is the kind of Helm's release storage: the value of HELM_DRIVER.
func StorageDriver() string { return connect.StorageDriver() }

// NothingToShow reports whether an error of Operation.Sent, Operation.Change or a
// Diagnoser only means that there is nothing to show for an object, and why.
func NothingToShow(err error) (reason string, ok bool) {
	if nothing := preview.NothingSent(""); errors.As(err, &nothing) {
		return string(nothing), true
	}
	for _, nothing := range []error{diagnose.ErrAbsent, diagnose.ErrNoPods, diagnose.ErrNotRunning} {
		if errors.Is(err, nothing) {
			return nothing.Error(), true
		}
	}
	return "", false
}
