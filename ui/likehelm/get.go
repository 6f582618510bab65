package likehelm

import (
	"bytes"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli/output"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Hooks prints the hooks of a release.
func Hooks(out *bytes.Buffer, r *rel1.Release) {
	for _, h := range r.Hooks {
		fmt.Fprintf(out, "---\n# Source: %s\n%s\n", h.Path, h.Manifest)
	}
}

// Manifest prints the manifest of a release.
func Manifest(out *bytes.Buffer, r *rel1.Release) { fmt.Fprintln(out, r.Manifest) }

// Notes prints the notes of a release, if it has some.
func Notes(out *bytes.Buffer, r *rel1.Release) {
	if r.Info.Notes != "" {
		fmt.Fprintf(out, "NOTES:\n%s\n", r.Info.Notes)
	}
}

// Values prints values: all that templates see, or those that a user has set.
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

// Metadata prints what a release is called, where it is and of what it was made.
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
			{"APPLY_METHOD", applied(m.ApplyMethod)},
		} {
			fmt.Fprintf(out, "%s: %v\n", line.name, line.value)
		}
	})
}

// applied says how objects were written.
func applied(method string) string {
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
