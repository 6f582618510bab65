package schema

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/kube/helmfile"
)

// TestHelmfileAsRead: what the schema refuses, the reader refuses too; and both refuse unknown and unsupported keys.
func TestHelmfileAsRead(t *testing.T) {
	schema := resolved(t, "helmfile")
	values := []string{`true`, `7`, `"text"`, `"background"`, `["a"]`, `[{name: a, value: b}]`, `{a: b}`, `null`, `[{nosuch: 1}]`}
	dir := t.TempDir()
	places := map[string]string{
		"file":            "%s: %s\n",
		"helmDefaults":    "helmDefaults: {%s: %s}\nreleases: [{name: r, chart: ./c}]\n",
		"release":         "releases: [{name: r, chart: ./c, %s: %s}]\n",
		"repository":      "repositories: [{name: r, url: https://example.com, %s: %s}]\n",
		"environment":     "environments: {default: {%s: %s}}\n",
		"helmfiles":       "helmfiles: [{path: ./none-*.yaml, %s: %s}]\n",
		"hook":            "releases: [{name: r, chart: ./c, hooks: [{events: [presync], command: x, %s: %s}]}]\n",
		"kubectlApply":    "releases: [{name: r, chart: ./c, hooks: [{events: [presync], kubectlApply: {filename: x, %s: %s}}]}]\n",
		helmfile.ImageKey: "releases: [{name: r, chart: ./c, hooks: [{events: [presync], lockstep/image: {name: x, %s: %s}}]}]\n",
		"set":             "releases: [{name: r, chart: ./c, set: [{name: x, %s: %s}]}]\n",
	}
	for place, format := range places {
		keys := helmfile.Keys(place)
		for _, key := range append(slices.Sorted(maps.Keys(keys)), "nosuch") {
			for _, value := range values {
				text := fmt.Sprintf(format, key, value)
				var doc any
				if err := yaml.UnmarshalStrict([]byte(text), &doc); err != nil {
					continue // the key is there twice
				}
				refused := schema.Validate(doc)
				read := readText(t, dir, text)
				if refused != nil && read == nil {
					t.Errorf("%s: the schema refuses %s: %v", place, text, refused)
				}
				if advice, known := keys[key]; (!known || advice != "" && value == `"text"`) && (refused == nil || read == nil) {
					t.Errorf("%s: %s: the reader says %v, the schema %v", place, text, read, refused)
				}
			}
		}
	}
}

// readText reads a helmfile in dir, next to a chart, with the values of its releases.
func readText(t *testing.T, dir, text string) error {
	t.Helper()
	for name, content := range map[string]string{"helmfile.yaml": text, "c/Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := helmfile.Read(context.Background(), helmfile.Options{Path: dir, Environment: "default"})
	if err != nil {
		return err
	}
	for _, r := range file.Releases {
		if _, _, err := r.Merge(context.Background(), nil, os.ReadFile); r.Installed && err != nil {
			return err
		}
	}
	return nil
}

// TestHelmfilesMatch: the helmfiles of the repository match the schema.
func TestHelmfilesMatch(t *testing.T) {
	schema := resolved(t, "helmfile")
	files, err := filepath.Glob("../../../testdata/stacks/*/helmfile.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("helmfiles: %v, %v", files, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
