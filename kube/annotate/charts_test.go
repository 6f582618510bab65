package annotate

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockstep/kube/charts"
)

const testCharts = "../../testdata/charts"

// orderingLine matches an ordering annotation or depends-on, in a template or in Chart.yaml.
var orderingLine = regexp.MustCompile(`(?m)^( *)(helm\.sh/(resource-group|dep|layer|weight|install-before|readiness-)|depends-on:)[^\n]*(\n +- [^\n:]*)*\n`)

// TestOrderIsRestored removes the order from the charts of testdata and writes it again (R69).
// The plan must be the old one, unless some lines must be added by hand, and no other line may change.
func TestOrderIsRestored(t *testing.T) {
	// The expected reason for manual edits, by chart.
	manual := map[string]string{
		"chain20":         "of several groups",
		"deployments10":   "of several groups",
		"fanout":          "of several groups",
		"packed-subchart": "packed in",
		"list-forms":      "",
	}
	dirs, err := os.ReadDir(testCharts)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		t.Run(d.Name(), func(t *testing.T) {
			want := render(t, filepath.Join(testCharts, d.Name()))
			wanted, err := want.Plan()
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), d.Name())
			stripped(t, filepath.Join(testCharts, d.Name()), dir)
			now := render(t, dir)
			before := contents(t, dir)
			res, err := Prepare(t.Context(), source(dir, now), Order{want.Tree, want.Resources})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range res.Manual {
				why, expected := manual[d.Name()]
				if !expected || !strings.Contains(l.Why, why) {
					t.Errorf("manual edit: %s %v line %d of %s: %s", l.Chart, l.Objects, l.Line, l.File, l.Why)
				}
			}
			if err := res.Write(); err != nil {
				t.Fatal(err)
			}
			onlyInserted(t, before, contents(t, dir), res)
			if len(res.Manual) > 0 {
				return
			}
			got, err := render(t, dir).Plan()
			if err != nil {
				t.Fatal(err)
			}
			if err := comparePlans(got, wanted); err != nil {
				t.Error(err)
			}
		})
	}
}

func source(dir string, r *charts.Rendered) Source {
	return Source{Dir: dir, Options: options, Rendered: r}
}

var options = charts.RenderOptions{Release: "t", Namespace: "default"}

func render(t *testing.T, dir string) *charts.Rendered {
	t.Helper()
	c, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := charts.Render(t.Context(), c, nil, options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stripped copies a chart without its ordering.
func stripped(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for name, data := range contents(t, to) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		if err := os.WriteFile(name, orderingLine.ReplaceAll(data, nil), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// contents returns the files below a folder.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = data
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// onlyInserted checks that the new files differ from the old ones only by the reported number
// of inserted lines.
func onlyInserted(t *testing.T, before, after map[string][]byte, res *Result) {
	t.Helper()
	reported := map[string]int{}
	for _, f := range res.Files {
		reported[f.rewrite.Path] = f.Lines
	}
	for name, data := range after {
		old, fresh := bytes.SplitAfter(before[name], []byte("\n")), bytes.SplitAfter(data, []byte("\n"))
		at, extra := 0, 0
		for _, l := range fresh {
			if at < len(old) && bytes.Equal(l, old[at]) {
				at++
			} else {
				extra++
			}
		}
		if at != len(old) || extra != reported[name] {
			t.Errorf("%s: %d of %d old lines remain, and %d are new, not %d\n%s", name, at, len(old), extra, reported[name], data)
		}
	}
	if len(after) != len(before) {
		t.Errorf("there are %d files, before there were %d", len(after), len(before))
	}
}
