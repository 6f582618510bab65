package chartvalues

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	release "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"

	"lockstep/kube/charts"
	"lockstep/kube/mask"
)

// load writes a chart and loads it. Without a Chart.yaml it has one.
func load(t *testing.T, version string, files map[string]string) Version {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: " + version + "\n"}
	maps.Copy(all, files)
	for name, text := range all {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Helm()
	if err != nil {
		t.Fatal(err)
	}
	return Version{Chart: h}
}

type files = map[string]string

// sub is a dependency, db, that is called aliased.
const sub = "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: db, alias: aliased, version: 1.0.0}]\n"

// TestCompare: what has no effect, what changed, and what is required. A value is unused only if nothing in the new version can
// refer to it.
func TestCompare(t *testing.T) {
	old := files{"templates/a.yaml": "{{ .Values.gone }}{{ .Values.image.tag }}{{ .Values.free }}"}
	for _, test := range []struct {
		name          string
		before, after files
		mine          string
		want          []string
	}{
		{"a key that no template reads", old, files{"templates/a.yaml": "{{ .Values.image.name }}"}, "gone: 1\nimage: {tag: 2, name: 3}", []string{"unused gone", "unused image.tag"}},
		{"a key that neither version knows", old, old, "other: 1", nil},
		{"a key of values.yaml", old, files{"values.yaml": "gone: 2"}, "gone: 1", nil},
		{"a key of the schema", old, files{"values.schema.json": `{"properties": {"gone": {"type": "string"}}}`}, "gone: 1", nil},
		{"a schema with other means", old, files{"values.schema.json": `{"patternProperties": {"^g": {}}}`}, "gone: 1", nil},
		{"only in a condition: not below it", files{"templates/a.yaml": "{{ .Values.a.b }}"}, files{"templates/a.yaml": "{{ if and .Values.a (not .Values.x) }}y{{ end }}"}, "a: {b: 1}", []string{"unused a.b"}},
		{"the parent as a whole", files{"templates/a.yaml": "{{ .Values.a.b }}"}, files{"templates/a.yaml": "{{ toYaml .Values.a }}"}, "a: {b: 1}", nil},
		{"all values", old, files{"templates/a.yaml": "{{ .Values | toYaml }}"}, "gone: 1", nil},
		{"with", files{"templates/a.yaml": "{{ .Values.a.b }}"}, files{"templates/a.yaml": "{{ with .Values.a }}{{ .b }}{{ end }}"}, "a: {b: 1}", nil},
		{"range", files{"templates/a.yaml": "{{ .Values.a.b }}"}, files{"templates/a.yaml": "{{ range $k, $v := .Values.a }}{{ $v }}{{ end }}"}, "a: {b: 1}", nil},
		{"index with constants", old, files{"templates/a.yaml": `{{ index .Values "gone" }}`}, "gone: 1\nimage: {tag: 1}", []string{"unused image.tag"}},
		{"index with something else", old, files{"templates/a.yaml": `{{ index .Values (printf "go%s" "ne") }}`}, "gone: 1", nil},
		{"the root in a variable", old, files{"templates/a.yaml": `{{ $root := . }}{{ $root.Values.gone }}`}, "gone: 1\nimage: {tag: 1}", []string{"unused image.tag"}},
		{"the values in a variable", old, files{"templates/a.yaml": `{{ $v := .Values }}{{ $v.gone }}`}, "gone: 1", nil},
		{"an include", old, files{"templates/a.yaml": `{{ include "x" . }}`, "templates/_h.tpl": `{{ define "x" }}{{ .Values.gone }}{{ end }}{{ define "never" }}{{ .Values.free }}{{ end }}`}, "gone: 1\nfree: 1", []string{"unused free"}},
		{"an include of a part", files{"templates/a.yaml": "{{ .Values.a.b }}"}, files{"templates/a.yaml": `{{ include "x" (dict "v" .Values.a) }}`, "templates/_h.tpl": `{{ define "x" }}{{ .v.b }}{{ end }}`}, "a: {b: 1}", nil},
		{"an include with a name from values", old, files{"templates/a.yaml": `{{ include .Values.which . }}`, "templates/_h.tpl": `{{ define "x" }}{{ .Values.gone }}{{ end }}`}, "gone: 1", nil},
		{"tpl of my own text", old, files{"templates/a.yaml": `{{ tpl .Values.text . }}`}, "gone: 1\ntext: '{{ .Values.gone }}'", nil},
		{"tpl of a file", old, files{"templates/a.yaml": `{{ tpl (.Files.Get "x.txt") . }}`, "x.txt": "{{ .Values.gone }}"}, "gone: 1", nil},
		{"the context of a dictionary", old, files{"templates/a.yaml": `{{ include "x" (dict "context" $) }}`, "templates/_h.tpl": `{{ define "x" }}{{ .context.Values.gone }}{{ end }}`}, "gone: 1", nil},
		{"a broken template", old, files{"templates/a.yaml": "{{ if }}"}, "gone: 1", nil},
		{"a subchart's key by its alias", files{"Chart.yaml": sub, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0", "charts/db/templates/a.yaml": "{{ .Values.size }}{{ .Values.global.zone }}"},
			files{"Chart.yaml": sub, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0", "charts/db/templates/a.yaml": "{{ .Values.bytes }}"},
			"aliased: {size: 1, bytes: 2}\nglobal: {zone: a}", []string{"unused aliased.size", "unused global.zone"}},
		{"a global that a subchart reads", old, files{"Chart.yaml": sub, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0", "charts/db/templates/a.yaml": "{{ .Values.global.zone }}"}, "global: {zone: a}", nil},
		{"a dropped subchart", files{"Chart.yaml": sub, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0", "charts/db/templates/a.yaml": "{{ .Values.size }}"}, files{}, "aliased: {size: 1}", []string{"unused aliased.size"}},
		{"a condition of a dependency", files{"templates/a.yaml": "{{ .Values.db.enabled }}"},
			files{"Chart.yaml": strings.Replace(sub, "alias: aliased", "condition: db.enabled", 1), "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0"}, "db: {enabled: true}", nil},
		{"a changed default", files{"values.yaml": "a: 1\nb: 1\nc: [1]\nd: {e: 1}\nf: 1"}, files{"values.yaml": "a: 2\nb: 2\nc: [1, 2]\nd: {e: 1, new: 1}\nf: 1"}, "b: 1", []string{"default a 1 → 2", "default c [1] → [1,2]"}},
		{"a default that is gone, but read", files{"values.yaml": "a: 1\nb: 1"}, files{"templates/a.yaml": "{{ .Values.a }}"}, "", []string{"default a 1 → "}},
		{"a secret default", files{"values.yaml": "password: hunter2hunter2\nurl: pg://u:hunter2hunter2@db"}, files{"values.yaml": "password: swordfish99\nurl: pg://u:swordfish99@db"}, "",
			[]string{"default password (hidden) → (hidden)", `default url "pg://u:(hidden)@db" → "pg://u:(hidden)@db"`}},
		{"a default of a subchart", files{"Chart.yaml": sub, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0", "charts/db/values.yaml": "size: 1"},
			files{"Chart.yaml": sub, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0", "charts/db/values.yaml": "size: 2"}, "", []string{"default aliased.size 1 → 2"}},
		{"required by the schema", files{}, files{"values.schema.json": `{"required": ["a", "set", "b"], "properties": {"b": {"required": ["c"]}}}`, "values.yaml": "b: {}"}, "set: 1", []string{"required a values.schema.json", "required b.c values.schema.json"}},
		{"required by a template", files{"templates/a.yaml": `{{ required "x" .Values.before }}`}, files{"templates/a.yaml": `{{ required "x" .Values.before }}{{ .Values.a.b | required "x" }}`}, "", []string{"required a.b templates"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mine := map[string]any{}
			if err := yaml.Unmarshal([]byte(test.mine), &mine); err != nil {
				t.Fatal(err)
			}
			changes, err := Compare(load(t, "1.0.0", test.before), load(t, "2.0.0", test.after), mine)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				line := fmt.Sprintf("%s %s", c.Kind, c.Path)
				if c.Kind == Default {
					line += " " + c.Old + " → " + c.New
				}
				if c.By != "" {
					line += " " + c.By
				}
				got = append(got, line)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q\nwant %q", got, test.want)
			}
		})
	}
}

// TestSecretsOfARelease: a default that the release has in a Secret is hidden whatever it is called, and so is what the new version has
// in its place (R46a, S14).
func TestSecretsOfARelease(t *testing.T) {
	old := load(t, "1.0.0", files{"values.yaml": "plain: canary-one\nsize: 1"}).Chart
	stored := &release.Release{Name: "r", Chart: old, Manifest: "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: canary-one}\n"}
	changes, err := Compare(OfRelease(stored), load(t, "2.0.0", files{"values.yaml": "plain: canary-two\nsize: 2"}), nil)
	want := []Change{{Kind: Default, Path: "plain", Old: mask.Hidden, New: mask.Hidden}, {Kind: Default, Path: "size", Old: "1", New: "2"}}
	for i := range changes {
		changes[i].Old = strings.Trim(changes[i].Old, `"`)
	}
	if err != nil || !slices.Equal(changes, want) {
		t.Errorf("%v, %v, want %v", changes, err, want)
	}
}

// FuzzCompare checks that no template or schema makes Compare panic, and that a version never makes values unused for itself.
func FuzzCompare(f *testing.F) {
	f.Add("{{ with .Values.a }}{{ .b }}{{ end }}", `{"properties": {"a": {"$ref": "#"}}}`, "a: {b: 1}")
	f.Add("{{ index .Values }}{{ (index . 0).Values.x }}{{ required }}", `{"required": [""]}`, "x: [1]")
	f.Fuzz(func(t *testing.T, template, schema, mine string) {
		values := map[string]any{}
		if yaml.Unmarshal([]byte(mine), &values) != nil {
			return
		}
		same := files{"templates/a.yaml": template, "values.schema.json": schema}
		if changes, err := Compare(load(t, "1.0.0", same), load(t, "1.0.0", same), values); err == nil && len(changes) > 0 {
			t.Errorf("%v", changes)
		}
	})
}
