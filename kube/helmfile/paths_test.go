package helmfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestMain runs the test binary as another program if a test has put it into PATH under that name.
func TestMain(m *testing.M) {
	if program := fakePrograms[filepath.Base(os.Args[0])]; program != nil {
		if err := program(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// useHelmfileBuild puts a helmfile into PATH that only has the command build, for files whose templates are plain YAML.
// It writes its arguments to a file.
func useHelmfileBuild(t *testing.T) (calls func() []string) {
	t.Helper()
	return usePrograms(t, "helmfile")
}

// helmfileBuild prints a file and the files that it includes, each after a line with its path, as helmfile build does.
func helmfileBuild(args []string) error {
	var path string
	var selectors []string
	values := map[string]any{}
	for i, arg := range args {
		switch arg {
		case "-f":
			path = args[i+1]
		case "--selector":
			selectors = append(selectors, args[i+1])
		case "--state-values-file":
			if text, err := os.ReadFile(args[i+1]); err != nil || yaml.Unmarshal(text, &values) != nil {
				return fmt.Errorf("state values: %w", err)
			}
		}
	}
	noteCall("helmfile", args)
	return printBuilt(path, slices.Contains(args, "--embed-values"), selectors, values)
}

func printBuilt(path string, embed bool, selectors []string, values map[string]any) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	var releases []any
	for part := range strings.SplitSeq("\n"+string(text), "\n---") {
		var doc struct {
			Helmfiles []struct{ Path string }
			Releases  []map[string]any
		}
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(part, " # more")), &doc); err != nil {
			return err
		}
		for _, included := range doc.Helmfiles {
			if err := printBuilt(filepath.Join(folder, included.Path), embed, selectors, nil); err != nil {
				return err
			}
		}
		for _, r := range doc.Releases {
			selected := len(selectors) == 0
			for _, s := range selectors {
				selected = selected || s == fmt.Sprint("name=", r["name"]) || s == fmt.Sprintf("name=%v,namespace=%v", r["name"], r["namespace"])
			}
			if !selected {
				continue
			}
			list, _ := r["values"].([]any)
			for i, v := range list {
				name, isFile := v.(string)
				if !embed || !isFile {
					continue
				}
				text, err := os.ReadFile(filepath.Join(folder, name))
				content := map[string]any{}
				if err = errors.Join(err, yaml.Unmarshal(text, &content)); err != nil {
					return err
				}
				list[i] = content
			}
			releases = append(releases, r)
		}
	}
	out, err := yaml.Marshal(map[string]any{"filepath": filepath.Base(path), "releases": releases, "renderedvalues": values, "helmfiles": []any{map[string]any{"path": "gone.yaml"}}})
	fmt.Printf("---\n#  Source: %s\n\n%s", path, out)
	return err
}

// tree writes a random tree of helmfiles and returns the path of its root. Each file is in its own directory, with a
// chart and values files of the same names as everywhere; home has the directory of each release.
type tree struct {
	random *rand.Rand
	home   map[string]string
}

func (g *tree) write(t *testing.T, dir string, depth int) (file string) {
	t.Helper()
	name := []string{"helmfile.yaml", "helmfile.yaml.gotmpl"}[g.random.IntN(2)]
	var includes, docs []string
	for i := range g.random.IntN(4 - depth) {
		sub := fmt.Sprintf("sub%d", i)
		includes = append(includes, fmt.Sprintf("- path: %s/%s", sub, g.write(t, filepath.Join(dir, sub), depth+1)))
	}
	if len(includes) > 0 {
		docs = append(docs, "helmfiles:\n"+strings.Join(includes, "\n"))
	}
	for range 1 + g.random.IntN(2) {
		doc := "releases:"
		for range 1 + g.random.IntN(2) {
			release := fmt.Sprintf("r%d", len(g.home))
			g.home[release] = dir
			doc += fmt.Sprintf("\n- {name: %s, namespace: x, chart: %s, values: [%s, {own: %s}]}", release,
				[]string{"./app", "app", "charts/app"}[g.random.IntN(3)], []string{"v.yaml", "v.yaml.gotmpl", "more/v.yaml"}[g.random.IntN(3)], release)
		}
		docs = append(docs, doc)
	}
	write := map[string]string{name: strings.Join(docs, "\n--- # more\n"), "app/Chart.yaml": "name: app", "charts/app/Chart.yaml": "name: app"}
	for _, v := range []string{"v.yaml", "v.yaml.gotmpl", "more/v.yaml"} {
		write[v] = "dir: " + dir
	}
	for path, text := range write {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// TestPathsAreRelativeToTheirFile (S1): in random trees of included files, with and without templates, each release has
// the chart and the values next to its own file, although every directory has files of the same names.
func TestPathsAreRelativeToTheirFile(t *testing.T) {
	useHelmfileBuild(t)
	for seed := range uint64(12) {
		dir := t.TempDir()
		g := &tree{random: rand.New(rand.NewPCG(seed, 1)), home: map[string]string{}}
		f, err := Read(t.Context(), Options{Path: filepath.Join(dir, g.write(t, dir, 0))})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(f.Releases) != len(g.home) {
			t.Errorf("seed %d: %d of %d releases", seed, len(f.Releases), len(g.home))
		}
		for _, r := range f.Releases {
			home := g.home[r.Name]
			if at := strings.TrimSuffix(r.Chart, "/app"); at != home && at != home+"/charts" {
				t.Errorf("seed %d: release %s of %s has chart %s", seed, r.Name, home, r.Chart)
			}
			if values, _, err := r.Merge(t.Context(), nil, os.ReadFile); err != nil || values["dir"] != home || values["own"] != r.Name {
				t.Errorf("seed %d: release %s of %s has values %v, %v", seed, r.Name, home, values, err)
			}
		}
	}
}

// TestParentValuesReachTemplates: the values that an entry of helmfiles sets are passed to helmfile.
func TestParentValuesReachTemplates(t *testing.T) {
	useHelmfileBuild(t)
	dir := writeFiles(t, `
== helmfile.yaml
helmfiles: [{path: sub/helmfile.yaml.gotmpl, values: [{a: {enabled: false}, b: {enabled: true}}]}]
== sub/helmfile.yaml.gotmpl
releases: [{name: a, chart: ./a, condition: a.enabled}, {name: b, chart: ./a, condition: b.enabled}]`)
	f, err := Read(t.Context(), Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(t, dir, f); !slices.Equal(got, []string{"b /sub/a {} [] []"}) {
		t.Error(got)
	}
}

// TestBuiltWithoutComments: output of helmfile build for several files whose comments were removed does not say where
// its paths begin.
func TestBuiltWithoutComments(t *testing.T) {
	const file = "filepath: helmfile.yaml\nreleases: [{name: %s, chart: %s}]\nrenderedvalues: {}\n"
	for chart, refused := range map[string]bool{"./app": true, "app": true, "repo/app": false, "oci://host/app": false} {
		dir := writeFiles(t, "== helmfile.yaml\n"+fmt.Sprintf(file+"---\n"+file, "a", chart, "b", chart))
		_, err := Read(t.Context(), Options{Path: dir})
		if got := err != nil && strings.Contains(err.Error(), "keep its comments"); got != refused {
			t.Errorf("chart %s: %v", chart, err)
		}
	}
}
