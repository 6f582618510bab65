package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// What becomes of many objects, many releases and many watchers is measured by the
// example program kube/example/fleet, which has many releases at work as a controller
// would. Each table is measured at one, three and ten times a size; a line through the
// first two says what the third should be.

// scaling is the measuring of testdata/bench/scale.md.
type scaling struct {
	*benchmark
	ctx    context.Context
	fleet  string // the program
	tables []table
}

// table is what takes the place of what stands between two marks in the page.
type table struct {
	name    string
	columns []string
	lines   [][]string
}

// step is what one step of the fleet took: what it reports, and what the kernel
// has counted of it and of the cluster.
type step struct {
	Ready, Releases, Events, Routines         int
	Seconds                                   float64
	Heap                                      float64
	Requests, Watches, Writes, Refused, Bytes float64
	Watched                                   float64
	By                                        map[string]float64
	cpu, server, peak                         float64 // seconds, seconds, MB
}

// scale measures, and writes the tables into a page.
func scale(ctx context.Context, o options, page string) error {
	b, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	linked := filepath.Join(b.dir, "fleet")
	if out, err := exec.CommandContext(ctx, "go", "build", "-p", "2", "-ldflags", "-s -w", "-o", linked, "./kube/example/fleet").CombinedOutput(); err != nil {
		return fmt.Errorf("build the fleet: %w\n%s", err, out)
	}
	if err := b.adopt("fleet", linked); err != nil {
		return err
	}
	s := &scaling{benchmark: b, ctx: ctx, fleet: b.programs["fleet"]}
	for _, measure := range []struct {
		name string
		do   func() error
	}{{"objects", s.objects}, {"releases", func() error { return s.releases("releases", 1000) }}, {"crowded", func() error { return s.releases("crowded", 4) }}, {"watches", s.watching}, {"secret", s.secret}, {"workers", s.workers}, {"flows", s.flows}, {"refused", s.refused}} {
		if !o.only.MatchString(measure.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring:", measure.name)
		if err := measure.do(); err != nil {
			return fmt.Errorf("%s: %w", measure.name, err)
		}
	}
	return s.write(page)
}

// run has the fleet do one step, in namespaces whose names begin with a prefix.
func (s *scaling) run(prefix, do string, args ...string) (step, error) {
	cmd := exec.CommandContext(s.ctx, s.fleet, append([]string{"-json", "-prefix", prefix, "-do", do}, args...)...)
	var out, said bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &out, &said
	before, err := processor(s.cluster.PID())
	if err != nil {
		return step{}, err
	}
	err = cmd.Run()
	after, failed := processor(s.cluster.PID())
	if err == nil {
		err = failed
	}
	var found step
	if err != nil && cmd.ProcessState == nil {
		return found, fmt.Errorf("%v: %w\n%s", cmd.Args, err, tail(said.String(), 2000))
	}
	if decoded := json.Unmarshal(out.Bytes(), &found); decoded != nil {
		return found, fmt.Errorf("%v: %w\n%s", cmd.Args, decoded, tail(said.String(), 2000))
	}
	if err != nil && found.Refused == 0 {
		return found, fmt.Errorf("%v: %w\n%s", cmd.Args, err, tail(said.String(), 2000))
	}
	if err != nil { // that is what comes of refusals
		fmt.Fprintf(os.Stderr, "bench: %v: %v\n%s\n", cmd.Args, err, tail(said.String(), 4000))
	}
	var used spent
	used.charge(cmd)
	found.cpu, found.peak, found.server = used.cpu.Seconds(), used.peak, after-before
	return found, nil
}

// processor is how many seconds a process has computed for, as /proc says.
func processor(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("look how long the sandbox has computed: %w", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks float64
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const ticksASecond = 100 // USER_HZ of Linux
	return ticks / ticksASecond, nil
}

// quantity is something that a step took.
type quantity struct {
	name string
	of   func(step) float64
}

var (
	sent    = quantity{"requests", func(s step) float64 { return s.Requests }}
	watched = quantity{"watch requests", func(s step) float64 { return s.Watches }}
	wrote   = quantity{"writes", func(s step) float64 { return s.Writes }}
	renewed = quantity{"of them Lease renewals", func(s step) float64 { return s.By["PUT leases"] }}
	looked  = quantity{"diagnosis requests", func(s step) float64 {
		return 2*s.By["GET events"] + s.By["GET pods"] + s.By["GET replicasets"] // the object itself with its events
	}}
	without  = quantity{"other requests", func(s step) float64 { return s.Requests - renewed.of(s) - looked.of(s) }}
	answered = quantity{"responses, MB", func(s step) float64 { return s.Bytes / 1e6 }}
	streamed = quantity{"of them watches, MB", func(s step) float64 { return s.Watched / 1e6 }}
	computed = quantity{"CPU, s", func(s step) float64 { return s.cpu }}
	served   = quantity{"CPU of the cluster, s", func(s step) float64 { return s.server }}
	peaked   = quantity{"memory, MB", func(s step) float64 { return s.peak }}
	heaped   = quantity{"heap, MB", func(s step) float64 { return s.Heap / 1e6 }}
	routines = quantity{"goroutines", func(s step) float64 { return float64(s.Routines) }}
	least    = quantity{"total CPU per core, s", func(s step) float64 { return (s.cpu + s.server) / float64(runtime.NumCPU()) }}
	took     = quantity{"time, s", func(s step) float64 { return s.Seconds }}
)

// objects has one release of more and more objects.
func (s *scaling) objects() error {
	sizes := []int{100, 300, 1000}
	found := map[string][]step{}
	for _, n := range sizes {
		for _, do := range []string{"install", "upgrade", "uninstall"} {
			one, err := s.run("objects-"+strconv.Itoa(n), do, "-releases", "1", "-workloads", "0", "-settings", strconv.Itoa(n-1))
			if err != nil {
				return err
			}
			found[do] = append(found[do], one)
		}
	}
	for _, do := range []string{"install", "upgrade", "uninstall"} {
		s.model("objects "+do, "objects", sizes, found[do], 1, sent, wrote, answered, computed, served, peaked, least, took)
	}
	return nil
}

// releases has more and more releases at work at once, each in a namespace of its own
// or all of them in a few.
func (s *scaling) releases(name string, namespaces int) error {
	sizes := []int{20, 60, 200}
	found := map[string][]step{}
	for _, n := range sizes {
		for _, do := range []string{"install", "upgrade", "uninstall"} {
			one, err := s.run(name+"-"+strconv.Itoa(n), do, "-releases", strconv.Itoa(n), "-namespaces", strconv.Itoa(min(n, namespaces)))
			if err != nil {
				return err
			}
			found[do] = append(found[do], one)
		}
	}
	for _, do := range []string{"install", "upgrade", "uninstall"} {
		s.model(name+" "+do, "releases", sizes, found[do], 1, sent, watched, wrote, renewed, looked, without, answered, streamed, computed, served, peaked, heaped, routines, least, took)
	}
	return nil
}

// watching compares one set of watches with one for each release.
func (s *scaling) watching() error {
	sizes := []int{10, 30, 100}
	for _, own := range []bool{false, true} {
		name, power := "watches shared", 1
		if own {
			name, power = "watches own", 2
		}
		var found []step
		for _, n := range sizes {
			args := []string{"-releases", strconv.Itoa(n)}
			if own {
				args = append(args, "-own-watches")
			}
			one, err := s.run(strings.ReplaceAll(name, " ", "-")+"-"+strconv.Itoa(n), "install", args...)
			if err != nil {
				return err
			}
			found = append(found, one)
		}
		s.model(name, "releases", sizes, found, 1, watched, routines)
		s.model(name+" bytes", "releases", sizes, found, power, streamed, computed, served)
	}
	return nil
}

// workers has 200 releases installed, more and more of them at the same time.
func (s *scaling) workers() error {
	t := table{name: "workers", columns: []string{"concurrent releases"}}
	quantities := []quantity{sent, renewed, looked, computed, served, peaked, routines, took}
	for _, q := range quantities {
		t.columns = append(t.columns, q.name)
	}
	for _, n := range []string{"10", "50", "200"} {
		found, err := s.run("workers-"+n, "install", "-releases", "200", "-namespaces", "200", "-workers", n)
		if err != nil {
			return err
		}
		line := []string{n}
		for _, q := range quantities {
			line = append(line, number(q.of(found)))
		}
		t.lines = append(t.lines, line)
	}
	s.tables = append(s.tables, t)
	return nil
}
