package bench

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/kube/throwaway/auditlog"
)

// row is a scenario to measure.
type row struct {
	name    string
	measure func(*session) error
}

// rows are in the order in which they are measured. Those that leave the most objects in the cluster are last.
var rows = []row{
	{"commands", (*session).commands},
	{"planning", (*session).planning},
	{"sandbox", (*session).sandbox},
	{"chain of 20 × 5 ConfigMaps", (*session).chain},
	{"chain of 10 Deployments", (*session).deploymentChain},
	{"1,000 gates", func(s *session) error { return s.gates(false) }},
	{"1,000 gates, 2,000 objects changing", func(s *session) error { return s.gates(true) }},
	{"200 Deployments in 20 groups", (*session).watching},
	{"1,000 ConfigMaps", func(s *session) error { return s.lifecycle(1000, s.rounds, s.rounds) }},
	{"1,000 ConfigMaps in the cluster", (*session).inCluster},
	{"50 releases × 10 ConfigMaps in 5 layers", (*session).releases},
	{"50 releases × 10 objects in 5 layers, each ready after 5 s", (*session).waiting},
	{"5,000 ConfigMaps", func(s *session) error { return s.lifecycle(5000, 1, 0) }},
	{"10,000 objects in 300 groups", (*session).board},
}

// lifecycle measures install, upgrades, rollback and uninstall of n ConfigMaps with each tool. Rivals have separate
// rounds.
func (s *session) lifecycle(n, rounds, rivals int) error {
	chart, err := s.chart("flat"+strconv.Itoa(n), flat(n))
	if err != nil {
		return err
	}
	steps := []struct {
		name, verb     string
		goal, requests float64 // requests for each object
		values         []string
	}{
		{"install", "install", 0.25, 1.05, nil},
		{"upgrade", "upgrade", 0.15, 2.05, []string{"--set", "v=2"}}, // with a dry run of each change
		{"no-op upgrade", "upgrade", 0.15, 1.05, []string{"--set", "v=2"}},
		{"rollback", "rollback", 0.15, 2.05, nil},
		{"uninstall", "uninstall", 0.20, 1.05, nil},
	}
	live := func(tool, namespace string) error {
		for _, step := range steps {
			if toolNamed(tool).steps[step.verb] == "" {
				continue
			}
			used, ok, err := s.step(tool, step.verb, chart, namespace, step.values...)
			if err != nil || !ok && step.verb == "install" { // an upgrade might install the release
				return err
			}
			if !ok {
				continue
			}
			s.figure(step.name, "s", step.goal).against(helm).add(tool, used.seconds())
			s.figure(step.name+", memory", "MB", 0.8).against(helm).add(tool, used.peak)
			s.countRequests(s.figure(step.name+", requests per object", "", step.requests), tool, used, n)
		}
		return nil
	}
	if err := s.alternate(rounds, live); err != nil {
		return err
	}
	return s.withRivals(rivals, live)
}

// chain installs a chain of groups. helm ignores the order; rivals get it in their own annotations.
func (s *session) chain() error {
	charts := map[string]string{}
	for _, t := range tools {
		var err error
		if charts[t.name], err = s.chart("chain-"+t.name, chained(20, 5, t.order)); err != nil {
			return err
		}
	}
	install := func(tool, namespace string) error {
		used, ok, err := s.step(tool, "install", charts[tool], namespace)
		if ok {
			s.figure("install in order (helm: unordered)", "s", 0.6).against(helm).add(tool, used.seconds())
			s.figure("memory", "MB", 0).against(helm).add(tool, used.peak)
			s.countRequests(s.figure("requests per object", "", 0).against(helm), tool, used, 100)
		}
		return err
	}
	if err := s.alternate(3*s.rounds, install); err != nil {
		return err
	}
	return s.withRivals(s.rounds, install)
}

// deploymentChain compares the time of an install with the sum of the times of its Deployments, which wait for each
// other.
func (s *session) deploymentChain() error {
	chart, err := s.chart("path", deployments(10, 1, "1s"))
	if err != nil {
		return err
	}
	total := s.figure("install", "× the critical path", 1.02)
	for range s.rounds {
		s.namespaces++
		namespace := "path-" + strconv.Itoa(s.namespaces)
		used, err := s.run(lockstep, command(lockstep, "install", chart, namespace)...)
		if err != nil {
			return err
		}
		s.logFigures = append(s.logFigures, logFigure{total, func(log auditlog.Log) map[string][]float64 {
			var critical time.Duration
			for _, l := range links(log.Namespace(namespace), "deployments", used.end) {
				critical += l.ready.Sub(l.written)
			}
			return map[string][]float64{lockstep: {used.seconds() / critical.Seconds()}}
		}})
	}
	return nil
}

// watching starts many Deployments and measures the cost of waiting for them.
func (s *session) watching() error {
	chart, err := s.chart("watching", deployments(20, 10, "2s"))
	if err != nil {
		return err
	}
	used, err := s.run(lockstep, command(lockstep, "install", chart, "watching")...)
	if err != nil {
		return err
	}
	s.figure("CPU", "% of a core", 5).add(lockstep, 100*used.cpu.Seconds()/used.seconds())
	s.logFigures = append(s.logFigures, logFigure{s.figure("watch requests", "", 20), func(log auditlog.Log) map[string][]float64 {
		watches := log.UserAgent(lockstep).Namespace("watching").Where(func(e auditlog.Event) bool {
			return e.Verb == "watch" && e.Stage == auditlog.ResponseStarted
		})
		return map[string][]float64{lockstep: {float64(len(watches))}}
	}})
	return nil
}

