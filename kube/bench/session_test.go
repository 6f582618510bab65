package bench

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"lockstep/kube/throwaway/auditlog"
)

// session measures one row.
type session struct {
	*benchmark
	ctx     context.Context
	row     string
	figures []*figure
}

// figure returns the row's figure with a name, and creates it if necessary.
func (s *session) figure(name, unit string, goal float64) *figure {
	for _, f := range s.figures {
		if f.Name == name {
			return f
		}
	}
	f := &figure{Row: s.row, Name: name, Unit: unit, Goal: goal, Samples: map[string][]float64{}}
	s.figures = append(s.figures, f)
	return f
}

func (f *figure) add(tool string, value float64) { f.Samples[tool] = append(f.Samples[tool], value) }

// processUsage is the time, CPU time and memory that a process used.
type processUsage struct {
	start, end time.Time
	cpu        time.Duration
	peak       float64 // memory, in MB
}

func (s processUsage) seconds() float64 { return s.end.Sub(s.start).Seconds() }

// run runs a tool.
func (s *session) run(tool string, args ...string) (processUsage, error) {
	return s.runCommand(exec.CommandContext(s.ctx, s.programs[tool], args...))
}

func (s *session) runCommand(cmd *exec.Cmd) (processUsage, error) {
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &out, &out
	used := processUsage{start: time.Now()}
	err := cmd.Run()
	used.end = time.Now()
	if err != nil {
		return used, fmt.Errorf("%v: %w\n%s", cmd.Args, err, tail(out.String(), 2000))
	}
	used.record(cmd)
	return used, nil
}

// record sets the CPU time and the peak memory of a process that has exited.
func (s *processUsage) record(cmd *exec.Cmd) {
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.peak = maxrss(cmd.ProcessState)
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// countRequests adds to f the number of requests per object that a tool sent for n objects, once the audit log is
// complete.
func (s *session) countRequests(f *figure, tool string, during processUsage, n int) {
	s.logFigures = append(s.logFigures, logFigure{f, func(log auditlog.Log) map[string][]float64 {
		sent := log.UserAgent(toolNamed(tool).agent).Where(func(e auditlog.Event) bool {
			return !e.Received.Before(during.start) && !e.Received.After(during.end) &&
				(e.Stage == auditlog.ResponseComplete && e.Verb != "watch" || e.Stage == auditlog.ResponseStarted)
		})
		return map[string][]float64{tool: {float64(len(sent)) / float64(n)}}
	}})
}

// alternate calls f for lockstep and helm, rounds times, in alternating order.
func (s *session) alternate(rounds int, f func(tool, namespace string) error) error {
	for round := range rounds {
		tools := []string{helm, lockstep}
		if round%2 == 1 {
			tools = []string{lockstep, helm}
		}
		for _, tool := range tools {
			if err := f(tool, s.nextNamespace(tool)); err != nil {
				return err
			}
		}
	}
	return nil
}

// withRivals calls f for each rival that was found, rounds times. Rivals run after lockstep
// and helm, whose runs must be consecutive, and are not compared with them.
func (s *session) withRivals(rounds int, f func(tool, namespace string) error) error {
	for range rounds {
		for _, t := range rivals {
			if s.programs[t.name] == "" {
				continue
			}
			if err := f(t.name, s.nextNamespace(t.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextNamespace returns the name of a namespace that has not been used.
func (s *session) nextNamespace(prefix string) string {
	s.namespaces++
	return prefix + "-" + strconv.Itoa(s.namespaces)
}
