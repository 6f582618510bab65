package bench

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of the README and of the page benchmarks")

func pair(row, name string, goal float64, ours, theirs []float64) *figure {
	return &figure{Row: row, Name: name, Unit: "s", Goal: goal, Against: helm, Samples: map[string][]float64{lockstep: ours, helm: theirs}}
}

// TestJudged expects the median of the rounds' ratios, not the ratio of the medians, because load can slow down a whole
// round.
func TestJudged(t *testing.T) {
	f := pair("r", "n", 0.5, []float64{1, 10, 2}, []float64{2, 20, 5})
	if got := f.judged(); got != 0.5 || !f.reached() {
		t.Errorf("value %g, reached %v; want 0.5, true", got, f.reached())
	}
	f.Goal = 0.4
	if f.reached() {
		t.Error("0.5 reaches the goal 0.4")
	}
	if failed := pair("r", "n", 0.5, []float64{1}, nil); failed.known() || failed.reached() {
		t.Error("a goal is reached without a value to compare with")
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

// TestRivals expects a column for each measured rival. The other columns stay the same.
func TestRivals(t *testing.T) {
	life := pair("life", "install", 0.5, []float64{1}, []float64{2})
	memory := pair("life", "memory", 0.5, []float64{100}, []float64{200})
	memory.Unit = "MB"
	rollback := pair("life", "rollback", 0.5, []float64{1}, []float64{2})
	r := &results{about: about{Date: "today", Commit: "c", Helm: "v4", Machine: "m"}, Figures: []*figure{life, memory, rollback}}
	alone := r.markdown(everyFigure, r.rivals())
	if want := `today, lockstep c, helm v4, m. Medians; each ratio is the median over pairs of consecutive runs.

|  |  | lockstep | helm | ratio | goal |
|---|---|---|---|---|---|
| life | install | 1 s | 2 s | 0.5 × | ≤ 0.5 × ✓ |
|  | memory | 100 MB | 200 MB | 0.5 × | ≤ 0.5 × ✓ |
|  | rollback | 1 s | 2 s | 0.5 × | ≤ 0.5 × ✓ |
`; alone != want {
		t.Errorf("without rivals:\n%s\nwant\n%s", alone, want)
	}
	life.add("kapp", 3)
	memory.add("kapp", 300)
	r.Rivals = map[string]string{"kapp": "0.1", "nelm": "0.2"} // nelm was found but failed
	got := r.markdown(everyFigure, r.rivals())
	for _, want := range []string{
		"lockstep c, helm v4, kapp 0.1, m.", "kapp " + toolNamed("kapp").note,
		"| lockstep | helm | ratio | goal | kapp |\n|---|---|---|---|---|---|---|\n",
		"| life | install | 1 s | 2 s | 0.5 × | ≤ 0.5 × ✓ | 3 s |\n",
		"|  | rollback | 1 s | 2 s | 0.5 × | ≤ 0.5 × ✓ |  |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got+r.text()+r.page(), "nelm") {
		t.Errorf("a rival without figures is named:\n%s", got)
	}
	r.Figures = []*figure{pair("1,000 ConfigMaps", "install", 0.5, []float64{1}, []float64{2})}
	if want := "| 1,000 ConfigMaps | install | 1 s | 2 s | 0.5 × |\n"; !strings.HasSuffix(r.page(), "| ratio |\n|---|---|---|---|---|\n"+want) {
		t.Errorf("the page:\n%s", r.page())
	}
	if want := "With 1,000 ConfigMaps: install 1.0 s, Helm 2.0 s. "; !strings.HasPrefix(r.readme(), want) {
		t.Errorf("the README: %s", r.readme())
	}
}

// TestAdd expects the rows of a later run to replace the old ones, with their date.
func TestAdd(t *testing.T) {
	r := &results{about: about{Date: "today", Commit: "c", Helm: "v4", Machine: "m"}, Figures: []*figure{
		pair("commands", "help", 1, []float64{1}, []float64{2}), pair("1,000 gates", "old", 1, []float64{1}, []float64{2}), pair("5,000 ConfigMaps", "install", 1, []float64{1}, []float64{2}),
	}}
	r.add(&results{about: about{Date: "tomorrow", Commit: "d", Load: []float64{1, 2.5}}, Figures: []*figure{pair("1,000 gates", "new", 1, []float64{1}, []float64{2})}})
	got := r.markdown(everyFigure, nil)
	if want := `consecutive runs. The "1,000 gates" rows were measured on tomorrow with lockstep d at a load average of 1 to 2.5.

|  |  | lockstep | helm | ratio | goal |
|---|---|---|---|---|---|
| commands | help | 1 s | 2 s | 0.5 × | ≤ 1 × ✓ |
| 1,000 gates | new | 1 s | 2 s | 0.5 × | ≤ 1 × ✓ |
| 5,000 ConfigMaps | install | 1 s | 2 s | 0.5 × | ≤ 1 × ✓ |
`; !strings.HasSuffix(got, want) {
		t.Errorf("want %s\nat the end of\n%s", want, got)
	}
	if text := r.dates(func(f *figure) bool { return f.Row == "commands" }); text != "" {
		t.Errorf("a date for a row that was not measured again: %q", text)
	}
}

// TestCommand expects the command line of each tool for a step.
func TestCommand(t *testing.T) {
	for tool, want := range map[string]string{
		lockstep: "upgrade r a chart -n here --no-tui --set v=2",
		helm:     "upgrade r a chart -n here --set v=2",
		"kapp":   "deploy -a r -n here -f a chart -y --set v=2",
		"nelm":   "release install -r r -n here a chart --set v=2",
	} {
		args := command(tool, "upgrade", "a chart", "here", "--set", "v=2")
		if got := strings.Join(args, " "); got != want || !slices.Contains(args, "a chart") {
			t.Errorf("%s: %q, want %q", tool, args, want)
		}
	}
}

// TestStep expects an error if lockstep fails. If another tool fails, only its figure is missing.
func TestStep(t *testing.T) {
	no, err := exec.LookPath("false")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{ctx: t.Context(), benchmark: &benchmark{programs: map[string]string{lockstep: no, helm: no, "nelm": no}}}
	for _, tool := range []string{helm, "nelm"} {
		if _, ok, err := s.step(tool, "install", "chart", "here"); ok || err != nil {
			t.Errorf("%s: %v, %v", tool, ok, err)
		}
	}
	if _, ok, err := s.step(lockstep, "install", "chart", "here"); ok || err == nil {
		t.Errorf("lockstep: %v, %v", ok, err)
	}
}

// TestOrder expects templates without formatting errors.
func TestOrder(t *testing.T) {
	for _, tool := range tools {
		if text := chained(2, 3, tool.order); strings.Contains(text, "%!") {
			t.Errorf("%s:\n%s", tool.name, text)
		}
	}
}

// TestPages expects the results of the latest run in the line of the README and in the table of the
// page "benchmarks".
func TestPages(t *testing.T) {
	const begin, end = "<!-- bench -->\n", "<!-- /bench -->"
	r, err := readResults("../../testdata/bench/latest.json")
	if err != nil {
		t.Fatal(err)
	}
	for path, table := range map[string]string{"../../README.md": r.readme(), "../../ui/cli/help/benchmarks.md": r.page()} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok := strings.Cut(string(text), begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s lacks the lines %q and %q around the table", path, begin, end)
		}
		want := before + begin + table + end + after
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if string(text) != want {
			t.Errorf("%s does not have the figures of testdata/bench/latest.json; run this test with -update", path)
		}
	}
}
