package helmfile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"sigs.k8s.io/yaml"
)

func resolvedSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	text, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSchemaAsRead: what the schema refuses, the reader refuses too; and both refuse unknown and unsupported keys.
func TestSchemaAsRead(t *testing.T) {
	schema := resolvedSchema(t)
	values := []string{`true`, `7`, `"text"`, `["a"]`, `[{name: a, value: b}]`, `{a: b}`, `null`, `[{nosuch: 1}]`}
	dir := t.TempDir()
	places := map[string]struct {
		keys   keys
		format string
	}{
		"file":         {fileKeys, "%s: %s\n"},
		"helmDefaults": {defaultKeys, "helmDefaults: {%s: %s}\nreleases: [{name: r, chart: ./c}]\n"},
		"release":      {releaseKeys, "releases: [{name: r, chart: ./c, %s: %s}]\n"},
		"repository":   {repositoryKeys, "repositories: [{name: r, url: https://example.com, %s: %s}]\n"},
		"environment":  {environmentKeys, "environments: {default: {%s: %s}}\n"},
		"helmfiles":    {helmfileKeys, "helmfiles: [{path: ./none-*.yaml, %s: %s}]\n"},
		"set":          {setKeys, "releases: [{name: r, chart: ./c, set: [{name: x, %s: %s}]}]\n"},
	}
	for place, p := range places {
		for _, key := range append(slices.Sorted(maps.Keys(p.keys)), "nosuch") {
			for _, value := range values {
				text := fmt.Sprintf(p.format, key, value)
				var doc any
				if err := yaml.UnmarshalStrict([]byte(text), &doc); err != nil {
					continue // the key is there twice
				}
				refused := schema.Validate(doc)
				read := readText(t, dir, text)
				if refused != nil && read == nil {
					t.Errorf("%s: the schema refuses %s: %v", place, text, refused)
				}
				if advice, known := p.keys[key]; (!known || advice != "" && value == `"text"`) && (refused == nil || read == nil) {
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
	file, err := Read(context.Background(), Options{Path: dir, Environment: "default"})
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

// TestExamplesMatchSchema: the helmfiles of the repository match the schema.
func TestExamplesMatchSchema(t *testing.T) {
	schema := resolvedSchema(t)
	files, err := filepath.Glob("../../testdata/stacks/*/helmfile.yaml")
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
