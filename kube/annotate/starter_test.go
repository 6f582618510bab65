package annotate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"lockstep/kube/charts"
)

// TestStarter annotates the chart of "helm create" with a database added, whose annotations
// are under conditions. The order is right with any combination of enabled objects (R8, R69).
func TestStarter(t *testing.T) {
	dir, err := chartutil.Create("web", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "templates/db.yaml", `{{- if .Values.db.enabled }}
apiVersion: v1
kind: Service
metadata:
  name: db
  {{- with .Values.db.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec: {selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
  {{- if or .Values.db.annotations .Values.common }}
  annotations: {{- toYaml (merge (default dict .Values.db.annotations) (default dict .Values.common)) | nindent 4 }}
  {{- end }}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
{{- end }}
`)
	change(t, filepath.Join(dir, "values.yaml"), func(s string) string { return s + "db: {enabled: true}\n" })
	change(t, filepath.Join(dir, "templates/deployment.yaml"), func(s string) string {
		return strings.Replace(s, "          {{- with .Values.volumeMounts }}", "          env: [{name: DATABASE_HOST, value: db}]\n          {{- with .Values.volumeMounts }}", 1)
	})
	c, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"ingress": map[string]any{"enabled": true}, "autoscaling": map[string]any{"enabled": true}}
	r, err := charts.Render(t.Context(), c, all, options)
	if err != nil {
		t.Fatal(err)
	}
	ordered, _ := r.Ordered()
	res, err := Prepare(t.Context(), Source{Dir: dir, Values: all, Options: options, Rendered: r}, Order{ordered.Tree, ordered.Resources})
	if err != nil || len(res.Manual) > 0 || len(res.Files) != 6 {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := res.Write(); err != nil {
		t.Fatal(err)
	}
	if c, err = charts.LoadPath(dir); err != nil {
		t.Fatal(err)
	}
	on := func(yes bool) map[string]any { return map[string]any{"enabled": yes} }
	for bits := range 16 {
		values := map[string]any{"ingress": on(bits&1 > 0), "autoscaling": on(bits&2 > 0), "serviceAccount": map[string]any{"create": bits&4 > 0, "annotations": map[string]any{"a": "b"}},
			"db": map[string]any{"enabled": bits&8 > 0, "annotations": map[string]any{"a": "b"}}, "common": map[string]any{"c": "d"}}
		r, err := charts.Render(t.Context(), c, values, options)
		if err != nil {
			t.Fatalf("%v: %v", values, err)
		}
		p, err := r.Plan()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range p.Warnings {
			t.Errorf("%v: %s", values, w)
		}
		if web := p.Group("web:web"); web == nil || (len(web.After) > 0) != (bits&8 > 0) {
			t.Errorf("%v: web is %+v", values, web)
		}
	}
}

func change(t *testing.T, file string, how func(string) string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(how(string(data))), 0o644); err != nil {
		t.Fatal(err)
	}
}
