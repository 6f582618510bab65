package annotate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// TestPlaces writes the group of an object into templates of many forms. want is the complete
// text; if it is "", the place is refused for the reason in manual.
func TestPlaces(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n"
	group := func(indent string) string { return indent + "helm.sh/resource-group: web\n" }
	tests := []struct {
		name, template, values string
		want, manual           string
	}{
		{"no annotations", head + "data: {}\n", "",
			head + "  annotations:\n" + group("    ") + "data: {}\n", ""},
		{"no annotations, deep indentation", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n    # who\n    name: web # it\n", "",
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n    # who\n    name: web # it\n    annotations:\n" + group("      "), ""},
		{"no line end at the end", strings.TrimSuffix(head, "\n"), "",
			head + "  annotations:\n" + strings.TrimSuffix(group("    "), "\n"), ""},
		{"CRLF line ends", strings.ReplaceAll(head+"data: {}\n", "\n", "\r\n"), "",
			strings.ReplaceAll(head+"  annotations:\n"+group("    ")+"data: {}\n", "\n", "\r\n"), ""},
		{"some annotations", head + "  annotations: # here\n      note: |\n        name: x\n", "",
			head + "  annotations: # here\n" + group("      ") + "      note: |\n        name: x\n", ""},
		{"empty annotations", head + "  annotations:\n", "",
			head + "  annotations:\n" + group("    "), ""},
		{"labels from a helper after the name", "{{- define \"l\" }}a: b{{ end }}\n" + head + "  labels:\n    {{- include \"l\" . | nindent 4 }}\n", "",
			"{{- define \"l\" }}a: b{{ end }}\n" + head + "  annotations:\n" + group("    ") + "  labels:\n    {{- include \"l\" . | nindent 4 }}\n", ""},
		{"annotations under a condition that is false",
			head + "  {{- with .Values.annotations }}\n  annotations:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\ndata: {}\n", "",
			head + "  {{- with .Values.annotations }}\n  annotations:\n" + group("    ") + "    {{- toYaml . | nindent 4 }}\n  {{- else }}\n  annotations:\n" + group("    ") + "  {{- end }}\ndata: {}\n", ""},
		{"annotations under a condition that is true",
			head + "  {{- with .Values.annotations }}\n  annotations:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\ndata: {}\n", "annotations: {a: b}",
			head + "  {{- with .Values.annotations }}\n  annotations:\n" + group("    ") + "    {{- toYaml . | nindent 4 }}\n  {{- else }}\n  annotations:\n" + group("    ") + "  {{- end }}\ndata: {}\n", ""},
		{"annotations on one line, under a condition",
			head + "  {{- if .Values.annotations }}\n  annotations: {{- toYaml .Values.annotations | nindent 4 }}\n  {{- end }}\ndata: {}\n", "annotations: {a: b}",
			head + "  {{- if .Values.annotations }}\n  annotations: {{- toYaml .Values.annotations | nindent 4 }}\n" + group("    ") + "  {{- else }}\n  annotations:\n" + group("    ") + "  {{- end }}\ndata: {}\n", ""},
		{"annotations in both branches",
			head + "  {{- if .Values.x }}\n  annotations:\n    a: b\n  {{- else }}\n  annotations:\n    c: d\n  {{- end }}\n", "",
			head + "  {{- if .Values.x }}\n  annotations:\n" + group("    ") + "    a: b\n  {{- else }}\n  annotations:\n" + group("    ") + "    c: d\n  {{- end }}\n", ""},
		{"annotations from a value, next to others",
			head + "  annotations:\n    a: b\n    {{- with .Values.annotations }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n", "",
			head + "  annotations:\n" + group("    ") + "    a: b\n    {{- with .Values.annotations }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n", ""},
		{"an object under a condition", "{{- if true }}\n" + head + "{{- end }}\n", "",
			"{{- if true }}\n" + head + "  annotations:\n" + group("    ") + "{{- end }}\n", ""},
		{"an item of a list", "apiVersion: v1\nkind: List\nitems:\n- metadata:\n    name: web\n  kind: ConfigMap\n  apiVersion: v1\n", "",
			"apiVersion: v1\nkind: List\nitems:\n- metadata:\n    name: web\n    annotations:\n" + group("      ") + "  kind: ConfigMap\n  apiVersion: v1\n", ""},
		{"several objects at one place", "{{- range list \"web\" \"web2\" }}\n---\n" + strings.Replace(head, "name: web", "name: {{ . }}", 1) + "{{- end }}\n", "",
			"{{- range list \"web\" \"web2\" }}\n---\n" + strings.Replace(head, "name: web", "name: {{ . }}", 1) + "  annotations:\n" + group("    ") + "{{- end }}\n", ""},
		{"several objects at one place, one in another group", "{{- range list \"web\" \"other\" }}\n---\n" + strings.Replace(head, "name: web", "name: {{ . }}", 1) + "{{- end }}\n", "",
			"", "this place renders 2 objects of several groups"},
		{"a checksum of the file itself", head + "data:\n  sum: {{ .Files.Get \"templates/x.yaml\" | sha256sum }}\n", "",
			head + "  annotations:\n" + group("    ") + "data:\n  sum: {{ .Files.Get \"templates/x.yaml\" | sha256sum }}\n", ""},
		{"something random", head + "data:\n  password: {{ randAlphaNum 12 }}\n", "",
			head + "  annotations:\n" + group("    ") + "data:\n  password: {{ randAlphaNum 12 }}\n", ""},
		{"annotations from a value only", head + "  annotations:\n    {{- toYaml .Values.annotations | nindent 4 }}\ndata: {}\n", "annotations: {a: b}",
			head + "  annotations:\n" + group("    ") + "    {{- if .Values.annotations }}\n    {{- toYaml .Values.annotations | nindent 4 }}\n    {{- end }}\ndata: {}\n", ""},
		{"annotations from a value, on one line", head + "  annotations: {{- toYaml .Values.annotations | nindent 4 }}\ndata: {}\n", "annotations: {}",
			head + "  annotations:\n" + group("    ") + "    {{- if .Values.annotations }} {{- toYaml .Values.annotations | nindent 4 }}\n    {{- end }}\ndata: {}\n", ""},
		{"annotations from a helper that prints no block", "{{- define \"n\" }}{a: b}{{ end }}\n" + head + "  annotations: {{ include \"n\" . }}\n", "", "", byHelper},
		{"annotations in braces", head + "  annotations: {a: b}\n", "", "", notBlockStyle},
		{"metadata in braces", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n", "", "", flowMetadata},
		{"metadata from a helper", "{{- define \"m\" }}name: web{{ end }}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  {{- include \"m\" . | nindent 2 }}\n", "", "", noMetadata},
		{"an object from a helper", "{{- define \"o\" }}\n" + head + "{{ end }}\n{{- include \"o\" . }}\n", "", "", "not written in the template"},
		{"a name that continues on the next line", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: w{{- \"e\" -}}\n  b\n", "",
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n" + group("    ") + "  name: w{{- \"e\" -}}\n  b\n", ""},
		{"a template comment of several lines", "{{- /* metadata:\n  name: no\n*/}}\n" + head, "",
			"{{- /* metadata:\n  name: no\n*/}}\n" + head + "  annotations:\n" + group("    "), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
			put(t, dir, "values.yaml", test.values)
			put(t, dir, "templates/x.yaml", test.template)
			r := render(t, dir)
			res, err := Prepare(t.Context(), source(dir, r), grouped(r, "web"))
			if err != nil {
				t.Fatal(err)
			}
			checkEdit(t, res, test.want, test.manual)
		})
	}
}

// grouped returns an order in which all objects whose names start with group are in it.
func grouped(r *charts.Rendered, group string) Order {
	o := Order{Tree: r.Tree}
	for _, res := range r.Resources {
		if strings.HasPrefix(res.Object.Name, group) {
			res.Annotations = map[string]string{plan.AnnotationGroup: group}
		}
		o.Resources = append(o.Resources, res)
	}
	return o
}

func put(t *testing.T, dir, name, data string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}
