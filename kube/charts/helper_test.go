package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// tree is a chart as text: file names, relative to the chart, to contents.
type tree map[string]string

// chartYAML returns a Chart.yaml.
func chartYAML(name string, more ...string) string {
	return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" + strings.Join(more, "")
}

// configMap returns a template of a ConfigMap with lines of annotations.
func configMap(name string, annotations ...string) string {
	s := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
	if len(annotations) > 0 {
		s += "  annotations:\n"
	}
	for _, a := range annotations {
		s += "    " + a + "\n"
	}
	return s
}

// in returns the files of sub as they are below dir in another chart.
func in(dir string, sub tree) tree {
	out := tree{}
	for name, data := range sub {
		out[dir+"/"+name] = data
	}
	return out
}

// plus returns the files of all trees.
func plus(trees ...tree) tree {
	out := tree{}
	for _, t := range trees {
		maps.Copy(out, t)
	}
	return out
}

// packed returns the chart as an archive.
func packed(t *testing.T, dir string, files tree) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
		if err := w.WriteHeader(&tar.Header{Name: dir + "/" + name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// write puts the files on disk and returns the folder.
func write(t *testing.T, files tree) string {
	t.Helper()
	dir := t.TempDir()
	writeTo(t, dir, files)
	return dir
}

func writeTo(t *testing.T, dir string, files tree) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func load(t *testing.T, files tree) *Chart {
	t.Helper()
	c, err := LoadPath(write(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var testOptions = RenderOptions{Release: "t", Namespace: "default"}

func render(t *testing.T, files tree, values map[string]any) *Rendered {
	t.Helper()
	r, err := Render(t.Context(), load(t, files), values, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// outline prints a chart tree, one line for each dependency: the path, or "-" if it is
// disabled, the name, the alias, and its own dependencies.
func outline(c *plan.Chart) string {
	var b strings.Builder
	b.WriteString(c.Path + " " + strings.Join(c.DependsOn, ",") + "\n")
	for _, s := range c.Subcharts {
		path := "-"
		if s.Chart != nil {
			path = s.Chart.Path
		}
		b.WriteString("  " + strings.Join([]string{path, s.Name, s.Alias, strings.Join(s.DependsOn, ",")}, " ") + "\n")
	}
	for _, s := range c.Subcharts {
		if s.Chart != nil && len(s.Chart.Subcharts)+len(s.Chart.DependsOn) > 0 {
			b.WriteString(outline(s.Chart))
		}
	}
	return b.String()
}

// rules lists the rules of warnings.
func rules(ws []plan.Warning) []string {
	var out []string
	for _, w := range ws {
		out = append(out, w.Rule)
	}
	return out
}
