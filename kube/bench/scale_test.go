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

// scaling measures the tables of testdata/bench/scale.md: the cost of many objects, releases and watches. It runs the
// example program kube/example/fleet, which runs many releases at once, as a controller would. Most tables have three
// sizes; a model of the first two predicts the third.
type scaling struct {
	*benchmark
	ctx    context.Context
	fleet  string // the program
	tables []table
}

// table is a table of the page, between the comments with its name.
type table struct {
	name    string
	columns []string
	lines   [][]string
}

// step is the cost of one step of the fleet: its own report (exported fields), and the kernel's figures for it and for
// the cluster.
type step struct {
	Ready, Releases, Events, Routines         int
	Seconds                                   float64
	Heap                                      float64
	Requests, Watches, Writes, Refused, Bytes float64
	Watched                                   float64
	By                                        map[string]float64
	cpu, server, peak                         float64 // seconds, seconds, MB
}

// scale measures the tables and writes them to a page.
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
	if err := b.copyProgram("fleet", linked); err != nil {
		return err
	}
	s := &scaling{benchmark: b, ctx: ctx, fleet: b.programs["fleet"]}
	for _, measure := range []struct {
		name string
		do   func() error
	}{
		{"objects", s.objects},
		{"releases", func() error { return s.releases("releases", 1000) }},
		{"crowded", func() error { return s.releases("crowded", 4) }},
		{"watches", s.watching},
		{"secret", s.secret},
		{"workers", s.workers},
		{"flows", s.flows},
		{"refused", s.refused},
	} {
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

// run runs one step of the fleet, in namespaces with a prefix. Refused requests may make it fail; that is no error.
func (s *scaling) run(prefix, do string, args ...string) (step, error) {
	cmd := exec.CommandContext(s.ctx, s.fleet, append([]string{"-json", "-prefix", prefix, "-do", do}, args...)...)
	var out, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &out, &stderr
	before, err := cpuSeconds(s.cluster.PID())
	if err != nil {
		return step{}, err
	}
	err = cmd.Run()
	after, failed := cpuSeconds(s.cluster.PID())
	if err == nil {
		err = failed
	}
	var found step
	if err != nil && cmd.ProcessState == nil {
		return found, fmt.Errorf("%v: %w\n%s", cmd.Args, err, tail(stderr.String(), 2000))
	}
	if decoded := json.Unmarshal(out.Bytes(), &found); decoded != nil {
		return found, fmt.Errorf("%v: %w\n%s", cmd.Args, decoded, tail(stderr.String(), 2000))
	}
	if err != nil && found.Refused == 0 {
		return found, fmt.Errorf("%v: %w\n%s", cmd.Args, err, tail(stderr.String(), 2000))
	}
	if err != nil { // some requests were refused
		fmt.Fprintf(os.Stderr, "bench: %v: %v\n%s\n", cmd.Args, err, tail(stderr.String(), 4000))
	}
	var used processUsage
	used.record(cmd)
	found.cpu, found.peak, found.server = used.cpu.Seconds(), used.peak, after-before
	return found, nil
}

// cpuSeconds returns the CPU time of a process, from /proc.
func cpuSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of the sandbox: %w", err)
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

// quantity is one cost of a step.
type quantity struct {
	name string
	of   func(step) float64
}

var (
	requestCount      = quantity{"requests", func(s step) float64 { return s.Requests }}
	watchCount        = quantity{"watch requests", func(s step) float64 { return s.Watches }}
	writeCount        = quantity{"writes", func(s step) float64 { return s.Writes }}
	leaseRenewals     = quantity{"of them Lease renewals", func(s step) float64 { return s.By["PUT leases"] }}
	diagnosisRequests = quantity{"diagnosis requests", func(s step) float64 {
		return 2*s.By["GET events"] + s.By["GET pods"] + s.By["GET replicasets"] // diagnosis reads an object together with its events
	}}
	otherRequests  = quantity{"other requests", func(s step) float64 { return s.Requests - leaseRenewals.of(s) - diagnosisRequests.of(s) }}
	responseSize   = quantity{"responses, MB", func(s step) float64 { return s.Bytes / 1e6 }}
	watchSize      = quantity{"of them watches, MB", func(s step) float64 { return s.Watched / 1e6 }}
	cpuTime        = quantity{"CPU, s", func(s step) float64 { return s.cpu }}
	clusterCPUTime = quantity{"CPU of the cluster, s", func(s step) float64 { return s.server }}
	peakMemory     = quantity{"memory, MB", func(s step) float64 { return s.peak }}
	heapSize       = quantity{"heap, MB", func(s step) float64 { return s.Heap / 1e6 }}
	goroutines     = quantity{"goroutines", func(s step) float64 { return float64(s.Routines) }}
	cpuPerCore     = quantity{"total CPU per core, s", func(s step) float64 { return (s.cpu + s.server) / float64(runtime.NumCPU()) }}
	duration       = quantity{"time, s", func(s step) float64 { return s.Seconds }}
)

// objects measures one release with more and more objects.
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
		s.model("objects "+do, "objects", sizes, found[do], 1,
			requestCount, writeCount, responseSize, cpuTime, clusterCPUTime, peakMemory, cpuPerCore, duration)
	}
	return nil
}

// releases measures more and more releases at once, each in its own namespace or all in a
// few namespaces.
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
		s.model(name+" "+do, "releases", sizes, found[do], 1,
			requestCount, watchCount, writeCount, leaseRenewals, diagnosisRequests, otherRequests, responseSize, watchSize,
			cpuTime, clusterCPUTime, peakMemory, heapSize, goroutines, cpuPerCore, duration)
	}
	return nil
}

// watching compares one shared set of watches with one set for each release.
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
		s.model(name, "releases", sizes, found, 1, watchCount, goroutines)
		s.model(name+" bytes", "releases", sizes, found, power, watchSize, cpuTime, clusterCPUTime)
	}
	return nil
}

// workers installs 200 releases with more and more workers.
func (s *scaling) workers() error {
	t := table{name: "workers", columns: []string{"concurrent releases"}}
	quantities := []quantity{requestCount, leaseRenewals, diagnosisRequests, cpuTime, clusterCPUTime, peakMemory, goroutines, duration}
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
