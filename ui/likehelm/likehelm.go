// Package likehelm prints releases byte for byte as Helm's commands do, because scripts parse their
// output. Helm's own code for that is in its package cmd, which imports kubectl get and would slow down
// every start. Output goes to a bytes.Buffer, whose writes never fail. Only ui/cli/releases imports it.
package likehelm

import (
	"bytes"
	"fmt"
	"text/template"

	"github.com/fatih/color"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli/output"
	"helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// autoNoColor is what the colour library chose for stdout and the environment.
var autoNoColor = color.NoColor

// SetColour sets whether tables are coloured. mode is the value of --color: "never", "always" or "auto".
func SetColour(mode string) {
	switch mode {
	case "never":
		color.NoColor = true
	case "always":
		color.NoColor = false
	default:
		color.NoColor = autoNoColor
	}
}

// Template executes a Go template with a release.
func Template(out *bytes.Buffer, text string, r *rel1.Release) error {
	t, err := template.New("_").Parse(text) // errors contain this name, as in Helm
	if err != nil {
		return fmt.Errorf("parse --template: %w", err)
	}
	return t.Execute(out, map[string]any{"Release": r})
}

// encode prints data as JSON or YAML. For other formats it calls table.
func encode(out *bytes.Buffer, format output.Format, data any, table func()) error {
	switch format {
	case output.JSON:
		return output.EncodeJSON(out, data)
	case output.YAML:
		return output.EncodeYAML(out, data)
	}
	table()
	return nil
}

// chartVersions returns the name and version of the chart, "shop-1.0.0", and its app version.
func chartVersions(r *rel1.Release) (chart, app string) {
	if r.Chart == nil || r.Chart.Metadata == nil { // a damaged record
		return "MISSING", "MISSING"
	}
	return r.Chart.Name() + "-" + r.Chart.Metadata.Version, r.Chart.AppVersion()
}

func colourStatus(s common.Status) string {
	switch s {
	case common.StatusDeployed:
		return color.GreenString("%s", s)
	case common.StatusFailed, common.StatusUnknown:
		return color.RedString("%s", s)
	case common.StatusPendingInstall, common.StatusPendingUpgrade, common.StatusPendingRollback, common.StatusUninstalling:
		return color.YellowString("%s", s)
	}
	return s.String()
}

func colourNamespace(namespace string) string { return color.CyanString("%s", namespace) }

// Hooks prints the hooks of a release.
func Hooks(out *bytes.Buffer, r *rel1.Release) {
	for _, h := range r.Hooks {
		fmt.Fprintf(out, "---\n# Source: %s\n%s\n", h.Path, h.Manifest)
	}
}

// Manifest prints the manifest of a release.
func Manifest(out *bytes.Buffer, r *rel1.Release) { fmt.Fprintln(out, r.Manifest) }

// Notes prints the notes of a release, if any.
func Notes(out *bytes.Buffer, r *rel1.Release) {
	if r.Info.Notes != "" {
		fmt.Fprintf(out, "NOTES:\n%s\n", r.Info.Notes)
	}
}

// Values prints the computed or the user-supplied values.
func Values(out *bytes.Buffer, format output.Format, values map[string]any, all bool) error {
	if format != output.Table {
		return encode(out, format, values, nil)
	}
	title := "USER-SUPPLIED VALUES:"
	if all {
		title = "COMPUTED VALUES:"
	}
	return printYAML(out, title, values)
}

func printYAML(out *bytes.Buffer, title string, values map[string]any) error {
	fmt.Fprintln(out, title)
	return output.EncodeYAML(out, values)
}

// Metadata prints the name, namespace, chart and status of a release.
func Metadata(out *bytes.Buffer, format output.Format, m *action.Metadata) error {
	return encode(out, format, m, func() {
		fmt.Fprintf(out, "NAME: %v\nCHART: %v\nVERSION: %v\nAPP_VERSION: %v\n", m.Name, m.Chart, m.Version, m.AppVersion)
		fmt.Fprintf(out, "ANNOTATIONS: %v\nLABELS: %v\n", labels.Set(m.Annotations), labels.Set(m.Labels))
		fmt.Fprintf(out, "DEPENDENCIES: %v\nNAMESPACE: %v\nREVISION: %v\n", m.FormattedDepNames(), m.Namespace, m.Revision)
		fmt.Fprintf(out, "STATUS: %v\nDEPLOYED_AT: %v\nAPPLY_METHOD: %v\n", m.Status, m.DeployedAt, applyMethodText(m.ApplyMethod))
	})
}

func applyMethodText(method string) string {
	switch rel1.ApplyMethod(method) {
	case "": // recorded by Helm 3
		return "client-side apply (defaulted)"
	case rel1.ApplyMethodClientSideApply:
		return "client-side apply"
	case rel1.ApplyMethodServerSideApply:
		return "server-side apply"
	}
	return fmt.Sprintf("unknown (%q)", method)
}
