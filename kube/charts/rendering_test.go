package charts

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"text/template"

	"lockstep/engine/plan"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
)

const listOfDB = "helm.sh/depends-on/resource-groups: [db]"

// manifestOf renders a chart with Helm alone, or through a Rendering.
func manifestOf(t *testing.T, files tree, through bool) (string, error) {
	t.Helper()
	h, err := load(t, files).Helm()
	if err != nil {
		t.Fatal(err)
	}
	var funcs template.FuncMap
	var r *Rendering
	if through {
		r = NewRendering(t.Context(), h, engine.Engine{}, NewGuard(Limits{}))
		funcs = r.Funcs()
	}
	rel, err := dryInstall(t.Context(), h, funcs, nil, testOptions)
	if r != nil && r.Err() != nil {
		err = r.Err()
	}
	if err != nil {
		return "", err
	}
	return rel.Manifest, nil
}

// TestRenderingKeepsManifest renders charts that Helm accepts to the same bytes as Helm.
func TestRenderingKeepsManifest(t *testing.T) {
	db := tree{"Chart.yaml": chartYAML("db"), "templates/x.yaml": configMap(`{{ .Template.Name | replace "/" "-" }}`, "helm.sh/resource-group: a")}
	tests := []struct {
		name  string
		files tree
	}{
		{"name and base path", tree{"templates/a/b.yaml": configMap(`{{ .Template.Name | replace "/" "." }}.{{ .Template.BasePath | base }}`)}},
		{"definition in the file, used from another", tree{
			"templates/a.yaml": "{{ define \"x\" }}from-a{{ end }}" + configMap(`{{ include "x" . }}`),
			"templates/b.yaml": configMap(`{{ include "x" . }}-b`)}},
		{"checksum of another file", tree{
			"templates/a.yaml": configMap("a", "helm.sh/resource-group: g"),
			"templates/b.yaml": configMap("b", `sum: {{ include (print $.Template.BasePath "/a.yaml") . | sha256sum }}`)}},
		{"a file included with another context", tree{
			"templates/a.yaml": configMap("a", "helm.sh/resource-group: g"),
			"templates/b.yaml": configMap("b", `sum: {{ range list "x" }}{{ include (print $.Template.BasePath "/a.yaml") . | sha256sum }}{{ end }}`)}},
		{"empty files, files with only comments or definitions", tree{
			"templates/a.yaml": "", "templates/b.yaml": "# helm.sh/\n", "templates/c.yaml": "{{ define \"x\" }}{{ end }}\n", "templates/d.yaml": "{{- /* x */ -}}"}},
		{"line ends and odd separators", tree{
			"templates/a.yaml": strings.ReplaceAll(configMap("a", "helm.sh/resource-group: g"), "\n", "\r\n") + "---   \r\n" + configMap("b") + "\n\n---" + configMap("c")}},
		{"one chart under two aliases", plus(in("charts/db", db), tree{
			"Chart.yaml": chartYAML("shop", "dependencies:\n", dep("db", "alias: one"), dep("db", "alias: two"))})},
		{"a definition above replaces one below", plus(in("charts/db", tree{
			"Chart.yaml": chartYAML("db"), "templates/x.yaml": "{{ define \"who\" }}below{{ end }}" + configMap(`{{ include "who" . }}`)}),
			tree{"templates/a.yaml": "{{ define \"who\" }}above{{ end }}"})},
		{"a partial replaces a definition in a file", tree{
			"templates/_h.tpl": "{{ define \"who\" }}partial{{ end }}",
			"templates/a.yaml": "{{ define \"who\" }}file{{ end }}" + configMap(`{{ include "who" . }}`)}},
		{"a library below", plus(in("charts/lib", tree{
			"Chart.yaml": chartYAML("lib", "type: library\n"), "templates/_h.tpl": "{{ define \"who\" }}lib{{ end }}",
			"templates/x.yaml": "{{ fail `not rendered` }}{{ define \"who\" }}wrong{{ end }}"}),
			tree{"templates/a.yaml": configMap(`{{ include "who" . }}`)})},
		{"tpl with an include", tree{
			"templates/_h.tpl": "{{ define \"who\" }}me{{ end }}",
			"templates/a.yaml": configMap("{{ tpl \"{{ include `who` . }}\" . }}")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := plus(tree{"Chart.yaml": chartYAML("shop")}, tt.files)
			want, err := manifestOf(t, files, false)
			if err != nil {
				t.Fatal(err)
			}
			got, err := manifestOf(t, files, true)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("manifest:\n%s\nHelm:\n%s", got, want)
			}
		})
	}
}

