package charts

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

func crdFile(name string) string {
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + "}\n"
}

// withCRD returns a chart whose crds/ has one CRD, named like the chart.
func withCRD(name string, more ...string) tree {
	return tree{"Chart.yaml": chartYAML(name, more...), "crds/c.yaml": crdFile(name)}
}

// TestCRDs compares the CRDs of charts with those that Helm would install: none of subcharts that conditions or tags
// disable, and one of each name.
func TestCRDs(t *testing.T) {
	type values = map[string]any
	off := func(name string) values { return values{name: values{"enabled": false}} }
	dependency := func(name string, more ...string) string {
		return "- {name: " + name + ", version: 1.0.0, condition: " + name + ".enabled" + strings.Join(more, "") + "}\n"
	}
	root := func(dependencies ...string) tree {
		return tree{"Chart.yaml": chartYAML("shop", "dependencies:\n", strings.Join(dependencies, "")), "crds/c.yaml": crdFile("shop")}
	}
	archive := func(sub tree, name string) tree {
		return tree{"charts/" + name + "-1.0.0.tgz": packed(t, name, sub)}
	}
	nested := plus(withCRD("db", "dependencies:\n", dependency("disk")), in("charts/disk", withCRD("disk")))
	for name, c := range map[string]struct {
		chart  tree
		values values
		want   string
	}{
		"undeclared":       {plus(tree{"Chart.yaml": chartYAML("shop"), "crds/v1/a.yaml": crdFile("a")}, in("charts/crds", withCRD("c"))), nil, "shop/a shop/c/c"},
		"enabled":          {plus(root(dependency("db")), in("charts/db", withCRD("db"))), nil, "shop/shop shop/db/db"},
		"condition":        {plus(root(dependency("db")), in("charts/db", withCRD("db"))), off("db"), "shop/shop"},
		"archive":          {plus(root(dependency("db")), archive(withCRD("db"), "db")), off("db"), "shop/shop"},
		"alias":            {plus(root(dependency("db", ", alias: store")), in("charts/db", withCRD("db"))), off("db"), "shop/shop"},
		"packed alias":     {plus(root(dependency("db", ", alias: store")), archive(withCRD("db"), "db")), off("db"), "shop/shop"},
		"two aliases":      {plus(root(dependency("db", ", alias: one"), dependency("db", ", alias: two")), in("charts/db", withCRD("db"))), nil, "shop/shop shop/two/db"},
		"one of two":       {plus(root("- {name: db, version: 1.0.0, alias: one, condition: one.enabled}\n- {name: db, version: 1.0.0, alias: two, condition: two.enabled}\n"), in("charts/db", withCRD("db"))), off("one"), "shop/shop shop/two/db"},
		"chart's default":  {plus(root(dependency("db")), tree{"values.yaml": "db: {enabled: false}\n"}, in("charts/db", withCRD("db"))), nil, "shop/shop"},
		"first of a list":  {plus(root("- {name: db, version: 1.0.0, condition: 'one.enabled,two.enabled'}\n"), in("charts/db", withCRD("db"))), values{"one": values{"enabled": false}, "two": values{"enabled": true}}, "shop/shop"},
		"second of a list": {plus(root("- {name: db, version: 1.0.0, condition: 'one.enabled,two.enabled'}\n"), in("charts/db", withCRD("db"))), off("two"), "shop/shop"},
		"global":           {plus(root("- {name: db, version: 1.0.0, condition: global.db}\n"), in("charts/db", withCRD("db"))), values{"global": values{"db": false}}, "shop/shop"},
		"tag":              {plus(root("- {name: db, version: 1.0.0, tags: [data]}\n"), in("charts/db", withCRD("db"))), values{"tags": values{"data": false}}, "shop/shop"},
		"nested":           {plus(root(dependency("db")), in("charts/db", nested)), values{"db": off("disk")}, "shop/shop shop/db/db"},
		"parent of nested": {plus(root(dependency("db")), in("charts/db", nested)), off("db"), "shop/shop"},
		"nested, enabled":  {plus(root(dependency("db")), in("charts/db", nested)), nil, "shop/shop shop/db/db shop/db/disk/disk"},
		"library":          {plus(root(dependency("db")), in("charts/db", withCRD("db", "type: library\n"))), nil, "shop/shop shop/db/db"},
		"disabled library": {plus(root(dependency("db")), in("charts/db", withCRD("db", "type: library\n"))), off("db"), "shop/shop"},
		"imported value":   {plus(root("- {name: lib, version: 1.0.0, import-values: [conditions]}\n", dependency("db")), in("charts/lib", tree{"Chart.yaml": chartYAML("lib"), "values.yaml": "exports: {conditions: {db: {enabled: false}}}\n"}), in("charts/db", withCRD("db"))), nil, "shop/shop shop/db/db"},
		"same CRD":         {plus(root(dependency("db"), dependency("mq")), in("charts/db", withCRD("db")), in("charts/mq", tree{"Chart.yaml": chartYAML("mq"), "crds/c.yaml": crdFile("shop") + "---\n" + crdFile("mq")})), nil, "shop/mq/shop shop/db/db shop/mq/mq"},
		"without list":     {plus(tree{"Chart.yaml": chartYAML("shop")}, in("charts/db", nested)), values{"db": off("disk")}, "shop/db/db shop/db/disk/disk"},
	} {
		dir := write(t, c.chart)
		ours, err := LoadPath(dir)
		if err != nil {
			t.Fatal(name, err)
		}
		docs, err := ours.CRDs(c.values, false)
		if err != nil {
			t.Fatal(name, err)
		}
		if name == "same CRD" { // a create on the client leaves an existing CRD as it is
			first, err := ours.CRDs(c.values, true)
			if err != nil || len(first) == 0 || first[0].Chart != "shop" {
				t.Errorf("%s, client-side: %+v, %v", name, first, err)
			}
		}
		var got, names []string
		for _, d := range docs {
			got, names = append(got, d.Chart+"/"+d.Object.GetName()), append(names, d.Object.GetName())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, " "), c.want)
		}
		if helms := helmCRDs(t, dir, c.values); !slices.Equal(sortedNames(names), helms) {
			t.Errorf("%s: %s, Helm installs %s", name, names, helms)
		}
	}
}

// helmCRDs returns the names of the CRDs that Helm would install, sorted.
func helmCRDs(t *testing.T, dir string, values map[string]any) (names []string) {
	t.Helper()
	h, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := chartutil.ProcessDependencies(h, CopyValues(values)); err != nil {
		t.Fatal(err)
	}
	for _, crd := range h.CRDObjects() {
		for line := range strings.Lines(string(crd.File.Data)) {
			if name, ok := strings.CutPrefix(line, "metadata: {name: "); ok {
				names = append(names, strings.TrimSuffix(strings.TrimSpace(name), "}"))
			}
		}
	}
	return slices.Compact(sortedNames(names))
}

func sortedNames(names []string) []string {
	slices.Sort(names)
	return names
}
