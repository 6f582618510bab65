package charts

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestPlansMatchHandWritten compares the plan of each chart in testdata/charts with the
// hand-written one in testdata/dags.
func TestPlansMatchHandWritten(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/charts/*")
	if err != nil || len(paths) == 0 {
		t.Fatal("no charts", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, err := LoadPath(path)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Render(t.Context(), c, nil, testOptions)
			if err != nil {
				t.Fatal(err)
			}
			p, err := r.Plan()
			if err != nil {
				t.Fatal(err)
			}
			warnings := slices.DeleteFunc(slices.Concat(r.Warnings, p.Warnings), func(w plan.Warning) bool {
				return w.Rule == "R34a" // a note
			})
			groups, rest := readOracle(t, filepath.Base(path))
			for _, problem := range compare(groups, p.Groups) {
				t.Error(problem)
			}
			for _, w := range warnings {
				i := slices.IndexFunc(rest, func(o [2]string) bool {
					return o[0] == w.Rule && strings.Contains(w.Message, o[1])
				})
				if i < 0 {
					t.Errorf("unexpected warning %s", w)
					continue
				}
				rest = slices.Delete(rest, i, i+1)
			}
			for _, o := range rest {
				t.Errorf("missing warning %s about %s", o[0], o[1])
			}
		})
	}
}

// readOracle reads tab-separated lines of "GROUP-ID objects dependencies" or "warning rule text",
// with commas in the lists.
func readOracle(t *testing.T, name string) (groups map[string][2]string, warnings [][2]string) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/dags/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	groups = map[string][2]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 3 {
			t.Fatalf("%s.txt: line %q", name, line)
		}
		if f[0] == "warning" {
			warnings = append(warnings, [2]string{f[1], f[2]})
			continue
		}
		if f[2] == "-" {
			f[2] = ""
		}
		groups[f[0]] = [2]string{sorted(strings.Split(f[1], ",")), sorted(strings.Split(f[2], ","))}
	}
	return groups, warnings
}

func sorted(list []string) string {
	slices.Sort(list)
	return strings.Join(list, ",")
}

func compare(want map[string][2]string, groups []*plan.Group) (problems []string) {
	want = maps.Clone(want)
	for _, g := range groups {
		w, ok := want[g.ID]
		if !ok {
			problems = append(problems, fmt.Sprintf("unexpected group %s", g.ID))
			continue
		}
		delete(want, g.ID)
		var objects []string
		for _, o := range g.Objects {
			objects = append(objects, o.String())
		}
		if got := sorted(objects); got != w[0] {
			problems = append(problems, fmt.Sprintf("%s has\n  %s, want\n  %s", g.ID, got, w[0]))
		}
		if got := sorted(slices.Clone(g.After)); got != w[1] {
			problems = append(problems, fmt.Sprintf("%s waits for\n  %s, want\n  %s", g.ID, got, w[1]))
		}
	}
	for id := range want {
		problems = append(problems, "missing group "+id)
	}
	return problems
}

// TestBadChartsAreRefused compares the error of each chart in testdata/bad with the texts in
// its .want file.
func TestBadChartsAreRefused(t *testing.T) {
	wants, err := filepath.Glob("../../testdata/bad/*.want")
	if err != nil || len(wants) == 0 {
		t.Fatal("no charts", err)
	}
	for _, want := range wants {
		name := strings.TrimSuffix(filepath.Base(want), ".want")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			path := strings.TrimSuffix(want, ".want")
			if _, err := os.Stat(path); err != nil {
				path += ".tgz"
			}
			err = planOf(t, path)
			if err == nil {
				t.Fatal("no error")
			}
			for _, s := range strings.Split(strings.TrimSpace(string(data)), "\t")[1:] {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error lacks %q: %v", s, err)
				}
			}
		})
	}
}

func planOf(t *testing.T, path string) error {
	c, err := LoadPath(path)
	if err != nil {
		return err
	}
	r, err := Render(t.Context(), c, nil, testOptions)
	if err != nil {
		return err
	}
	_, err = r.Plan()
	return err
}
