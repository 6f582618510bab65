package charts

import (
	"reflect"
	"strings"
	"testing"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// TestSortsLikeHelm: documents are sorted as by Helm, or left to Helm.
func TestSortsLikeHelm(t *testing.T) {
	object := func(kind, name string, annotations ...string) string {
		return "kind: " + kind + "\napiVersion: v1\nmetadata:\n  name: " + name + "\n  annotations: {" + strings.Join(annotations, ", ") + "}\n"
	}
	plain := Outputs{
		{"shop/templates/z.yaml", object("Service", "a") + "---\n# only a comment\n--- \n" + object("Zebra", "b") + "---\n" + object("Secret", "c")},
		{"shop/templates/NOTES.txt", "notes: ["},
		{"shop/templates/b.yaml", object("Job", "d", `helm.sh/hook: "pre-install,post-install"`, `helm.sh/hook-weight: "2"`, `helm.sh/hook-delete-policy: hook-failed`) + "---" + object("Ant", "e")},
		{"shop/charts/db/templates/b.yaml", object("ConfigMap", "f", "helm.sh/hook: test") + "---\n" + object("Zebra", "g") + "---\n" + object("Job", "h", "helm.sh/hook: never")},
		{"shop/templates/a.yaml", "kind: Pod\n\n---\nkind: Service\nmetadata:\n  annotations: {a: null}\n  name:"},
		{"shop/templates/empty.yaml", " \n"},
	}
	for _, odd := range []string{
		"", "Kind: Pod", "kind: 1", "kind: Pod\nmetadata: {name: 1}", "metadata: {annotations: {a: true}}", "metadata: x", "metadata: {Name: a}",
		"metadata: {annotations: {a: {}}}", "[]", "text", "kind: [", "kind: yes", "data: {1: 2, b: 1.5}\nkind: Pod", "{}", "null",
	} {
		outputs := append(plain[:len(plain):len(plain)], templateOutput{"shop/templates/odd.yaml", odd})
		files := map[string]string{}
		for _, o := range outputs {
			if !isNotes(o.name) {
				files[o.name] = o.text
			}
		}
		hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
		var manifest strings.Builder
		for _, m := range manifests {
			manifest.WriteString("---\n# Source: " + m.Name + "\n" + m.Content + "\n")
		}
		got := outputs.sort()
		switch {
		case got == nil && odd == "":
			t.Error("plain documents are left to Helm")
		case got == nil:
		case err != nil:
			t.Errorf("%q: sorted, but Helm refuses it: %v", odd, err)
		case got.manifest != manifest.String():
			t.Errorf("%q: manifest\n%s\nwant\n%s", odd, got.manifest, manifest.String())
		case !reflect.DeepEqual(got.hooks, hooks):
			t.Errorf("%q: hooks %v, want %v", odd, got.hooks, hooks)
		case len(got.values) != len(manifests):
			t.Errorf("%q: %d values of %d documents", odd, len(got.values), len(manifests))
		}
	}
}
