// Command testrun runs go test with one cluster for all packages. It prints the output of failed tests,
// and finally the slowest tests. Usage: testrun go test ARGUMENTS.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"lockstep/kube/throwaway/testcluster"
)

// maxSlowest is the number of slowest tests to print.
const maxSlowest = 20

// maxRepeated is the number of last lines of a failed test that are printed again at the end: a long log may be cut in
// the middle, and they say what failed.
const maxRepeated = 6

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: testrun go test ARGUMENTS")
		os.Exit(2)
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run returns the exit code of go test.
func run(argv []string) (code int, err error) {
	cmd := exec.Command(argv[0], slices.Insert(argv[1:], 1, "-json")...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	release, err := testcluster.Hold(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
		return 1, err
	}
	r := &results{out: os.Stdout, running: map[string][]*test{}}
	readErr := r.read(out)
	r.print(maxSlowest)
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code, err = max(exit.ExitCode(), 1), nil
	}
	return code, errors.Join(err, readErr, release())
}

// line is a line of the output of go test -json; see go doc test2json.
type line struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

type test struct {
	pkg, name string
	passed    bool
	seconds   float64
	output    []string
}

// results are the results of the tests so far.
type results struct {
	out     io.Writer
	running map[string][]*test // by package; the first is the package itself
	done    []*test
	failed  []*test
}

func (r *results) read(in io.Reader) error {
	for lines := bufio.NewReader(in); ; {
		text, err := lines.ReadBytes('\n')
		if len(text) > 0 {
			var l line
			if json.Unmarshal(text, &l) == nil && l.Action != "" {
				r.add(l)
			} else {
				fmt.Fprintf(r.out, "%s", text)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *results) add(l line) {
	switch {
	case l.Action == "build-output":
		fmt.Fprint(r.out, l.Output)
	case l.Package == "":
	case l.Action == "output":
		if t := r.find(l); !strings.HasPrefix(l.Output, "=== ") {
			t.output = append(t.output, l.Output)
		}
	case l.Action == "pass", l.Action == "fail", l.Action == "skip":
		t := r.find(l)
		t.passed, t.seconds = l.Action != "fail", l.Elapsed
		if l.Test == "" {
			r.end(t)
		}
	}
}

// find returns the test that a line is about.
func (r *results) find(l line) *test {
	tests := r.running[l.Package]
	if i := slices.IndexFunc(tests, func(t *test) bool { return t.name == l.Test }); i >= 0 {
		return tests[i]
	}
	if len(tests) == 0 && l.Test != "" {
		tests = []*test{{pkg: l.Package}}
	}
	t := &test{pkg: l.Package, name: l.Test}
	r.running[l.Package] = append(tests, t)
	return t
}

// end prints the result of a package. If it failed, end also prints the output of every test
// that did not pass, including the tests that were still running.
func (r *results) end(pkg *test) {
	tests := r.running[pkg.pkg][1:]
	delete(r.running, pkg.pkg)
	cached := slices.ContainsFunc(pkg.output, func(s string) bool { return strings.Contains(s, "\t(cached)") })
	seconds := map[string]float64{}
	for _, t := range tests {
		if !pkg.passed && !t.passed {
			fmt.Fprint(r.out, strings.Join(t.output, ""))
			r.failed = append(r.failed, t)
		}
		seconds[t.name] = t.seconds
		// A test's time includes the time of its subtests, except parallel ones.
		if i := strings.LastIndex(t.name, "/"); !cached && (i < 0 || seconds[t.name[:i]] < t.seconds) {
			r.done = append(r.done, t)
		}
	}
	if !pkg.passed && len(tests) == 0 {
		r.failed = append(r.failed, pkg)
	}
	for _, s := range pkg.output {
		if s != "PASS\n" && !(pkg.passed && strings.Contains(s, "[no test files]")) {
			fmt.Fprint(r.out, s)
		}
	}
}

// print prints up to n slowest tests and the failed ones, each with the end of its output.
func (r *results) print(n int) {
	slices.SortStableFunc(r.done, func(a, b *test) int { return cmp.Compare(b.seconds, a.seconds) })
	if n = min(n, len(r.done)); n > 0 {
		fmt.Fprintln(r.out, "\nslowest tests")
		for _, t := range r.done[:n] {
			fmt.Fprintf(r.out, "%7.1f s  %s %s\n", t.seconds, t.pkg, t.name)
		}
	}
	if len(r.failed) > 0 {
		fmt.Fprintln(r.out, "\nfailed")
	}
	for _, t := range r.failed {
		fmt.Fprintln(r.out, "  "+strings.TrimSpace(t.pkg+" "+t.name))
		lines := slices.DeleteFunc(strings.Split(strings.Join(t.output, ""), "\n"), func(s string) bool {
			s = strings.TrimSpace(s)
			return s == "" || s == "FAIL" || strings.HasPrefix(s, "--- FAIL: ")
		})
		for _, s := range lines[max(0, len(lines)-maxRepeated):] {
			fmt.Fprintln(r.out, "      "+strings.TrimSpace(s))
		}
	}
}
