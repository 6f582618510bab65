package annotate

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// TestGuards (R69, R69a): next to annotations that only a value or a helper prints, an annotation can be written so that
// the template stays valid, and prints the same annotations as before, whether they are empty or not.
func TestGuards(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  labels: {a: b}\n"
	forms := []string{
		"  annotations:\n    {{- toYaml .Values.x | nindent 4 }}\n",
		"  annotations:\n{{ toYaml .Values.x | indent 4 }}\n",
		"  annotations: {{- toYaml .Values.x | nindent 4 }}\n",
		"  annotations: {{ .Values.x | toYaml | nindent 4 }}\n",
		"  annotations:\n    {{- toYaml $.Values.x | nindent 4 }}\n    {{- toYaml .Values.more | nindent 4 }}\n",
		"  annotations:\n    {{- include \"notes\" . | nindent 4 }}\n",
		"  annotations:\n    {{- tpl (toYaml .Values.x) . | nindent 4 }}\n",
		"  annotations:\n    {{- toYaml (merge (dict) .Values.x .Values.more) | nindent 4 }}\n",
		"  annotations: {{- include \"notes\" . | nindent 4 }}\n",
	}
	values := []string{"{x: {}, more: {}}", "{x: {k: v}, more: {o: p}}", "{x: {}, more: {m: other}}", "{x: {k: v, l: '{{ 1 }}'}, more: {m: other}}", "{x: {t: \"a: b\\nc\"}, more: {}}"}
	for i, form := range forms {
		for j, written := range values[:2] {
			t.Run(fmt.Sprintf("%d, written with values %d", i, j), func(t *testing.T) {
				t.Parallel()
				chart := func(template, values string) string {
					dir := t.TempDir()
					put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
					put(t, dir, "values.yaml", values)
					put(t, dir, "templates/_notes.tpl", "{{ define \"notes\" }}{{ with .Values.x }}{{ toYaml . }}{{ end }}{{ end }}")
					put(t, dir, "templates/x.yaml", template)
					return dir
				}
				dir := chart(head+form+"data: {}\n", written)
				before, err := os.ReadFile(filepath.Join(dir, "templates/x.yaml"))
				if err != nil {
					t.Fatal(err)
				}
				if renderOrFail(t, dir) == nil {
					return // the chart does not accept these values
				}
				r := render(t, dir)
				res, err := Prepare(t.Context(), source(dir, r), grouped(r, "web"))
				if err != nil || len(res.Manual) > 0 {
					t.Fatalf("%v, %+v", err, res)
				}
				if err := res.Write(); err != nil {
					t.Fatal(err)
				}
				after, err := os.ReadFile(filepath.Join(dir, "templates/x.yaml"))
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range values {
					old, now := renderOrFail(t, chart(string(before), v)), renderOrFail(t, chart(string(after), v))
					if old == nil {
						continue // the chart does not accept these values either
					}
					if now == nil || now[plan.AnnotationGroup] != "web" {
						t.Fatalf("with %s: annotations %v in\n%s", v, now, after)
					}
					delete(now, plan.AnnotationGroup)
					if fmt.Sprint(now) != fmt.Sprint(old) {
						t.Errorf("with %s: annotations %v, were %v; in\n%s", v, now, old, after)
					}
				}
			})
		}
	}
}

// renderOrFail returns the annotations of the only object of a chart, nil if it cannot be rendered.
func renderOrFail(t *testing.T, dir string) map[string]string {
	t.Helper()
	c, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := charts.Render(t.Context(), c, nil, options)
	if err != nil || len(r.Docs) != 1 {
		return nil
	}
	annotations := map[string]string{}
	maps.Copy(annotations, r.Docs[0].Object.GetAnnotations())
	return annotations
}

// TestNothingWrittenRestartsNothing: a checksum that changes with each rendering says nothing about the written lines.
func TestNothingWrittenRestartsNothing(t *testing.T) {
	const pods = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %s\nspec:\n  template:\n    metadata:\n      annotations:\n        sum: %s\n---\n"
	for _, group := range []string{"none", "web"} {
		dir := t.TempDir()
		put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
		put(t, dir, "templates/x.yaml", fmt.Sprintf(pods, "random", "{{ randAlphaNum 16 | sha256sum }}")+fmt.Sprintf(pods, "web", `{{ .Files.Get "templates/x.yaml" | sha256sum }}`))
		r := render(t, dir)
		res, err := Prepare(t.Context(), source(dir, r), grouped(r, group))
		if err != nil || len(res.Restarts) != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if wrote := len(res.Files) > 0; wrote != (group == "web") {
			t.Errorf("group %s: files %v", group, res.Files)
		}
	}
}
