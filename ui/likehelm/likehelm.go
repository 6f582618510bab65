// Package likehelm prints releases byte for byte as Helm's commands do, because scripts parse their
// output. It does not use Helm's own code, which is in package cmd, imports kubectl get, and would
// slow down every start. It writes to memory, which never fails. Only ui/cli/releases imports it.
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

// plainByDefault is the colour library's choice for stdout and the environment.
var plainByDefault = color.NoColor

// SetColour sets whether tables are coloured: "never", "always" or "auto".
func SetColour(mode string) error {
	switch mode {
	case "never":
		color.NoColor = true
	case "always":
		color.NoColor = false
	case "auto":
		color.NoColor = plainByDefault
	default:
		return fmt.Errorf("invalid color mode %q: use one of never, auto, always", mode)
	}
	return nil
}

// Template executes a Go template with a release.
func Template(out *bytes.Buffer, text string, r *rel1.Release) error {
	t, err := template.New("_").Parse(text) // the name is in errors, as in Helm's
	if err != nil {
		return fmt.Errorf("parse --template: %w", err)
	}
	return t.Execute(out, map[string]any{"Release": r})
}

// encode prints data as JSON or YAML, or calls table.
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

// chartVersions returns the chart's name-version and the app version. A record may have no chart.
func chartVersions(r *rel1.Release) (chart, app string) {
	if r.Chart == nil || r.Chart.Metadata == nil {
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
	if all {
		fmt.Fprintln(out, "COMPUTED VALUES:")
	} else {
		fmt.Fprintln(out, "USER-SUPPLIED VALUES:")
	}
	return output.EncodeYAML(out, values)
}

// Metadata prints the name, namespace, chart and status of a release.
func Metadata(out *bytes.Buffer, format output.Format, m *action.Metadata) error {
	return encode(out, format, m, func() {
		for _, line := range []struct {
			name  string
			value any
		}{
			{"NAME", m.Name},
			{"CHART", m.Chart},
			{"VERSION", m.Version},
			{"APP_VERSION", m.AppVersion},
			{"ANNOTATIONS", labels.Set(m.Annotations)},
			{"LABELS", labels.Set(m.Labels)},
			{"DEPENDENCIES", m.FormattedDepNames()},
			{"NAMESPACE", m.Namespace},
			{"REVISION", m.Revision},
			{"STATUS", m.Status},
			{"DEPLOYED_AT", m.DeployedAt},
			{"APPLY_METHOD", applyMethodText(m.ApplyMethod)},
		} {
			fmt.Fprintf(out, "%s: %v\n", line.name, line.value)
		}
	})
}

// applyMethodText describes an apply method.
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