// releases deploys many releases, also with helmfile if it was found. sync, unlike apply, needs no diff plugin.
func (s *session) releases() error {
	chart, err := s.chart("ten", owned(10))
	if err != nil {
		return err
	}
	for range s.rounds {
		for _, tool := range []string{helmfile, lockstep} {
			if s.programs[tool] == "" {
				continue
			}
			file, err := s.helmfile(s.nextNamespace(tool), chart, 5, 10)
			if err != nil {
				return err
			}
			args := []string{"up", "-f", file, "--no-tui"}
			if tool == helmfile {
				args = []string{"--helm-binary", s.programs[helm], "-f", file, "sync"}
			}
			for _, step := range []struct {
				name string
				goal float64
			}{{"up (helmfile: sync)", 0.4}, {"no-op up", 0.15}} {
				used, err := s.run(tool, args...)
				if err != nil {
					return err
				}
				took, memory := s.figure(step.name, "s", 0), s.figure(step.name+", memory", "MB", 0)
				took.add(tool, used.seconds())
				memory.add(tool, used.peak)
				if s.programs[helmfile] != "" {
					took.Goal = step.goal
					took.against(helmfile)
					memory.against(helmfile)
				}
				if tool == lockstep {
					s.countRequests(s.figure(step.name+", requests per object", "", 0), tool, used, 500)
				}
			}
		}
	}
	return nil
}

// commands measures commands that need no cluster.
func (s *session) commands() error {
	chart, err := s.chart("dag", flat(10_000))
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name       string
		goal       float64
		ours, them []string
	}{
		{"version", 1, []string{"version"}, []string{"version"}},
		{"help", 1, []string{"--help"}, []string{"--help"}},
		{"completion", 1, []string{"completion", "bash"}, []string{"completion", "bash"}},
		{"dag of 10,000 objects (helm: template)", 1.3, []string{"dag", chart}, []string{"template", chart}},
		{"template of 10,000 objects", 1.3, []string{"template", chart}, []string{"template", chart}},
	} {
		err := s.alternate(7*s.rounds, func(tool, _ string) error {
			args := c.ours
			if tool == helm {
				args = c.them
			}
			used, err := s.run(tool, args...)
			s.figure(c.name, "ms", c.goal).against(helm).add(tool, 1000*used.seconds())
			s.figure(c.name+", memory", "MB", 0).against(helm).add(tool, used.peak)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, tool := range []string{lockstep, helm} {
		file, err := os.Stat(s.programs[tool])
		if err != nil {
			return err
		}
		s.figure("size", "MB", 1).against(helm).add(tool, float64(file.Size())/1e6)
	}
	return nil
}

var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)-\d+\s+\d+\s+([\d.]+) ns/op`)

// benchmarkPattern matches the Go benchmarks that need no cluster; they are named by the number of
// objects.
const benchmarkPattern = "^Benchmark(Plan|Reduce|State|Run)$/^(1000|10000|100000|graph)$"

// planning runs the Go benchmarks of the planner, the reducer and the scheduler, and compares each with a tenth of the
// objects.
func (s *session) planning() error {
	cmd := exec.CommandContext(s.ctx, "go", "test", "-run", "^$", "-bench", benchmarkPattern, "-benchtime", "0.5s", "-count", strconv.Itoa(s.rounds),
		"./engine/plan", "./engine/event", "./engine/run")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	goals := map[string]float64{"Plan/10000": 25}
	took := map[string][]float64{}
	var names []string
	for _, m := range benchmarkLine.FindAllStringSubmatch(string(out), -1) {
		ns, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return err
		}
		name := m[1]
		s.figure(name, "ms", goals[name]).add(lockstep, ns/1e6)
		if took[name] == nil {
			names = append(names, name)
		}
		took[name] = append(took[name], ns)
	}
	for _, name := range names {
		goal := 12.0
		if strings.HasPrefix(name, "Plan/") { // it includes sorting
			goal = 0
		}
		fewer := took[strings.TrimSuffix(name, "0")] // the same with a tenth of the objects
		for n := range min(len(fewer), len(took[name])) {
			s.figure(name+" vs. a tenth of the objects", "×", goal).add(lockstep, took[name][n]/fewer[n])
		}
	}
	return nil
}

// sandbox measures the start of the cluster, and its idle memory.
func (s *session) sandbox() error {
	s.figure("start", "s", 2.5).add(lockstep, s.startup.Seconds())
	time.Sleep(10 * time.Second) // the controllers sync after the start
	peak, err := resident(s.cluster.PID())
	if err != nil {
		return err
	}
	s.figure("idle memory", "MiB", 300).add(lockstep, peak)
	return nil
}

// resident returns the memory of a process in MiB, from /proc.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of the sandbox: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}

// percentile returns a percentile of a list, with p between 0 and 1.
func percentile(list []float64, p float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
