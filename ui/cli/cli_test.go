package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lockstep/engine/plan"
	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/cli/command"
)

const data = "../../testdata"

func TestMain(m *testing.M) {
	program := func() {
		began := time.Now()
		os.Args = withoutSettling(os.Args)
		os.Exit(observed(began, Main()))
	}
	testscript.Main(sharedCluster{m}, map[string]func(){"lockstep": program, "kubectl-lockstep": program, kubectlCompletion: program})
}

// withoutSettling turns --settle off unless a test sets it: most charts of the tests have no probes.
func withoutSettling(args []string) []string {
	if len(args) < 2 || !slices.Contains([]string{"install", "upgrade", "rollback", "up"}, args[1]) ||
		slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--settle") }) {
		return args
	}
	return slices.Insert(slices.Clone(args), 2, "--settle=0")
}

// sharedCluster runs the tests of the package on one cluster.
type sharedCluster struct{ *testing.M }

func (t sharedCluster) Run() int {
	testcluster.Alone() // one test makes an API unavailable, which would affect other packages
	return testcluster.Main(t.M)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs(data)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOGC", os.Getenv("GOGC")) // that of the test run: make test saves time with it
			e.Setenv("CHARTS", filepath.Join(dir, "charts"))
			e.Setenv("BAD", filepath.Join(dir, "bad"))
			e.Setenv("KUBECONFIG", filepath.Join(e.WorkDir, "no-kubeconfig"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits checks the exit code of a program: exits CODE PROGRAM ARG…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG…")
	}
	got := command.ExitDone
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// runCommand runs a command in this process.
func runCommand(args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	root := newRoot(command.NewSignals(context.Background()))
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.Execute()
	return out.String(), errs.String(), err
}

func noCluster(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
}

// TestDagOfEveryChart compares the plan of every chart in testdata with a plan derived from the rules
// by hand (R36).
func TestDagOfEveryChart(t *testing.T) {
	noCluster(t)
	wants, err := filepath.Glob(filepath.Join(data, "dags", "*.txt"))
	if err != nil || len(wants) == 0 {
		t.Fatalf("no plans to compare with: %v", err)
	}
	for _, file := range wants {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			out, _, err := runCommand("dag", "t", filepath.Join(data, "charts", name), "-o", "json")
			if err != nil {
				t.Fatal(err)
			}
			var p plan.Plan
			if err := json.Unmarshal([]byte(out), &p); err != nil {
				t.Fatal(err)
			}
			compareDag(t, &p, file)
		})
	}
}

// TestSuggest: suggest prints the output of dag and edges (R60), whose fields are a contract.
func TestSuggest(t *testing.T) {
	noCluster(t)
	out, _, err := runCommand("suggest", "t", filepath.Join(data, "charts", "plain-shop"), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	type edge struct {
		From, To         plan.Object
		Strength, Reason string
	}
	var got struct {
		plan.Plan
		Edges []edge
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Groups) != 13 || len(got.Warnings) > 0 {
		t.Fatal(err, len(got.Groups), got.Warnings)
	}
	api := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "t-api"}
	if !slices.ContainsFunc(got.Edges, func(e edge) bool {
		return e.From == api && e.To.Name == "t-db" && e.Strength == "serving" && e.Reason == "ConfigMap/t-api data.DATABASE_HOST names Service/t-db"
	}) {
		t.Errorf("%+v", got.Edges)
	}
	for _, format := range []string{"text", "dot", "mermaid"} {
		if out, _, err := runCommand("suggest", filepath.Join(data, "charts", "plain-shop"), "-o", format); err != nil || !strings.Contains(out, "migrate") {
			t.Error(format, err, out)
		}
	}
	if out, _, err := runCommand("suggest", filepath.Join(data, "charts", "shop")); err != nil || !strings.Contains(out, "shop/queue:topics after shop/queue:broker") {
		t.Error(err, out)
	}
}

