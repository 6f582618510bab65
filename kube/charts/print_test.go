package charts

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

func printed(t *testing.T, files tree, o PrintOptions) (string, error) {
	t.Helper()
	r := render(t, files, nil)
	plan, err := r.Plan()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err = r.Print(&b, plan, o)
	return b.String(), err
}

var printChart = tree{
	"Chart.yaml":                 chartYAML("shop", "annotations: {helm.sh/depends-on/subcharts: [db]}\n"),
	"crds/c.yaml":                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: c}\n",
	"templates/a.yaml":           configMap("app", "helm.sh/resource-group: app", listOfDB) + "---\n" + configMap("db", "helm.sh/resource-group: db") + "data:\n  x: |+\n    y\n\n",
	"templates/rest.yaml":        configMap("rest"),
	"templates/hook.yaml":        configMap("hook", "helm.sh/hook: pre-install"),
	"templates/test.yaml":        configMap("test", "helm.sh/hook: test"),
	"charts/db/Chart.yaml":       chartYAML("db"),
	"charts/db/templates/x.yaml": configMap("sub", "helm.sh/resource-group: only"),
}

// TestPrintWithoutObjects (R35): in Helm's order, a manifest without objects is an empty line, before the hooks, as Helm prints it.
func TestPrintWithoutObjects(t *testing.T) {
	hook := configMap("hook", "helm.sh/hook: pre-install")
	r := render(t, tree{"Chart.yaml": chartYAML("shop"), "templates/hook.yaml": hook}, nil)
	for noHooks, want := range map[bool]string{true: "\n", false: "\n---\n# Source: shop/templates/hook.yaml\n" + hook + "\n"} {
		var b bytes.Buffer
		if err := r.Print(&b, nil, PrintOptions{NoHooks: noHooks}); err != nil || b.String() != want {
			t.Errorf("%q, %v, want %q", b.String(), err, want)
		}
	}
}

// TestPrintFiles: files have the bytes of Helm's: a line end more after each document, also the last one, hooks and crds/, whatever the
// order is.
func TestPrintFiles(t *testing.T) {
	const crds = "apiVersion: v1\nkind: C\nmetadata: {name: c}\n---\napiVersion: v1\nkind: C\nmetadata: {name: d}\n"
	hook := configMap("hook", "helm.sh/hook: pre-install")
	r := render(t, tree{
		"Chart.yaml": chartYAML("shop"), "crds/c.yaml": crds, "templates/a.yaml": configMap("a") + "---\n" + configMap("b"), "templates/hook.yaml": hook,
	}, nil)
	order, err := r.Plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, plan := range []*plan.Plan{nil, order} {
		dir := t.TempDir()
		if err := r.Print(io.Discard, plan, PrintOptions{IncludeCRDs: true, OutputDir: dir}); err != nil {
			t.Fatal(err)
		}
		const source = "---\n# Source: shop/"
		for name, want := range map[string]string{
			"crds/c.yaml":         source + "crds/c.yaml\n" + crds + "\n",
			"templates/a.yaml":    source + "templates/a.yaml\n" + configMap("a") + "\n" + source + "templates/a.yaml\n" + configMap("b") + "\n",
			"templates/hook.yaml": source + "templates/hook.yaml\n" + hook + "\n",
		} {
			if got, err := os.ReadFile(filepath.Join(dir, "shop", name)); err != nil || string(got) != want {
				t.Errorf("ordered %t: %s: %q, %v, want %q", plan != nil, name, got, err, want)
			}
		}
	}
}

// TestPrint (R35): like Helm, Print adds a line end after each object, so that block scalars
// that keep line ends are as Helm deploys them.
func TestPrint(t *testing.T) {
	const (
		crd  = "---\n# Source: shop/crds/c.yaml\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: c}\n"
		hook = "---\n# Source: shop/templates/hook.yaml\n"
		test = "---\n# Source: shop/templates/test.yaml\n"
	)
	sub := "## START resource-group: shop/db only\n---\n# Source: shop/charts/db/templates/x.yaml\n" + configMap("sub", "helm.sh/resource-group: only") + "\n## END resource-group: shop/db only\n"
	db := "## START resource-group: shop db\n---\n# Source: shop/templates/a.yaml\n" + configMap("db", "helm.sh/resource-group: db") + "data:\n  x: |+\n    y\n\n\n## END resource-group: shop db\n"
	app := "## START resource-group: shop app\n---\n# Source: shop/templates/a.yaml\n" + configMap("app", "helm.sh/resource-group: app", `helm.sh/depends-on-resource-groups: '["db"]'`) + "\n## END resource-group: shop app\n"
	rest := "---\n# Source: shop/templates/rest.yaml\n" + configMap("rest") + "\n"
	hookBody, testBody := hook+configMap("hook", "helm.sh/hook: pre-install"), test+configMap("test", "helm.sh/hook: test")
	tests := []struct {
		name string
		o    PrintOptions
		want string
	}{
		{"all", PrintOptions{IncludeCRDs: true}, crd + sub + db + app + rest + hookBody + testBody},
		{"no tests, no crds", PrintOptions{SkipTests: true}, sub + db + app + rest + hookBody},
		{"no hooks", PrintOptions{NoHooks: true}, sub + db + app + strings.TrimSuffix(rest, "\n")},
		{"some templates", PrintOptions{ShowOnly: []string{"templates/re*.yaml", "charts/db/templates/x.yaml"}}, sub + strings.TrimSuffix(rest, "\n")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := printed(t, printChart, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
			docs, _, err := ParseManifest(got, "shop")
			if err != nil {
				t.Error(err)
			}
			if n := strings.Count(tt.want, "# Source:"); len(docs) != n {
				t.Errorf("read back %d objects of %d", len(docs), n)
			}
			for _, d := range docs {
				if x := d.Object.Object["data"]; x != nil && x.(map[string]any)["x"] != "y\n\n\n" {
					t.Errorf("data %q", x)
				}
			}
		})
	}
	if got, err := printed(t, printChart, PrintOptions{ShowOnly: []string{"templates/none.yaml"}}); err == nil || got != "" {
		t.Errorf("a missing template: %q, %v", got, err)
	}
	empty := plus(printChart, tree{"templates/off.yaml": "{{ if .Values.on }}" + configMap("off") + "{{ end }}"})
	want := "chart shop: no document comes from templates/off.yaml; check the name, or set the values that enable it"
	if got, err := printed(t, empty, PrintOptions{ShowOnly: []string{"templates/off.yaml"}}); err == nil || err.Error() != want || got != "" {
		t.Errorf("an empty template: %q, %v, want %s", got, err, want)
	}
}

// TestPrintKeepsCommentsAndEndsWithOneLine (R35): documents with comments only are printed,
// as by Helm, and the output ends with one line end.
func TestPrintKeepsCommentsAndEndsWithOneLine(t *testing.T) {
	r := render(t, tree{"Chart.yaml": chartYAML("shop"), "templates/a.yaml": configMap("a"), "templates/b.yaml": "# nothing: here\n"}, nil)
	p, err := r.Plan()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Print(&b, p, PrintOptions{}); err != nil {
		t.Fatal(err)
	}
	want := "---\n# Source: shop/templates/a.yaml\n" + configMap("a") + "\n---\n# Source: shop/templates/b.yaml\n# nothing: here\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
