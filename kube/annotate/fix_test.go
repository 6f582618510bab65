package annotate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/kube/charts"
)

// fixChart fixes a chart in dir, and returns the lines that changed as "file:line old → new".
func fixChart(t *testing.T, dir string) (lines []string) {
	t.Helper()
	c, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := options
	o.FindIncompatible = true
	r, err := charts.Render(t.Context(), c, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := Fix(t.Context(), Source{Dir: dir, Options: o, Rendered: r})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range fixed.Lines {
		lines = append(lines, strings.TrimSpace(strings.Join(l.Old, "|"))+" → "+strings.TrimSpace(strings.Join(l.New, "|")))
	}
	if err := fixed.Write(); err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestFix(t *testing.T) { // R1, R2b, R3
	const db, web = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: db\n  annotations:\n    helm.sh/resource-group: database\n", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  annotations:\n    helm.sh/resource-group: web\n"
	const needs, one = "    helm.sh/depends-on-resource-groups: '[\"database\"]'\n", "    helm.sh/depends-on-resource-groups: "
	tests := []struct{ name, more, want string }{ // more and want are the rest of the annotations of web
		{"right", needs, needs},
		{"two slashes", "    helm.sh/depends-on/resource-groups: '[\"database\"]' # why\n", needs[:len(needs)-1] + " # why\n"},
		{"a list", one + "[database] # why\n", needs[:len(needs)-1] + " # why\n"},
		{"a block list", one + "\n    - database\n", needs},
		{"an indented block list with two slashes", "    helm.sh/depends-on/resource-groups:\n      - \"database\"\n", needs},
		{"a list with a comment stays", one + "\n    - database # why\n", one + "\n    - database # why\n"},
		{"a misspelt key", "    helm.sh/depend-on-resource-group: '[\"database\"]'\n", needs},
		{"a misspelt name", one + "'[\"databse\"]'\n", needs},
		{"a misspelt name in a list", one + "[databases]\n", needs},
		{"an unknown name stays", one + "'[\"cache\"]'\n", one + "'[\"cache\"]'\n"},
		{"a template stays", "    helm.sh/depends-on-resource-groups: '[{{ \"database\" | quote }}]'\n", "    helm.sh/depends-on-resource-groups: '[{{ \"database\" | quote }}]'\n"},
		{"the key of a template", "    helm.sh/depends-on/resource-groups: '[{{ \"database\" | quote }}]'\n", "    helm.sh/depends-on-resource-groups: '[{{ \"database\" | quote }}]'\n"},
		{"text that looks alike", needs + "data:\n  a: |\n    helm.sh/depends-on/resource-groups: [database]\n", needs + "data:\n  a: |\n    helm.sh/depends-on/resource-groups: [database]\n"},
		{"a branch that is not rendered", needs + "{{- if .Values.no }}\ndata:\n  a: |\n    helm.sh/depends-on/resource-groups: [database]\n{{- end }}\n",
			needs + "{{- if .Values.no }}\ndata:\n  a: |\n    helm.sh/depends-on/resource-groups: [database]\n{{- end }}\n"},
		{"both keys", needs + "    helm.sh/depends-on-resource-group: '[\"web\"]'\n", needs + "    helm.sh/depends-on-resource-group: '[\"web\"]'\n"},
		{"line ends of Windows", "    helm.sh/depends-on/resource-groups: [database]\r\n    a: b\r\n", needs[:len(needs)-1] + "\r\n    a: b\r\n"},
		{"no line end", "    helm.sh/depends-on/resource-groups: [database]", needs[:len(needs)-1]},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
			put(t, dir, "templates/db.yaml", db)
			put(t, dir, "templates/web.yaml", web+test.more)
			lines := fixChart(t, dir)
			if got := read(t, dir, "templates/web.yaml"); got != web+test.want {
				t.Errorf("the file is\n%s\nwant\n%s\nfixed: %q", got, web+test.want, lines)
			}
			if (len(lines) > 0) != (test.more != test.want) {
				t.Errorf("fixed %q", lines)
			}
			if again := fixChart(t, dir); len(again) > 0 {
				t.Errorf("fixed again: %q", again)
			}
			if read(t, dir, "templates/db.yaml") != db {
				t.Error("another file changed")
			}
		})
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFixChartYAML: keys and lists of Chart.yaml, also of a subchart, but not in other text.
func TestFixChartYAML(t *testing.T) { // R1, R2b, R4
	dir := t.TempDir()
	const head = "apiVersion: v2\nname: c\nversion: 1.0.0\ndescription: |\n  dependsOn: [db]\n  helm.sh/depends-on/subchart: [db]\n"
	const before = head + "annotations:\n  helm.sh/depends-on/subchart: '[\"web\"]' # own\ndependencies:\n- name: db\n  version: 1.0.0\n- name: web\n  version: 1.0.0\n  dependsOn: [db]\n"
	const after = head + "annotations:\n  helm.sh/depends-on/subcharts: '[\"web\"]' # own\ndependencies:\n- name: db\n  version: 1.0.0\n- name: web\n  version: 1.0.0\n  depends-on: [db]\n"
	put(t, dir, "Chart.yaml", before)
	for _, sub := range []string{"db", "web"} {
		put(t, dir, "charts/"+sub+"/Chart.yaml", "apiVersion: v2\nname: "+sub+"\nversion: 1.0.0\n")
		put(t, dir, "charts/"+sub+"/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "+sub+"\n  annotations:\n    helm.sh/resource-grup: a\n")
	}
	lines := fixChart(t, dir)
	if got := read(t, dir, "Chart.yaml"); got != after || len(lines) != 4 {
		t.Errorf("the file is\n%s\nfixed: %q", got, lines)
	}
	if got := read(t, dir, "charts/web/templates/a.yaml"); !strings.Contains(got, "\n    helm.sh/resource-group: a\n") {
		t.Errorf("the template of the subchart is\n%s", got)
	}
}