// TestRenderingConvertsLists has lists in annotations from all kinds of sources (R1).
func TestRenderingConvertsLists(t *testing.T) {
	tests := []struct {
		name  string
		files tree
	}{
		{"template", tree{"templates/a.yaml": configMap("a", listOfDB)}},
		{"helper", tree{
			"templates/_h.tpl": "{{ define \"h\" }}" + listOfDB + "{{ end }}",
			"templates/a.yaml": configMap("a", `{{ include "h" . }}`)}},
		{"helper of a subchart", plus(
			in("charts/lib", tree{"Chart.yaml": chartYAML("lib", "type: library\n"), "templates/_h.tpl": "{{ define \"h\" }}" + listOfDB + "{{ end }}"}),
			tree{"templates/a.yaml": configMap("a", `{{ include "h" . }}`)})},
		{"values", tree{
			"values.yaml":      "annotations:\n  " + listOfDB + "\n",
			"templates/a.yaml": configMap("a", `{{ toYaml .Values.annotations | nindent 4 }}`)}},
		{"aliased subchart", plus(in("charts/db", tree{"Chart.yaml": chartYAML("db"), "templates/a.yaml": configMap("a", listOfDB)}),
			tree{"Chart.yaml": chartYAML("shop", "dependencies:\n", dep("db", "alias: x"))})},
		{"second document", tree{"templates/a.yaml": "# nothing\n---\n" + configMap("a", listOfDB)}},
		{"list", tree{"templates/a.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {" + listOfDB + "}}}\n"}},
		{"hook", tree{
			"templates/a.yaml": configMap("a", `helm.sh/depends-on/resource-groups: '["db"]'`),
			"templates/b.yaml": configMap("b", "helm.sh/hook: pre-install", listOfDB)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := render(t, plus(tree{"Chart.yaml": chartYAML("shop")}, tt.files), nil)
			if got := r.Resources[0].Annotations[plan.AnnotationGroupDependsOn]; got != `["db"]` {
				t.Errorf("annotation %q", got)
			}
		})
	}
}

// TestChecksumOfLists: the checksum of an included file is that of its text in the chart, as in Helm.
func TestChecksumOfLists(t *testing.T) {
	r := render(t, tree{
		"Chart.yaml":       chartYAML("shop"),
		"templates/a.yaml": configMap("a", listOfDB),
		"templates/b.yaml": configMap("b", `sum: {{ include (print $.Template.BasePath "/a.yaml") . | sha256sum }}`),
	}, nil)
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(configMap("a", listOfDB))))
	if got := r.Resources[1].Annotations["sum"]; got != want {
		t.Errorf("checksum %s, want %s", got, want)
	}
}

// TestStoredTemplates: the stored chart has its original templates.
func TestStoredTemplates(t *testing.T) {
	files := plus(tree{
		"Chart.yaml":          chartYAML("shop", "dependencies:\n", dep("db", "alias: one"), dep("db", "alias: two")),
		"templates/_h.tpl":    "x",
		"templates/a.yaml":    configMap("a", listOfDB),
		"templates/NOTES.txt": "notes of {{ .Release.Name }}",
	}, in("charts/db", tree{"Chart.yaml": chartYAML("db"), "templates/sub/x.yaml": configMap("{{ .Chart.Name }}")}))
	c := load(t, files)
	plain, err := c.Helm()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Render(t.Context(), c, nil, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	if r.Release.Info.Notes != "notes of t" {
		t.Errorf("notes %q", r.Release.Info.Notes)
	}
	sameTemplates(t, r.Release.Chart, plain)
	for _, sub := range r.Release.Chart.Dependencies() {
		sameTemplates(t, sub, plain.Dependencies()[0])
	}
}

func sameTemplates(t *testing.T, got, want *chart.Chart) {
	t.Helper()
	if len(got.Templates) != len(want.Templates) {
		t.Fatalf("%s: %d templates, want %d", got.Name(), len(got.Templates), len(want.Templates))
	}
	for i, f := range want.Templates {
		if g := got.Templates[i]; g.Name != f.Name || string(g.Data) != string(f.Data) {
			t.Errorf("template %s: %q, want %s: %q", g.Name, g.Data, f.Name, f.Data)
		}
	}
}

// TestTemplateErrors compares the errors of templates with Helm's own.
func TestTemplateErrors(t *testing.T) {
	helpers := "{{ define \"h\" }}\n{{ .Values.x.y.z }}{{ end }}"
	tests := []struct{ name, template string }{
		{"syntax", "a: b\n{{ if }}"},
		{"no end", "a: b\n{{ if true }}\n"},
		{"no closing brackets", "a: b\n{{ .Values"},
		{"brackets at the end", "a: {{ fail `boom` }}{"},
		{"no such function", "a: b\n{{ nope }}"},
		{"no such template", "a: b\n{{ include \"nope\" . }}"},
		{"nil", "a: b\n{{ .Values.x.y.z }}"},
		{"in a helper", "a: b\n{{ include \"h\" . }}"},
		{"in a function", "a: b\n{{ index .Values.q 3 }}"},
		{"no YAML", "a: b: c"},
		{"fail", "a: b\n{{ fail `boom` }}"},
		{"required", "a: b\n{{ required `need` .Values.q }}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := tree{"Chart.yaml": chartYAML("shop"), "templates/x.yaml": tt.template, "templates/_h.tpl": helpers}
			_, plain := manifestOf(t, files, false)
			_, err := manifestOf(t, files, true)
			if err == nil || err.Error() != plain.Error() {
				t.Errorf("error:\n%v\nwant:\n%v", err, plain)
			}
			_, err = Render(t.Context(), load(t, files), nil, testOptions)
			want := ExplainError(plain, Outputs{{"shop/templates/x.yaml", tt.template}}, "shop", WrongVersionFlag).Error()
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("Render's error:\n%v\nwant at its end:\n%s", err, want)
			}
		})
	}
	t.Run("aliased", func(t *testing.T) {
		_, err := manifestOf(t, plus(
			tree{"Chart.yaml": chartYAML("shop", "dependencies:\n", dep("db", "alias: x"))},
			in("charts/db", tree{"Chart.yaml": chartYAML("db"), "templates/a.yaml": "a:\n{{ .Values.x.y }}"})), true)
		if got := err.Error(); !strings.HasPrefix(got, "shop/charts/x/templates/a.yaml:2:10\n  executing \"shop/charts/x/templates/a.yaml\" at <.Values.x.y>") {
			t.Errorf("error:\n%s", got)
		}
	})
}

