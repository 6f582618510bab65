package helmfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep/kube/mask"
)

// writeFiles writes files, each after a line "== name", and returns their directory.
func writeFiles(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range strings.Split("\n"+text, "\n== ")[1:] {
		name, content, _ := strings.Cut(part, "\n")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// describe returns a line for each release.
func describe(t *testing.T, dir string, f *File) (out []string) {
	t.Helper()
	for _, r := range f.Releases {
		values := map[string]any{}
		if r.Installed {
			var err error
			if values, _, err = r.Merge(t.Context(), nil, os.ReadFile); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s %s %s", r.ID(), strings.Replace(r.Chart, dir, "", 1), text)
		for _, more := range [][]string{r.Needs, r.After} {
			line += " " + fmt.Sprint(more)
		}
		if !r.Installed {
			line += " not installed"
		}
		out = append(out, line)
	}
	return out
}

// TestRead reads helmfiles as helmfile 1.8 does (S1).
func TestRead(t *testing.T) {
	for _, test := range []struct {
		name, files string
		options     Options
		want        []string
	}{
		{"needs default to the release's namespace and context", `
== helmfile.yaml
releases:
- {name: a, namespace: x, chart: ./a}
- {name: b, namespace: x, chart: ./a, needs: [a]}
- {name: c, namespace: y, kubeContext: far, chart: ./a}
- {name: d, chart: ./a, needs: [x/b, far/y/c]}`, Options{},
			[]string{"x/a /a {} [] []", "x/b /a {} [x/a] []", "far/y/c /a {} [] []", "d /a {} [x/b far/y/c] []"}},
		{"values: files, inline, then set", `
== helmfile.yaml
releases:
- name: a
  chart: stable/app
  set: [{name: k.m, value: "1,2"}, {name: l, values: [x, "y,z"]}]
  setString: [{name: s, value: 3}]
  values: [v.yaml, {b: {c: 2}}]
== v.yaml
b: {c: 1, d: 1}
k: {o: 0}`, Options{}, []string{`a stable/app {"b":{"c":2,"d":1},"k":{"m":"1,2","o":0},"l":["x","y,z"],"s":"3"} [] []`}},
		{"inline values are written as YAML and read by Helm", `
== helmfile.yaml
releases: [{name: a, chart: ./a, values: [{n: 1000000, d: 2025-11-01, s: "1", t: yes}]}]`, Options{},
			[]string{`a /a {"d":"2025-11-01T00:00:00Z","n":1000000,"s":"1","t":"yes"} [] []`}},
		{"defaults, anchors and merge keys", `
== helmfile.yaml
templates:
  base: &base {namespace: x, chart: ./a, timeout: 5}
releases:
- <<: *base
  name: a
- {<<: *base, name: b, namespace: y, installed: false}`, Options{}, []string{"x/a /a {} [] []", "y/b  {} [] [] not installed"}},
		{"a value that equals a key does not hide a merged key", `
== helmfile.yaml
releases: [{<<: {chart: ./a, installed: false}, name: chart, labels: {x: installed}}]`, Options{}, []string{"chart  {} [] [] not installed"}},
		{"the environment decides conditions", `
== helmfile.yaml
environments:
  default: {values: [{a: {enabled: true}, b: {}}]}
  prod: {values: [{a: {enabled: true}}, p.yaml]}
---
releases:
- {name: a, chart: ./a, condition: a.enabled}
- {name: b, chart: ./a, condition: b.enabled, needs: [a]}
== p.yaml
a: {enabled: false}
b: {enabled: true}`, Options{Environment: "prod"}, []string{"b /a {} [] []"}},
		{"values from the command line win", `
== helmfile.yaml
environments: {default: {values: [{a: {enabled: true}}]}}
---
releases: [{name: a, chart: ./a, condition: a.enabled}, {name: b, chart: ./a}]`,
			Options{StateValuesSet: []string{"a.enabled=false"}}, []string{"b /a {} [] []"}},
		{"bases add, parts replace", `
== helmfile.yaml
bases: [base.yaml]
releases: [{name: b, chart: ./a}]
---
commonLabels: {x: y}
== base.yaml
releases: [{name: a, chart: ./a}]
helmDefaults: {createNamespace: false}`, Options{Selectors: []string{"x=y"}}, []string{"a /a {} [] []", "b /a {} [] []"}},
		{"documents inside a part add", "\n== helmfile.yaml\nreleases: [{name: a, chart: ./a}]\n--- # more\nreleases: [{name: b, chart: ./a}]", Options{},
			[]string{"a /a {} [] []", "b /a {} [] []"}},
		{"a later part replaces lists", "\n== helmfile.yaml\nreleases: [{name: a, chart: ./a}]\n---\nreleases: [{name: b, chart: ./a}]", Options{},
			[]string{"b /a {} [] []"}},
		{"included files come first", `
== helmfile.yaml
helmfiles: [one.yaml, {path: two.yaml, selectors: [name=d]}]
releases: [{name: z, chart: ./a}]
== one.yaml
releases: [{name: a, chart: ./a}, {name: b, chart: ./a}]
== two.yaml
releases: [{name: c, chart: ./a}, {name: d, chart: ./a}]`, Options{},
			[]string{"a /a {} [] []", "b /a {} [] []", "d /a {} [] [a b]", "z /a {} [] [a b d]"}},
		{"files of helmfile.d do not wait for each other", `
== helmfile.d/1.yaml
releases: [{name: a, chart: ../a}]
== helmfile.d/2.yaml
releases: [{name: b, chart: ../a}]`, Options{}, []string{"a /a {} [] []", "b /a {} [] []"}},
		{"selectors", `
== helmfile.yaml
releases:
- {name: a, chart: ./a, labels: {tier: x}}
- {name: b, chart: ./a, labels: {tier: y}, needs: [a]}
- {name: c, chart: ./a}`, Options{Selectors: []string{"tier=y", "tier!=x,name!=b"}}, []string{"b /a {} [] []", "c /a {} [] []"}},
		{"a namespace for all", `
== helmfile.yaml
releases: [{name: a, namespace: x, chart: ./a}, {name: b, chart: ./a, needs: [a]}]`,
			Options{Namespace: "n"}, []string{"n/a /a {} [] []", "n/b /a {} [n/a] []"}},
		{"what Helm does anyway", "\n== helmfile.yaml\nhelmDefaults: {cascade: background}\nreleases: [{name: a, chart: ./a, cascade: background}]", Options{}, []string{"a /a {} [] []"}},
		{"a directive before the first part", "\n== helmfile.yaml\n%YAML 1.1\n---\nreleases: [{name: a, chart: ./a}]", Options{}, []string{"a /a {} [] []"}},
		{"the output of helmfile build", `
== helmfile.yaml
---
#  Source: /nowhere/helmfile.yaml

filepath: helmfile.yaml
environments: {default: {}}
bases: [gone.yaml]
releases:
- {name: a, chart: repo/app, values: [{x: "{{ .Release.Name }}"}], valuesTemplate: [{y: 1}], condition: c.enabled}
renderedvalues: {c: {enabled: true}}`, Options{}, []string{`a repo/app {"x":"{{ .Release.Name }}"} [] []`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := writeFiles(t, test.files)
			test.options.Path = dir
			f, err := Read(context.Background(), test.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(t, dir, f); !slices.Equal(got, test.want) {
				t.Errorf("read\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestReadErrors: errors have the key, the line and advice.
func TestReadErrors(t *testing.T) {
	t.Setenv("PATH", "")
	const a = "releases:\n- name: a\n  chart: ./a\n"
	for _, test := range []struct{ text, want string }{
		{a + "  readiness: {Thing: {success: '{.a'}}", "helmfile.yaml:4: release a: readiness: the readiness of Thing: expression \"{.a\": no closing brace"}, // R22b
		{a + "  adopt: [apps/Deployment/a]", "lockstep does not support helmfile's adopt; remove it, and set takeOwnership: true on the release"},
		{a + "  forceNamespace: x", "lockstep does not support helmfile's forceNamespace; remove it, and set namespace on the release"},
		{"helmDefaults: {stripArgsValuesOnExitError: true}", "does not support helmfile's stripArgsValuesOnExitError; remove it; or ignore it with --lenient\n"},
		{"helmDefaults: {strategicMergePatches: [a]}", "does not support helmfile's strategicMergePatches; set it on each release"},
		{"helmDefaults: {cascade: orphan}", "does not support helmfile's cascade; remove it: Helm deletes in the background\n"},
		{"helmDefaults: {force: true}", "does not support helmfile's force; remove it; to replace the objects of one release, use: lockstep upgrade --force-replace"},
		{a + "  colour: red", "helmfile.yaml:4: unknown key \"colour\" in release a: helmfile 1.8 has none; correct it, or see: lockstep help helmfile"},
		{a + "  timeout: 5m", "helmfile.yaml:4: release a: timeout must be a whole number"},
		{a + "  installed: maybe", "helmfile.yaml:4: release a: installed must be true or false"},
		{a + "  values: [gone.yaml]", "helmfile.yaml:4: release a: values file gone.yaml does not exist"},
		{a + "  values: ['{{ .Release.Name }}.yaml']", "helmfile.yaml:4: templates need helmfile, which is not in PATH"},
		{a + "  values:\n  - '{{ .Release.Name }}.yaml'\n  - b.yaml.gotmpl", "helmfile.yaml:5: templates need helmfile"},
		{a + "  values: [{pw: ref+vault://x}]", "helmfile.yaml:4: release a: references (ref+) need vals, which is not in PATH; install it"},
		{a + "  secrets: [helmfile.yaml]", "helmfile.yaml:4: release a: secrets: decrypting helmfile.yaml needs sops, or Helm with its plugin secrets, and neither is installed"},
		{a + "  secrets: [gone.yaml]", "helmfile.yaml:4: release a: secrets: file gone.yaml does not exist"},
		{a + "  transformers: [x.yaml]", "helmfile's transformers; they can run programs and rename objects; write the change as jsonPatches or strategicMergePatches"},
		{a + "  jsonPatches: [{target: {kind: Service}}]", "helmfile.yaml:4: release a: jsonPatches: a JSON patch needs a list of operations under patch"},
		{a + "  strategicMergePatches: [x.yaml.gotmpl]", "helmfile.yaml:4: release a: strategicMergePatches: lockstep does not render templates of patches; write x.yaml.gotmpl as plain YAML"},
		{a + "  strategicMergePatches: [{kind: Secret, data: {a: ref+vault://x}}]", "lockstep does not resolve references (ref+) in patches"},
		{"templates: {x: &x {namespace: 'n-{{`{{ .Environment.Name }}`}}'}}\nreleases: [{name: a, chart: ./a, <<: *x}]", "helmfile.yaml:1: templates need helmfile"},
		{a + "  needs: [b]", "helmfile.yaml:2: release a needs b, which"},
		{a + "- name: a\n  chart: ./b", "helmfile.yaml:4: release a is already defined at "},
		{a + "  condition: a.enabled", "helmfile.yaml:4: release a: condition a.enabled: a is not set in the values of helmfile environment \"default\""},
		{a + "  set: [{value: x}]", "helmfile.yaml:4: release a: an entry of set needs a name"},
		{a + "  set: [{name: password, value: 'hunter\\,SeCr3t'}]", `set password: invalid set: part 2, after password=…, has no value; write a comma inside a value as \,` + "\n"},
		{"releases:\n- chart: ./a", "helmfile.yaml:2: release 1 has no name"},
		{"releases: {a: b}", "helmfile.yaml:1: releases must be a list"},
		{"a: &a {<<: *a}", "anchor 'a' value contains itself"},
		{"helmfiles: [gone/*.yaml]", "helmfiles: gone/*.yaml does not exist"},
		{"helmfiles: [helmfile.yaml]", "include each other"},
	} {
		dir := writeFiles(t, "== helmfile.yaml\n"+test.text)
		f, err := Read(context.Background(), Options{Path: dir})
		for i := 0; err == nil && i < len(f.Releases); i++ { // S12: values are read when they are needed
			if _, _, err = f.Releases[i].Merge(t.Context(), nil, os.ReadFile); err == nil {
				_, err = f.Releases[i].Patches(os.ReadFile)
			}
		}
		if err == nil || !strings.Contains(err.Error()+"\n", test.want) {
			t.Errorf("%s\nerror: %v\nwant:  %s", test.text, err, test.want)
		}
	}
	dir := writeFiles(t, "== helmfile.yaml\nreleases: [{name: a, chart: ./a}]")
	if _, err := Read(context.Background(), Options{Path: dir, Environment: "prod"}); err == nil || !strings.Contains(err.Error(), `environment "prod" is not defined`) {
		t.Errorf("an unknown environment: %v", err)
	}
	if _, err := Read(context.Background(), Options{Path: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no helmfile in") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestKeysAreDocumented checks that the help page lists all keys, and no others.
func TestKeysAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../ui/cli/help/helmfile.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range keysOf {
		for key := range table {
			if !strings.Contains(string(text), "`"+key+"`") {
				t.Errorf("the page does not name %s", key)
			}
		}
	}
}

// FuzzRead checks that no input makes Read panic or hang.
func FuzzRead(f *testing.F) {
	f.Add("releases: [{name: a, chart: b, needs: [x/y]}]")
	f.Add("a: &a {<<: *a}\nreleases: *a")
	f.Add("helmDefaults: {timeout: 5}\n---\nbases: [helmfile.yaml]\nhelmfiles: ['*']")
	f.Fuzz(func(t *testing.T, text string) {
		t.Setenv("PATH", "")
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "helmfile.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Read(context.Background(), Options{Path: dir})
		if err != nil {
			return
		}
		for _, r := range file.Releases {
			if r.Name == "" || r.Chart == "" {
				t.Errorf("a release without name or chart: %+v", r)
			}
		}
	})
}

// TestPacked reads the output of Packed: the releases are the same, except for the paths of charts
// and values.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	source := `
releases:
- {name: a, namespace: data, chart: ./a, values: [{x: 1}], labels: {tier: back}, syncReleaseLabels: true, timeout: 90, historyMax: 3}
- {name: b, namespace: web, chart: ./b, needs: [data/a], createNamespace: false, atomic: true, cleanupOnFail: true, waitForJobs: true, disableHooks: true, skipSchemaValidation: true}
- {name: c, chart: ./b, version: 1.x, disableOpenAPIValidation: true, reuseValues: true, takeOwnership: true, skipCRDs: true, enableDNS: true, description: "it's c", readiness: {Thing.example.org: {success: "{.phase} == Up", timeout: 2m}, app=debug: {wait: false}}}
- {name: d, chart: ./b, continueOnError: true, secretPaths: [/x/y], strategicMergePatches: [{apiVersion: v1, kind: Secret, metadata: {name: x}}], jsonPatches: [{target: {kind: Pod}, patch: [{op: remove, path: /x}]}]}
- {name: gone, namespace: web, chart: ./b, installed: false, needs: [web/b]}
`
	read := func(text string) *File {
		t.Helper()
		path := filepath.Join(dir, "helmfile.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Read(t.Context(), Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := read(source)
	for _, r := range f.Releases {
		file := filepath.Join(dir, r.ValuesFile())
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	charts := map[string]string{}
	for _, r := range f.Releases {
		charts[r.ID()] = "./charts/" + r.Name + ".tgz"
	}
	text, err := f.Packed(charts, map[string]mask.Paths{"d": {"/x/y"}}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	packed := read(string(text))
	if len(packed.Releases) != len(f.Releases) {
		t.Fatalf("%d releases", len(packed.Releases))
	}
	for n, got := range packed.Releases {
		want := f.Releases[n]
		if want.Installed && got.Chart != filepath.Join(dir, charts[want.ID()]) {
			t.Errorf("%s: chart %s", want.ID(), got.Chart)
		}
		if one, other := patchesOf(t, got), patchesOf(t, want); one != other {
			t.Errorf("%s: patches %d, want %d", want.ID(), one, other)
		}
		for _, r := range []*Release{&got, &want} {
			r.Chart, r.Version, r.values, r.At, r.position, r.SkipDeps = "", "", nil, "", position{}, false
			if len(r.Needs) == 0 {
				r.Needs = nil
			}
			if len(r.Labels) == 0 {
				r.Labels = nil
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v, want\n%+v", want.ID(), got, want)
		}
	}
}

// TestWithoutContexts drops contexts, also from needs, and keeps the namespaces that they stand for.
func TestWithoutContexts(t *testing.T) {
	f := &File{Releases: []Release{
		{Name: "a", Namespace: "data", Context: "near"}, {Name: "b", FallbackContext: "near", Needs: []string{"near/data/a"}},
		{Name: "c", Context: "near", After: []string{"near/data/a", "b"}},
	}}
	got, err := f.WithoutContexts(map[string]string{"near": "web"})
	want := []Release{{Name: "a", Namespace: "data"}, {Name: "b", Namespace: "web", Needs: []string{"data/a"}}, {Name: "c", Namespace: "web", After: []string{"data/a", "web/b"}}}
	if err != nil || !reflect.DeepEqual(got.Releases, want) || f.Releases[0].Context != "near" {
		t.Errorf("%+v, %v", got, err)
	}
	f.Releases = append(f.Releases, Release{Name: "a", Namespace: "data"})
	if _, err := f.WithoutContexts(nil); err == nil || !strings.Contains(err.Error(), "already defined") {
		t.Errorf("a release that is defined twice: %v", err)
	}
}

// patchesOf returns the number of patches of a release.
func patchesOf(t *testing.T, r Release) int {
	t.Helper()
	if !r.Installed {
		return 0
	}
	list, err := r.Patches(os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestAddNeedsKeepsLinks: needs are added to the target of a link, and the mode stays the same.
func TestAddNeedsKeepsLinks(t *testing.T) {
	dir := writeFiles(t, "== real/helmfile.yaml\nreleases:\n- name: a\n  chart: repo/a\n- name: b\n  chart: repo/b")
	link, real := filepath.Join(dir, "helmfile.yaml"), filepath.Join(dir, "real/helmfile.yaml")
	if err := errors.Join(os.Symlink(real, link), os.Chmod(real, 0o640)); err != nil {
		t.Fatal(err)
	}
	f, err := Read(t.Context(), Options{Path: link})
	if err != nil {
		t.Fatal(err)
	}
	if files, err := f.AddNeeds(map[string][]string{"b": {"a"}}); err != nil || !slices.Equal(files, []string{link}) {
		t.Fatal(files, err)
	}
	if text, err := os.ReadFile(real); err != nil || !strings.HasSuffix(string(text), "- name: b\n  needs:\n    - a\n  chart: repo/b\n") {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is a file now: %v", err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
