package kube

import (
	"context"

	"lockstep/kube/annotate"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/documents"
	"lockstep/kube/mask"
)

// Charts and rendered charts. No cluster is needed.
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
	// Listener is called when the API server becomes unreachable, and when it is back.
	Listener = connect.Listener
)

// Ellipsis replaces the secret values in the arguments that Mask.Argument returns.
const Ellipsis = mask.Ellipsis

// RegistryCredential is a login for a registry.
type RegistryCredential = charts.RegistryCredential

var (
	// LoadChart loads the chart that a ChartRef names. It downloads a chart that is not
	// local; only an oci:// chart needs the registry client. LoadChartPath loads a directory
	// or an archive.
	LoadChart     = charts.Load
	LoadChartPath = charts.LoadPath
	// WrapTemplates makes a chart that Chart.Helm returned accept YAML lists in annotations. Call
	// it before an action of NewOrdered renders the chart.
	WrapTemplates = charts.WrapTemplates
	// PinChart resolves the version in an oci:// reference to a digest, and returns that reference.
	PinChart = charts.Pin
	// FindRegistryCredential returns the stored credential for the registry of an oci://
	// chart, empty if there is none. RegistryConfig returns the content of a registry config
	// file with the credentials of charts.
	FindRegistryCredential = charts.FindRegistryCredential
	RegistryConfig         = charts.RegistryConfig
	// CopyBrokenChart copies the directory of a chart that cannot be loaded into another directory,
	// in a form that Helm's linter can read, and returns the path of the copy.
	CopyBrokenChart = charts.CopyBroken
	// FetchDependencies downloads the dependencies of the chart in a directory, as Chart.yaml
	// lists them. The options say how to verify signatures.
	FetchDependencies = charts.FetchDependencies

	// MergeValues merges values files and --set arguments, as Helm does.
	MergeValues = charts.Values
	// ValuesError explains an error about a values file that is not a YAML mapping.
	ValuesError = documents.ValuesError
	// CheckReleaseName checks the name of a release, as Helm does.
	CheckReleaseName = charts.CheckReleaseName
	// IgnoredValues returns a warning for each --set argument that Helm accepts although it sets
	// nothing.
	IgnoredValues = charts.IgnoredValues
	// ApplyValueChanges adds the differences between two values to the first argument.
	ApplyValueChanges = charts.ApplyChanges
	// KeepTypes restores in edited values what YAML has not kept of the values before.
	KeepTypes = charts.KeepTypes
	// YAML formats values or an object.
	YAML = charts.YAML
	// EncodeValues encodes values without a loss, for MergeValues and edits.
	EncodeValues = documents.EncodeExact

	// RenderChart renders a chart without a cluster and reads the order that it declares.
	// ParseRenderedRelease parses a release that Helm has rendered for an install or an upgrade.
	RenderChart          = charts.Render
	ParseRenderedRelease = charts.FromRelease
	// IsRenderLimit reports whether an error is about exceeded RenderLimits.
	IsRenderLimit = charts.IsLimit
	// RefusedByTemplate reports whether a template failed because it called required or fail.
	RefusedByTemplate = charts.RefusedByTemplate
	// PrepareAnnotations finds the lines to insert into the files of a chart to declare an
	// order. It writes nothing.
	PrepareAnnotations = annotate.Prepare

	// MaskOfValues returns a Mask of the secret values of a chart: those that are named like
	// credentials, and those that its templates write into Secrets.
	MaskOfValues = charts.MaskOfValues
	// StorageDriver returns the kind of Helm's release storage, the value of HELM_DRIVER.
	StorageDriver = connect.StorageDriver
)

// WithinLimits calls render, which must have no side effects. If render exceeds the limits,
// WithinLimits returns an error for which IsRenderLimit is true, and does not wait for render.
func WithinLimits(ctx context.Context, l RenderLimits, render func() error) error {
	return charts.NewGuard(l).RunAll(ctx, render)
}

// MaskObject hides the values in those fields of an object that hold secrets. It modifies the object.
func MaskObject(object map[string]any) { mask.Object(object, nil) }
