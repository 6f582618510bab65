package main

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the README's table anew")

func pair(row, name string, goal float64, ours, theirs []float64) *figure {
	return &figure{Row: row, Name: name, Unit: "s", Goal: goal, Against: helm, Samples: map[string][]float64{lockstep: ours, helm: theirs}}
}

// TestJudged takes the ratio of each round, not that of the medians: what slows a
// whole round down falls on both.
func TestJudged(t *testing.T) {
	f := pair("r", "n", 0.5, []float64{1, 10, 2}, []float64{2, 20, 5})
	if got := f.judged(); got != 0.5 || !f.reached() {
		t.Errorf("%g, %v", got, f.reached())
	}
	f.Goal = 0.4
	if f.reached() {
		t.Error("0.5 is at most 0.4")
	}
	if failed := pair("r", "n", 0.5, []float64{1}, nil); failed.known() || failed.reached() {
		t.Error("a goal is reached by comparison with nothing")
	}
	alone := &figure{Samples: map[string][]float64{lockstep: {3, 1, 2}}, Goal: 2}
	if alone.judged() != 2 || !alone.reached() {
		t.Errorf("%g", alone.judged())
	}
}

func TestSlower(t *testing.T) {
	was := &results{Figures: []*figure{pair("r", "same", 1, []float64{1}, []float64{2}), pair("r", "slow", 1, []float64{1}, []float64{2}), pair("r", "gone", 1, []float64{1}, []float64{2})}}
	is := &results{Figures: []*figure{pair("r", "same", 1, []float64{2}, []float64{4}), pair("r", "slow", 1, []float64{2}, []float64{2}), pair("r", "new", 1, []float64{9}, []float64{2})}}
	if got := is.slowerThan(was); got != "slower: r, slow: 1, was 0.5\n" {
		t.Errorf("%q", got)
	}
	if got := was.slowerThan(was); !strings.HasPrefix(got, "nothing is") {
		t.Errorf("%q", got)
	}
}

// TestReadme keeps the README's table that of the latest run.
func TestReadme(t *testing.T) {
	const path, begin, end = "../../README.md", "<!-- bench -->\n", "<!-- /bench -->"
	r, err := readResults("../../testdata/bench/latest.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the figures between %q and %q", path, begin, end)
	}
	want := before + begin + r.markdown(func(f *figure) bool { return f.Goal > 0 }) + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the figures in %s are not those of the latest run; write them anew with -update", path)
	}
}
