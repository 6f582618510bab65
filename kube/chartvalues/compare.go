package chartvalues

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	release "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"

	"lockstep/kube/charts"
	"lockstep/kube/mask"
)

// Kind says what a new version does to a value.
type Kind string

// The kinds of changes.
const (
	// Unused is a value of mine that the old version knows and the new one does not: it has no effect any more.
	Unused Kind = "unused"
	// Default is a changed default of a value that is not mine.
	Default Kind = "default"
	// Required is a value that the new version requires, the old one did not, and nobody sets.
	Required Kind = "required"
)

// Change is what a new version does to one value.
type Change struct {
	Kind Kind
	// Path has the keys of the value, with dots between them.
	Path string
	// Old and New are defaults as JSON, "" for none. Secrets are hidden.
	Old string
	New string
	// By says what requires the value.
	By string
}

// Version is a version of a chart.
type Version struct {
	Chart *chart.Chart
	// Release has the chart if that was stored with a release: Helm has processed its dependencies, and has not stored its subcharts.
	Release *release.Release
}

// OfRelease returns the version of the chart that a release was made from.
func OfRelease(r *release.Release) Version { return Version{Chart: r.Chart, Release: r} }

// Compare returns what the new version of a chart does to values, which are mine, sorted by kind and path. It calls a value unused
// only if no template, schema or default of the new version, or of its subcharts, can refer to it.
func Compare(before, after Version, mine map[string]any) (out []Change, err error) {
	var known [2]*knowledge
	var defaults [2]map[string]any
	secrets := &mask.Mask{}
	for i, v := range []Version{before, after} {
		known[i] = know(v.Chart, mine)
		if defaults[i], err = v.defaults(mine); err != nil {
			return nil, err
		}
		secrets.AddRelease(v.Release)
		secrets.AddValues(defaults[i])
	}
	leaves(nil, mine, func(p path, _ any) {
		if known[0].known.has(p) && !known[1].known.has(p) {
			out = append(out, Change{Kind: Unused, Path: p.String()})
		}
	})
	add := func(p path, old, now any) {
		if !setBy(mine, p) && known[1].known.has(p) && !reflect.DeepEqual(old, now) {
			c := Change{Kind: Default, Path: p.String()}
			c.Old, c.New = shown(secrets, p, old, now)
			out = append(out, c)
		}
	}
	leaves(nil, defaults[0], func(p path, old any) {
		now, _ := find(defaults[1], p)
		if m, isMap := now.(map[string]any); !isMap || len(m) == 0 { // else its keys are new
			add(p, old, now)
		}
	})
	for _, key := range slices.Sorted(maps.Keys(known[1].required)) {
		r := known[1].required[key]
		_, before := known[0].required[key]
		parent, exists := find(defaults[1], r.path[:len(r.path)-1])
		if before || isSet(mine, r.path) || isSet(defaults[1], r.path) || len(r.path) > 1 && r.by == bySchema && (!exists || parent == nil) && !setBy(mine, r.path[:len(r.path)-1]) {
			continue
		}
		out = append(out, Change{Kind: Required, Path: r.path.String(), By: r.by})
	}
	return out, nil
}

// defaults returns the values of the chart and its enabled subcharts. It changes the chart as Helm's actions do, unless that is
// stored.
func (v Version) defaults(mine map[string]any) (map[string]any, error) {
	if v.Release == nil {
		if err := chartutil.ProcessDependencies(v.Chart, charts.CopyValues(mine)); err != nil {
			return nil, fmt.Errorf("chart %s: dependencies: %w", v.Chart.Name(), err)
		}
	}
	values, err := util.CoalesceValues(v.Chart, map[string]any{})
	if err != nil {
		return nil, fmt.Errorf("chart %s: values: %w", v.Chart.Name(), err)
	}
	out := map[string]any{} // Helm's maps have another type
	data, err := yaml.Marshal(values)
	if err == nil {
		err = yaml.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("chart %s: values: %w", v.Chart.Name(), err)
	}
	return out, nil
}

// setBy reports whether values set a path, or something above or below it.
func setBy(values map[string]any, p path) bool {
	var at any = values
	for _, key := range p {
		m, isMap := at.(map[string]any)
		if !isMap {
			return true // a scalar or a list replaces the map
		}
		var ok bool
		if at, ok = m[key]; !ok {
			return false
		}
	}
	return true
}

// isSet reports whether values have a value at a path that is not empty.
func isSet(values map[string]any, p path) bool {
	v, ok := find(values, p)
	return ok && v != nil && v != ""
}

// shown returns a default of both versions as JSON. It hides values that are named like credentials or that are secrets of the
// release. If it hides one of the two, it hides at least that much of the other: both go to the same place.
func shown(secrets *mask.Mask, p path, old, now any) (string, string) {
	var texts [2]string
	hides := false
	for i, v := range []any{old, now} {
		texts[i] = asJSON(v)
		masked := secrets.Text(texts[i])
		hides = hides || masked != texts[i]
		texts[i] = masked
	}
	argument := p[len(p)-1] + "=x"
	named := (*mask.Mask)(nil).Argument("set", argument) != argument
	for i := range texts {
		if texts[i] != "" && (named || hides && !strings.Contains(texts[i], mask.Hidden)) {
			texts[i] = mask.Hidden
		}
	}
	return texts[0], texts[1]
}

// asJSON returns a value on one line, "" for none.
func asJSON(v any) string {
	if v == nil {
		return ""
	}
	text, err := yaml.Marshal(v)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return ""
	}
	return string(text)
}
