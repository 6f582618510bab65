package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// settleTime is how long controllers take to sync after the start. Half of the process's memory is garbage
// then, and is returned to the system.
const settleTime = 3 * time.Second

// ready is the line that --json prints once the cluster is ready.
type ready struct {
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	DataDir    string `json:"dataDir"`
	AuditLog   string `json:"auditLog,omitempty"`
	PID        int    `json:"pid"`
}

// runSandbox runs a sandbox from start to end and returns the exit code.
func runSandbox(ctx context.Context, o options, in *interrupts) (code int, err error) {
	started := time.Now()
	s, err := open(o)
	switch {
	case errors.Is(err, errForeignKubeconfig):
		return exitUsage, err
	case err != nil:
		return exitFailed, err
	}
	defer func() {
		if e := s.remove(); e != nil && err == nil {
			code, err = max(code, exitFailed), e
		}
	}()
	in.setCleanup(func() { _ = s.remove() })
	if err := s.redirectLogs(o.verbosity); err != nil {
		return exitFailed, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer s.stop()
	defer cancel()
	err = s.start(ctx)
	defer time.AfterFunc(settleTime, debug.FreeOSMemory).Stop()
	if err != nil {
		if ctx.Err() != nil {
			return in.exitCode(), nil
		}
		return exitFailed, fmt.Errorf("%w%s", err, s.logTail())
	}
	if len(o.command) > 0 {
		return s.runCommand(o.command, in)
	}
	if err := s.printReady(o, time.Since(started)); err != nil {
		return exitFailed, err
	}
	select {
	case <-ctx.Done():
		return 0, nil
	case err := <-s.ended():
		return exitFailed, fmt.Errorf("%w%s", err, s.logTail())
	}
}

// runCommand runs COMMAND and returns its exit code.
func (s *sandbox) runCommand(argv []string, in *interrupts) (int, error) {
	c, err := in.startCommand(argv, append(os.Environ(), "KUBECONFIG="+s.kubeconfig))
	switch {
	case errors.Is(err, context.Canceled):
		return in.exitCode(), nil
	case err != nil:
		return exitFailed, err
	}
	defer in.commandEnded()
	code, err := c.Wait(s.ended())
	if err != nil {
		err = fmt.Errorf("%w%s", err, s.logTail())
	}
	return code, err
}

// printReady prints how to use the cluster.
func (s *sandbox) printReady(o options, took time.Duration) error {
	if o.json {
		line, err := json.Marshal(ready{s.kubeconfig, s.server, s.dir.Path, s.auditLog, os.Getpid()})
		if err != nil {
			return err
		}
		_, err = fmt.Printf("%s\n", line)
		return err
	}
	fmt.Fprintf(stderr, "Kubernetes %s ready after %.1fs; Ctrl-C stops it.\n", s.version, took.Seconds())
	_, err := fmt.Printf("export KUBECONFIG=%s\n", shellQuote(s.kubeconfig))
	return err
}

// ended returns a channel that delivers an error if the cluster stops unexpectedly. From the first call on, that includes
// the end of the API server.
func (s *sandbox) ended() <-chan error {
	if api := s.apiDone; api != nil {
		done := make(chan error, 1)
		s.apiDone = done
		go func() {
			err := <-api
			done <- err // for stop
			s.fail(apiServerEnded(err))
		}()
	}
	return s.failed
}

// apiServerEnded returns the error about an API server that ended by itself, with err or without an error.
func apiServerEnded(err error) error {
	if err == nil {
		return errors.New("kube-apiserver ended")
	}
	return fmt.Errorf("kube-apiserver ended: %w", err)
}

// shellQuote quotes s as one word for a shell, if necessary.
func shellQuote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-+:@%,=", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
