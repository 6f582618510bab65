package annotate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestNamesThatChange annotates objects with random names, alone and next to other random names, which
// are no changes of the annotations. Hooks with random names are not annotated (R60).
func TestNamesThatChange(t *testing.T) {
	const job = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: once-{{ randAlphaNum 8 | lower }}\n"
	const hook = job + "  annotations:\n    helm.sh/hook: test\n"
	for template, files := range map[string]int{job: 2, job + "---\n" + job: 2, hook: 1, hook + "---\n" + hook: 1, job + "---\n" + hook: 2} {
		dir := t.TempDir()
		put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
		put(t, dir, "templates/a.yaml", template)
		put(t, dir, "templates/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n")
		r := render(t, dir)
		order := Order{Tree: r.Tree}
		for _, res := range r.Resources {
			res.Annotations = map[string]string{plan.AnnotationGroup: "web"}
			order.Resources = append(order.Resources, res)
		}
		res, err := Prepare(t.Context(), source(dir, r), order)
		if err != nil || len(res.Files) != files {
			t.Errorf("%s\n%+v, %v", template, res, err)
		}
	}
}

// TestAllOrNothing (R69a): if one object cannot be annotated, or a group would lose its order
// with another value, nothing is written. With Partial, all groups that do not depend on it
// are written.
func TestAllOrNothing(t *testing.T) {
	object := func(name string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n" }
	byHand := func(name string) string {
		return object(name) + "  annotations: {{ include \"notes\" . }}\n"
	}
	for _, tt := range []struct {
		name    string
		base    string // the template of the group base
		values  string
		written []string // with Partial
		manual  []string
	}{
		{"an object that cannot be written", byHand("base"), "", []string{"db", "worker"},
			[]string{"base: " + byHelper, "web: it waits for group base, which is not written", "front: it waits for group web, which is not written"}},
		{"one of two objects that cannot be written", object("base") + "---\n" + byHand("base-2"), "", []string{"db", "worker"},
			[]string{"base-2: " + byHelper, "web: it waits for group base, which is not written", "front: it waits for group web, which is not written"}},
		{"a condition that cannot be expressed", "{{- range $on := list .Values.base }}{{ if $on }}\n" + object("base") + "{{ end }}{{- end }}\n", "base: true\n", []string{"base", "db", "worker"},
			[]string{"web: with --set base=false it would come last, with the objects that have no group", "front: with --set base=false it would come last, with the objects that have no group"}},
		{"a place that other annotations leave invalid", object("base") + "  annotations:\n    {{ toYaml .Values.notes | indent 4 }}\n", "notes:\n", []string{"db", "worker"},
			[]string{"base: with --set notes={example.com/other: x} annotations there would break its YAML", "web: it waits for group base, which is not written", "front: it waits for group web, which is not written"}},
		{"all can be written", object("base"), "other: true\n", []string{"base", "db", "front", "web", "worker"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
			put(t, dir, "values.yaml", tt.values)
			put(t, dir, "templates/_notes.tpl", "{{ define \"notes\" }}{a: b}{{ end }}")
			put(t, dir, "templates/base.yaml", tt.base)
			needs := map[string]string{"web": `["base"]`, "front": `["web","db"]`, "worker": `["db"]`}
			for _, name := range []string{"db", "front", "web", "worker"} {
				put(t, dir, "templates/"+name+".yaml", object(name))
			}
			r := render(t, dir)
			order := Order{Tree: r.Tree}
			for _, res := range r.Resources {
				group, _, _ := strings.Cut(res.Object.Name, "-")
				more := map[string]string{plan.AnnotationGroup: group}
				if needs[group] != "" {
					more[plan.AnnotationGroupDependsOn] = needs[group]
				}
				maps.Copy(more, res.Annotations)
				res.Annotations = more
				order.Resources = append(order.Resources, res)
			}
			src := source(dir, r)
			whole, err := Prepare(t.Context(), src, order)
			if err != nil || (len(whole.Files) > 0) != (tt.manual == nil) || (len(whole.Manual) > 0) != (tt.manual != nil) {
				t.Errorf("whole: %+v, %v", whole, err)
			}
			src.Partial = true
			part, err := Prepare(t.Context(), src, order)
			if err != nil {
				t.Fatal(err)
			}
			var written, manual []string
			for _, f := range part.Files {
				written = append(written, strings.TrimSuffix(strings.TrimPrefix(f.Name, "templates/"), ".yaml"))
			}
			for _, l := range part.Manual {
				manual = append(manual, fmt.Sprintf("%s: %s", l.Objects[0].Name, l.Why))
			}
			slices.Sort(manual)
			slices.Sort(tt.manual)
			if !slices.Equal(written, tt.written) || !slices.Equal(manual, tt.manual) {
				t.Errorf("written %q, manual %q; want %q, %q", written, manual, tt.written, tt.manual)
			}
		})
	}
}
