package annotate

import (
	"strings"
	"testing"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// TestConditions annotates groups that are not always rendered. With any of them disabled, the others
// keep their order (R8).
func TestConditions(t *testing.T) {
	configMap := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
	}
	dir := t.TempDir()
	put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
	put(t, dir, "values.yaml", "account: {create: true}\ncache: {enabled: true, kind: own}\nqueue: {enabled: true}\n")
	put(t, dir, "templates/account.yaml", "{{- if .Values.account.create -}}\n"+configMap("base")+"{{- end }}\n")
	put(t, dir, "templates/cache.yaml", "{{- if .Values.cache.enabled }}\n{{- if eq .Values.cache.kind \"own\" }}\n"+configMap("cache")+"{{- else }}\n"+configMap("cache-other")+"{{- end }}\n{{- end }}\n")
	put(t, dir, "templates/queue.yaml", "{{- if .Values.queue.enabled }}\n"+configMap("queue")+"---\n"+configMap("queue-2")+"{{- end }}\n")
	put(t, dir, "templates/db.yaml", configMap("db"))
	put(t, dir, "templates/web.yaml", "{{- with .Values.cache }}\n"+configMap("web")+"{{- end }}\n")
	r := render(t, dir)
	o := Order{Tree: r.Tree}
	needs := map[string]string{"cache": `["base"]`, "db": `["base"]`, "queue": `["base","cache"]`, "queue-2": `["queue-first","cache","base"]`, "web": `["base","cache","db","queue"]`}
	for _, res := range r.Resources {
		name := res.Object.Name
		res.Annotations = map[string]string{plan.AnnotationGroup: name}
		if needs[name] != "" {
			res.Annotations[plan.AnnotationGroupDependsOn] = strings.Replace(needs[name], "queue-first", "queue", 1)
		}
		o.Resources = append(o.Resources, res)
	}
	res, err := Prepare(t.Context(), source(dir, r), o)
	if err != nil || len(res.Manual) > 0 {
		t.Fatal(res, err)
	}
	if err := res.Write(); err != nil {
		t.Fatal(err)
	}
	for _, f := range res.Files {
		for want, in := range map[string]string{
			`'[{{ if $.Values.account.create }}"base"{{ end }}]'`: "templates/db.yaml",
			`'["db"{{ if $.Values.account.create }}, "base"{{ end }}{{ if and ($.Values.cache.enabled) (eq $.Values.cache.kind "own") }}, "cache"{{ end }}{{ if $.Values.queue.enabled }}, "queue"{{ end }}]'`: "templates/web.yaml",
			`'["queue"{{ if and`: "templates/queue.yaml",
		} {
			if in == f.Name && !strings.Contains(string(f.rewrite.New), want) {
				t.Errorf("%s has no %s:\n%s", in, want, f.rewrite.New)
			}
		}
	}
	c, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	for off := range 16 {
		kind := "own"
		if off&8 > 0 {
			kind = "other"
		}
		values := map[string]any{"account": map[string]any{"create": off&1 == 0}, "cache": map[string]any{"enabled": off&2 == 0, "kind": kind}, "queue": map[string]any{"enabled": off&4 == 0}}
		r, err := charts.Render(t.Context(), c, values, options)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Plan()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range p.Warnings {
			if w.Rule == "R8" {
				t.Errorf("%v: %s", values, w)
			}
		}
	}
}
