package charts

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// TestOrderInAPackage packages charts as helm package does: the annotation keeps the order of subcharts, the field does not, which is
// found (R4).
func TestOrderInAPackage(t *testing.T) {
	const listed, field = "dependencies: [{name: db, version: 1.0.0}, {name: api, version: 1.0.0}]\n", "dependencies: [{name: db, version: 1.0.0}, {name: api, version: 1.0.0, depends-on: [db]}]\n"
	for name, c := range map[string]struct {
		chart          string
		folder, packed []string // what api waits for
		add            string   // the annotation to add
	}{
		"field":                {field, []string{"db"}, nil, `'{"api": ["db"]}'`},
		"annotation":           {listed + "annotations: {lockstep/depends-on: '{\"api\": [\"db\"]}'}\n", []string{"db"}, []string{"db"}, ""},
		"annotation in YAML":   {listed + "annotations:\n  lockstep/depends-on: |\n    api: [db]\n", []string{"db"}, []string{"db"}, ""},
		"both":                 {field + "annotations: {lockstep/depends-on: '{\"api\": [\"db\"]}'}\n", []string{"db"}, []string{"db"}, ""},
		"field and annotation": {field + "annotations: {lockstep/depends-on: '{\"api\": [\"web\"]}'}\n", []string{"db", "web"}, []string{"web"}, `'{"api": ["db", "web"]}'`},
		"only in charts/":      {"annotations: {lockstep/depends-on: '{\"web\": [\"db\"], \"api\": [\"web\"]}'}\n", []string{"web"}, []string{"web"}, ""},
		"empty":                {listed + "annotations: {lockstep/depends-on: ''}\n", nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := tree{"Chart.yaml": chartYAML("shop") + c.chart}
			for _, sub := range []string{"db", "api", "web"} {
				files = plus(files, in("charts/"+sub, tree{"Chart.yaml": chartYAML(sub), "templates/x.yaml": configMap(sub)}))
			}
			dir := write(t, files)
			checkWaits(t, dir, c.folder, c.add)
			h, err := loader.LoadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			packed, err := chartutil.Save(h, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			checkWaits(t, packed, c.packed, "")
		})
	}
}

// checkWaits checks what subchart api of a chart waits for, and which annotation is missing in its package.
func checkWaits(t *testing.T, path string, want []string, add string) {
	t.Helper()
	c, err := LoadPath(path)
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions
	o.FindIncompatible = true
	r, err := Render(t.Context(), c, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Tree.Subcharts {
		if s.Name == "api" && !slices.Equal(s.DependsOn, want) {
			t.Errorf("%s: api waits for %q, want %q", path, s.DependsOn, want)
		}
	}
	var missing string
	for _, a := range r.Incompatible {
		missing += strings.TrimPrefix(a.Portable, "lockstep/depends-on: ")
	}
	if missing != add {
		t.Errorf("%s: %q is missing, want %q", path, missing, add)
	}
	if _, err := r.Plan(); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// TestFaultyDependsOn refuses an annotation that cannot be read or names no subchart (R2, R12).
func TestFaultyDependsOn(t *testing.T) {
	for value, want := range map[string]string{
		`'["db"]'`:         "must be a mapping",
		`'{"api": {}}'`:    "must be a mapping",
		`'{"x": ["db"]}'`:  `names "x", which is not a subchart`,
		`'{"api": ["x"]}'`: `"x", which is not a subchart`,
		`'{'`:              "must be a mapping",
	} {
		files := tree{"Chart.yaml": chartYAML("shop") + "annotations: {lockstep/depends-on: " + value + "}\n"}
		for _, sub := range []string{"db", "api"} {
			files = plus(files, in("charts/"+sub, tree{"Chart.yaml": chartYAML(sub), "templates/x.yaml": configMap(sub)}))
		}
		if _, err := render(t, files, nil).Plan(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}
