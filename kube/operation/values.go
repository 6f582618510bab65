package operation

import (
	"fmt"
	"strings"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/chartvalues"
	"lockstep/kube/session"
)

// maxNamedValues is how many values a warning names.
const maxNamedValues = 5

// valuesWarnings says what another version of the chart does to the values of the release.
func (d *Deploy) valuesWarnings(old *rel1.Release, mine map[string]any) []plan.Warning {
	h, err := d.Chart.Helm()
	if err != nil || old.Chart == nil || old.Chart.Metadata == nil || old.Chart.Metadata.Version == h.Metadata.Version {
		return nil
	}
	now := h.Name() + "-" + h.Metadata.Version
	changes, err := chartvalues.Compare(chartvalues.Version{Chart: old.Chart, Stored: true}, chartvalues.Version{Chart: h}, mine)
	if err != nil { // the plan explains it
		return nil
	}
	named := map[chartvalues.Kind][]string{}
	for _, c := range changes {
		name := c.Path
		if c.Kind == chartvalues.Default {
			name += " (" + c.Old + " → " + c.New + ")"
		}
		named[c.Kind] = append(named[c.Kind], name)
	}
	var out []plan.Warning
	for _, kind := range []chartvalues.Kind{chartvalues.Unused, chartvalues.Default} {
		names := named[kind]
		if len(names) == 0 {
			continue
		}
		what := "values of the release have no effect in " + now + ", unlike in " + session.ChartName(old)
		if kind == chartvalues.Default {
			what = "defaults that the release does not set change in " + now
		}
		message := fmt.Sprintf("%d %s: %s", len(names), what, strings.Join(names[:min(len(names), maxNamedValues)], ", "))
		if more := len(names) - maxNamedValues; more > 0 {
			message += fmt.Sprintf(" and %s; list them with: lockstep values diff %s CHART -n %s", text.Count(more, "more"), d.Release, d.Namespace)
		}
		out = append(out, plan.Warning{Chart: h.Name(), Message: message})
	}
	return out
}