func compareDag(t *testing.T, p *plan.Plan, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, warnings := map[string]string{}, 0
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case f[0] == "warning":
			warnings++
			if !slices.ContainsFunc(p.Warnings, func(w plan.Warning) bool { return w.Rule == f[1] && strings.Contains(w.Message, f[2]) }) {
				t.Errorf("no warning %s with %q in %v", f[1], f[2], p.Warnings)
			}
		case len(f) == 3:
			want[f[0]] = sorted(f[1]) + " after " + sorted(strings.TrimPrefix(f[2], "-"))
		}
	}
	got := map[string]string{}
	for _, g := range p.Groups {
		var objects []string
		for _, o := range g.Objects {
			objects = append(objects, o.String())
		}
		got[g.ID] = sorted(strings.Join(objects, ",")) + " after " + sorted(strings.Join(g.After, ","))
	}
	if !maps.Equal(got, want) {
		t.Errorf("plan\n%v\nwant\n%v", lines(got), lines(want))
	}
	noted := func(w plan.Warning) bool { return w.Rule == "R34a" }
	if extra := slices.DeleteFunc(slices.Clone(p.Warnings), noted); len(extra) != warnings {
		t.Errorf("%d warnings, want %d: %v", len(extra), warnings, extra)
	}
}

func sorted(list string) string {
	words := strings.Split(list, ",")
	slices.Sort(words)
	return strings.Join(words, ",")
}

func lines(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+": "+m[k])
	}
	return strings.Join(out, "\n")
}

// TestBadChartsAreRefusedOffline: commands without a cluster refuse every bad chart with a reason and
// exit code 2.
func TestBadChartsAreRefusedOffline(t *testing.T) {
	noCluster(t)
	wants, err := filepath.Glob(filepath.Join(data, "bad", "*.want"))
	if err != nil || len(wants) == 0 {
		t.Fatalf("no bad charts: %v", err)
	}
	for _, file := range wants {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(strings.TrimSpace(string(text)), "\t")[1:]
		chart := strings.TrimSuffix(file, ".want")
		if _, err := os.Stat(chart); err != nil {
			chart += ".tgz"
		}
		for _, name := range []string{"dag", "template", "lint"} {
			t.Run(name+"/"+filepath.Base(chart), func(t *testing.T) {
				if name == "lint" && filepath.Base(chart) == "chart-library" {
					t.Skip("a library chart has no errors")
				}
				if name == "lint" && filepath.Base(chart) == "template-error" {
					t.Skip("its template only asks for a value, so lint warns (R37)")
				}
				if name == "lint" && filepath.Base(chart) == "chart-kube-version" {
					t.Skip("it may be for another cluster, so lint warns (R37)")
				}
				if name == "template" && filepath.Base(chart) == "rendered-no-kind" {
					t.Skip("Helm prints it, so template does (R35)")
				}
				out, errs, err := runCommand(name, chart)
				if command.ExitCode(err) != command.ExitNothingWritten {
					t.Fatalf("exit code %d (%v)\n%s", command.ExitCode(err), err, out)
				}
				if name != "lint" && out != "" {
					t.Errorf("printed %s", out)
				}
				all := fmt.Sprint(out, errs, err)
				for _, part := range parts {
					if !strings.Contains(all, part) {
						t.Errorf("no %q in the output:\n%s", part, all)
					}
				}
			})
		}
	}
}

// TestGoodChartsLint: lint finds no errors in charts that can be installed, except in those made to
// lose their order, and in one with an undeclared subchart, which is an error for Helm and a warning
// for lockstep.
func TestGoodChartsLint(t *testing.T) {
	noCluster(t)
	demoted := map[string]string{
		"hip0025-groups": "R8", "hip0025-template": "R8", "unsequenced-mix": "R8", "unsequenced-orphan": "R8",
		"warn-list": "R2", "warn-missing-in-subchart": "R8", "warn-readiness-half": "R24", "warn-undeclared": "R11",
	}
	entries, err := os.ReadDir(filepath.Join(data, "charts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			out, _, err := runCommand("lint", filepath.Join(data, "charts", e.Name()))
			rule, bad := demoted[e.Name()]
			if bad != (err != nil) || bad && !strings.Contains(out, "("+rule+")") {
				t.Errorf("error %v:\n%s", err, out)
			}
		})
	}
}
