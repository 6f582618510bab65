package cli

import (
	"strings"
	"testing"

	"lockstep/ui/cli/command"
)

// writeChart writes the files of a chart and returns their directory.
func writeChart(t *testing.T, files map[string]string) string {
	t.Helper()
	return writeFiles(t, t.TempDir(), files)
}

const webOf = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: db, annotations: {helm.sh/resource-group: db}}\n---\n" +
	"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  annotations:\n    helm.sh/resource-group: web\n    "

// TestLintHelmCompatibility: for a chart that Helm cannot install (R1, R3), lint prints the spelling that
// works with both programs (R37). A chart in that spelling gets no note. Notes do not make lint fail.
func TestLintHelmCompatibility(t *testing.T) {
	noCluster(t)
	const both = `helm.sh/depends-on-resource-groups: '["db"]'`
	const plain = "apiVersion: v2\nname: shop\nversion: 1.0.0\n"
	tests := []struct {
		name, chart, annotation string
		want                    []string
	}{
		{"list under two slashes", plain, `helm.sh/depends-on/resource-groups: ["db"]`, []string{"[INFO] ConfigMap/web", both, "(R3)"}},
		{"string under two slashes", plain, `helm.sh/depends-on/resource-groups: '["db"]'`, []string{"[INFO] ConfigMap/web", "rename helm.sh/depends-on/resource-groups to helm.sh/depends-on-resource-groups", "(R3)"}},
		{"lists under two slashes", plain, "helm.sh/depends-on/resource-groups: [db]\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, annotations: {helm.sh/resource-group: x, helm.sh/depends-on/resource-groups: [web]}}",
			[]string{"ConfigMap/web and 1 more: ", "write each value as a string, for example " + both, "(R3)"}},
		{"list under one slash", plain, `helm.sh/depends-on-resource-groups: ["db"]`, []string{"[INFO] ConfigMap/web", both, "(R1)"}},
		{"list in Chart.yaml", plain + "annotations: {helm.sh/depends-on/subcharts: []}\n", both, []string{"[INFO] Chart.yaml of shop", `helm.sh/depends-on-subcharts: '[]'`, "(R1)"}},
		{"both", plain, both, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeChart(t, map[string]string{"Chart.yaml": tt.chart, "templates/a.yaml": webOf + tt.annotation + "\n", "values.yaml": ""})
			out, _, err := runCommand("lint", "--strict", dir)
			if err != nil {
				t.Errorf("lint fails because of a note: %v", err)
			}
			note := ""
			for line := range strings.Lines(out) {
				if strings.Contains(line, "Helm ") {
					note += line
				}
			}
			if (note != "") != (tt.want != nil) {
				t.Errorf("note %q in\n%s", note, out)
			}
			for _, part := range tt.want {
				if !strings.Contains(note, part) {
					t.Errorf("the note lacks %q:\n%s", part, out)
				}
			}
		})
	}
}

// TestLintOfInvalidAnnotation: the error about an invalid value says what it must be, and no note
// suggests the same value in another format (R2, R24, R37).
func TestLintOfInvalidAnnotation(t *testing.T) {
	noCluster(t)
	for annotation, want := range map[string]string{
		"helm.sh/depends-on/resource-groups: db":         `must be a list, such as '["db"]', but is 'db'`,
		`helm.sh/readiness-success: "{.a} =="`:           `must be a list, such as '["{.succeeded} >= 1"]', but is '{.a} =='`,
		`helm.sh/readiness-success: ["{.succeeded} =="]`: `no value after ==; add one, for example {.succeeded} == 1`,
	} {
		dir := writeChart(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "templates/a.yaml": webOf + annotation + "\n"})
		out, _, err := runCommand("lint", dir)
		if err == nil || !strings.Contains(out, want) || strings.Contains(out, "Helm cannot install") || strings.Contains(out, "Helm accepts only") {
			t.Errorf("%s: error %v\n%s", annotation, err, out)
		}
	}
}

// TestLintBrokenChart: for a chart that cannot be loaded, lint prints the findings of Helm's lint (R37).
// Lists in Chart.yaml, which lockstep accepts (R1), do not hide them.
func TestLintBrokenChart(t *testing.T) {
	noCluster(t)
	dir := writeChart(t, map[string]string{
		"Chart.yaml":       "apiVersion: v2\nversion: nonsense\nannotations: {helm.sh/depends-on/subcharts: [db]}\n",
		"values.yaml":      "a: : b\n",
		"templates/a.yaml": "{{ .x",
	})
	out, _, err := runCommand("lint", dir)
	if command.ExitCode(err) != command.ExitNothingWritten {
		t.Errorf("exit code %d (%v)", command.ExitCode(err), err)
	}
	for _, part := range []string{"name is required", "'nonsense' is not", "values.yaml: unable to parse YAML", "[INFO] Chart.yaml: icon is recommended"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in the output:\n%s", part, out)
		}
	}
	if strings.Contains(out, "unmarshal array") {
		t.Errorf("the list in Chart.yaml is an error:\n%s", out)
	}
}

// TestLintOfUnnamedObjects: objects that an install would refuse, because they have no name or because
// their annotations are not strings, are errors (R2a, R37).
func TestLintOfUnnamedObjects(t *testing.T) {
	noCluster(t)
	const object = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: "
	dir := writeChart(t, map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/a.yaml":    object + "{labels: {a: b}}" + object + "{generateName: a-}" + object + "{name: x, annotations: {example.com/n: 1}}" + object + "{name: y}",
		"templates/hook.yaml": object + "{annotations: {helm.sh/hook: pre-install}}",
		"templates/list.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: z}}]}",
		"values.yaml":         "none: {}\n",
		"templates/none.yaml": "{{ toYaml .Values.none }}\n",
	})
	out, _, err := runCommand("lint", dir)
	if command.ExitCode(err) != command.ExitNothingWritten {
		t.Errorf("exit code %d (%v)", command.ExitCode(err), err)
	}
	for _, part := range []string{
		"[ERROR] shop/templates/a.yaml: ConfigMap has no name: set metadata.name or metadata.generateName\n",
		"[ERROR] shop/templates/a.yaml: ConfigMap: metadata.name must be a string, but YAML reads it as true; quote it\n",
		"[ERROR] shop/templates/hook.yaml: ConfigMap has no name: set metadata.name or metadata.generateName\n",
		"[ERROR] shop/templates/list.yaml: item 0 of the List is a list itself (ConfigMapList), ",
		"[ERROR] shop/templates/none.yaml: an empty object ({}), ",
		"[ERROR] shop/templates/a.yaml: ConfigMap/x: metadata.annotations must contain strings; quote numbers and booleans: ",
	} {
		if strings.Count(out, part) != 1 {
			t.Errorf("%q is not printed exactly once:\n%s", part, out)
		}
	}
}