// TestRecursion: the error of a template that includes itself is short.
func TestRecursion(t *testing.T) {
	const self = `{{ include (print .Template.BasePath "/a.yaml") . }}`
	for text, want := range map[string]string{
		`{{ define "x" }}{{ include "x" . }}{{ end }}a: {{ include "x" . }}`: `shop/templates/a.yaml:1:19: template "x" includes itself; remove the include`,
		`{{ define "x" }}{{ include "y" . }}{{ end }}
{{ define "y" }}{{ include "x" . }}{{ end }}a: {{ include "x" . }}`: `shop/templates/a.yaml:2:19: template "x" includes itself; remove the include`,
		"a: " + self: `shop/templates/a.yaml:1:6: template "shop/templates/a.yaml" includes itself; remove the include`,
	} {
		files := tree{"Chart.yaml": chartYAML("shop"), "templates/a.yaml": text}
		c := load(t, files)
		_, err := Render(t.Context(), c, nil, testOptions)
		if want = "chart " + c.path + ": " + want; err == nil || err.Error() != want {
			t.Errorf("%s\nerror: %.300v\nwant:  %s", text, err, want)
		}
	}
}

func TestExplainError(t *testing.T) {
	const place = "shop/templates/a.yaml:1:2\n  executing \"a\" at "
	for text, want := range map[string]string{
		place + "<.Values.x.y.z>:\n    nil pointer evaluating interface {}.y":                                            "; .Values.x is not set; set it, for example with --set x.y=VALUE",
		place + "<$.Values.x.y.z>:\n    nil pointer evaluating interface {}.z":                                           "; $.Values.x.y is not set; set it, for example with --set x.y.z=VALUE",
		place + "<.a.b>:\n    nil pointer evaluating interface {}.b":                                                     "; .a is not set",
		place + "<$x.b>:\n    nil pointer evaluating interface {}.b":                                                     "; $x is not set",
		place + "<.Values.y.y.y>:\n    nil pointer evaluating interface {}.y":                                            "",
		place + "<.b>:\n    nil pointer evaluating interface {}.b":                                                       "",
		place + "<.Values.x.y>:\n    can't evaluate field y in type interface {}":                                        "; .Values.x must be a map",
		place + "<.Files.y>:\n    can't evaluate field y in type interface {}":                                           "",
		"shop/charts/db/templates/a.yaml:1:2\n  executing \"a\" at <.Values.x.y>: nil pointer evaluating interface {}.y": "; .Values.x is not set",
	} {
		if got := ExplainError(errors.New(text), nil, "shop", WrongClusterVersion).Error(); got != text+want {
			t.Errorf("got  %s\nwant %s", got, text+want)
		}
	}
	const (
		invalid  = "values don't meet the specifications of the schema(s) in the following chart(s):\n"
		violated = "the values violate values.schema.json:"
		correct  = "; correct them with -f or --set"

		correctThese = "the values violate values.schema.json; correct these values:"
	)
	for text, want := range map[string]string{
		`error calling include:` + "\n" + `template: no template "nope" associated with template "gotpl"`:         `error calling include: no template "nope"; define it or correct the name`,
		"values don't meet the specifications of the schema(s) in the following chart(s):\nshop:\nunexpected EOF": "values.schema.json of shop: invalid JSON: unexpected EOF",
		invalid + "shop:\n- at '/db/port': got string, want integer\n":                                            violated + " db.port: got string, want integer" + correct,
		invalid + "db:\n- at '/port': got string, want integer\n":                                                 violated + " subchart db: port: got string, want integer" + correct,
		invalid + "shop:\n- at '/db': 'allOf' failed\n  - at '/db': missing property 'tls'\n":                     violated + " db: missing property 'tls'" + correct,
		invalid + "shop:\n- at '/global': validation failed\n  - at '/global/speed': exclusiveMinimum: got -1, want 0\n  - at '/global/name': maxLength: got 9, want 5\n  - at '/global/list': minItems: got 0, want 1\n": correctThese + "\n- global.speed: must be greater than 0, but is -1\n- global.name: must have at most 5 characters, but has 9\n- global.list: must have at least 1 item, but has 0",
		invalid + "shop:\n- at '': 'allOf' failed\n  - at '': 'allOf' failed\n    - at '/a': no\n  - at '/b': 'anyOf' failed\n    - at '/b': no\n- at '/c': no\ndb:\n- at '': no\n":                                       correctThese + "\n- a: no\n- b: anyOf is violated\n  - b: no\n- c: no\n- subchart db: no",
		"chart requires kubeVersion: >=9.0 which is incompatible with Kubernetes v1.37.1":                                                                                                                                 "this version of the chart requires Kubernetes >=9.0, but the cluster runs v1.37.1; use another version of the chart",
		`at <{{template "nope" .}}>: template "nope" not defined`: `at <{{template "nope" .}}>: no template "nope"; define it or correct the name`,
	} {
		if got := ExplainError(errors.New(text), nil, "shop", WrongClusterVersion).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestOutputsThatAreNoManifests: an error about a template's output says which of its documents is wrong, and why.
func TestOutputsThatAreNoManifests(t *testing.T) {
	const first = "---\n# a comment\n---\na: 1\n---\n"
	for text, want := range map[string]string{
		first + "kind: ConfigMap\ndata:\n  a: b: c\n": `invalid YAML in document 3 of the rendered template, line 3 of that document: unexpected ":"; check the indentation`,
		"a: b: c\n":                              `invalid YAML in document 1 of the rendered template, line 1 of that document: unexpected ":"; check the indentation`,
		"%a\n":                                   `invalid YAML in document 1 of the rendered template: found unknown directive name`,
		first + "- a\n":                          `document 3 of the rendered template must be a mapping (key: value), but is a list`,
		"metadata: x\n":                          `metadata of document 1 of the rendered template must be a mapping (key: value), but is a string`,
		"metadata: {name: [x]}\n":                `metadata.name of document 1 of the rendered template must be a string, but is a list`,
		"metadata: {annotations: {a: {b: c}}}\n": `a value in metadata.annotations of document 1 of the rendered template must be a string, but is a mapping`,
	} {
		for file, sub := range map[string]tree{
			"templates/a.yaml":           {"Chart.yaml": chartYAML("shop")},
			"charts/db/templates/a.yaml": {"Chart.yaml": chartYAML("shop"), "charts/db/Chart.yaml": chartYAML("db"), "templates/a.yaml": "a: 1"},
			"charts/x/templates/a.yaml": {"Chart.yaml": chartYAML("shop", "dependencies:\n", dep("db", "alias: x")), "charts/db/Chart.yaml": chartYAML("db"),
				"templates/a.yaml": "a: 1"},
		} {
			c := load(t, plus(sub, tree{strings.Replace(file, "/x/", "/db/", 1): text}))
			if _, err := Render(t.Context(), c, nil, testOptions); err == nil || err.Error() != "chart "+c.path+": "+file+": "+want {
				t.Errorf("%s: %q:\n got %v\nwant %s", file, text, err, want)
			}
		}
	}
	err := errors.New("YAML parse error on shop/templates/a.yaml: error converting YAML to JSON: yaml: line 6: mapping values are not allowed in this context")
	want := `templates/a.yaml: invalid YAML in line 6 of a document of the rendered template: unexpected ":"; check the indentation`
	if got := ExplainError(err, Outputs{{"shop/templates/a.yaml", "a: 1"}}, "shop", WrongClusterVersion).Error(); got != want {
		t.Errorf("after a post-renderer:\n got %s\nwant %s", got, want)
	}
}
