package charts

import (
	"strings"
	"testing"

	"lockstep/engine/plan"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	release "helm.sh/helm/v4/pkg/release/v1"
)

// FuzzChartYAML: a Chart.yaml is loaded with its ordering or refused. The normalised file has
// no apiVersion v3 and no depends-on left, and planning returns a plan or an error.
func FuzzChartYAML(f *testing.F) {
	for _, s := range []string{
		"annotations:\n  helm.sh/depends-on/subcharts: [db, \"api\"]\ndependencies:\n- {name: db, version: 1.0.0}\n- name: api\n  alias: front\n  depends-on: '[\"db\"]'\n",
		"annotations: &m\n  helm.sh/depends-on/subcharts: &n [*n]\n  <<: *m\n",
		"dependencies: &d\n- *d\n- &e\n  name: db\n  depends-on: *e\n",
		"dependencies: [null, 1, {name: db, depends-on: [db]}]\n",
		"annotations: [helm.sh/depends-on/subcharts]\ndependencies: {name: db}\n",
		"dependencies:\n- {name: db, alias: x, depends-on: [y]}\n- {name: db, alias: y, depends-on: [x]}\n",
		"a: &a [x, x]\nb: &b [*a, *a]\nannotations: {helm.sh/depends-on/subcharts: *b}\n",
		"---\n--- x\n...\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second unsupportedFields
		again := second.extract(chartFile, first.extract(chartFile, data))
		if strings.Contains(string(again), "v3") && second.v3 {
			t.Errorf("apiVersion v3 was not replaced: %q", again)
		}
		if len(second.dependsOnByDependency) > 0 {
			t.Errorf("depends-on was not removed: %q", again)
		}
		files := []*archive.BufferedFile{
			{Name: "Chart.yaml", Data: append([]byte(chartYAML("shop")), data...)},
			{Name: "charts/db/Chart.yaml", Data: []byte(chartYAML("db"))},
			{Name: "charts/api/Chart.yaml", Data: []byte(chartYAML("api"))},
		}
		c, err := fromFiles("shop", files)
		if err != nil {
			return
		}
		(&annotationChecker{}).checkChart(c.root, c.Name())
		root, _, err := c.Tree(nil)
		if err != nil {
			return
		}
		if _, err := plan.Build(root, nil); err == nil && len(root.Faults) > 0 {
			t.Errorf("no error for %v", root.Faults)
		}
	})
}

// FuzzManifest: a manifest is parsed into objects or refused. Normalising it and rewriting its keys does
// not change the plan, and rewriting the keys again changes nothing.
func FuzzManifest(f *testing.F) {
	for _, s := range []string{
		"---\n# Source: shop/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    helm.sh/depends-on/resource-groups: '[\"a\"]'\n    helm.sh/weight: null\n",
		"apiVersion: v1\nkind: List\nx: helm.sh/dep\nitems: &x\n- items: *x\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations: &m\n    helm.sh/weight: 1\n    <<: *m\n",
		"apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}, null, [], 1]\n",
		"# Source: shop/charts/../templates/a.yaml\napiVersion: [v1]\nkind: {a: b}\nmetadata: helm.sh/dep\n",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {generateName: a-}\nspec: {group: 1, names: [x], scope: null}\n",
		"---\n---\n--- helm.sh/dep: x\n%YAML\n...\n",
		"apiVersion: v1\nkind: A\na: &a [x, x, x]\nb: &b [*a, *a, *a]\nmetadata: {annotations: {helm.sh/depends-on/resource-groups: *b}}\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		(&annotationChecker{}).checkTemplate(s)
		manifest := normalise(s)
		stored := RewriteKeys(manifest)
		if again := RewriteKeys(stored); again != stored {
			t.Errorf("%q is stored as %q, then as %q", s, stored, again)
		}
		h := &release.Hook{Name: "h", Path: "shop/templates/h.yaml", Manifest: manifest, Events: []release.HookEvent{release.HookPreInstall}}
		hookScope(h, "shop")
		docs, _, err := ParseManifest(manifest, "shop")
		kept, _, keptErr := ParseManifest(stored, "shop")
		if (err == nil) != (keptErr == nil) || len(docs) != len(kept) {
			t.Fatalf("%d objects, %v; in the record %d, %v", len(docs), err, len(kept), keptErr)
		}
		if err != nil {
			return
		}
		root := &plan.Chart{Path: "shop"}
		before, err := plan.Build(root, Resources(docs, "ns", OfflineScope(docs...)))
		after, keptErr := plan.Build(root, Resources(kept, "ns", OfflineScope(kept...)))
		if (err == nil) != (keptErr == nil) || err == nil && len(before.Groups) != len(after.Groups) {
			t.Errorf("%q: plan %+v, %v; from the record %+v, %v", s, before, err, after, keptErr)
		}
	})
}
