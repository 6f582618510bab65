package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/registry"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/throwaway"
)

// operation is something that is about to be done to a release: everything has
// been checked, nothing has been written. *kube.Operation is one.
type operation interface {
	Feed() *event.Feed
	Command(event.Command)
	Run() error
}

// job is an operation as a command asks for it.
type job struct {
	flags    *runFlags
	mode     mode
	registry *registry.Client // may be nil
	// prepare checks and plans; the namespace is known by now.
	prepare func(ctx context.Context, c *kube.Client, namespace string) (*kube.Operation, error)
	// next says what to type after the end.
	next func(*event.State) []string
	// fate is what becomes of the release on an abort that rolls nothing
	// back, "the release will be marked failed" where empty.
	fate string
}

// operate carries a job out, on a throwaway cluster where that is asked for.
func (a *app) operate(cmd *cobra.Command, j job) error {
	if a.plan != nil {
		return a.showPlan(cmd, j)
	}
	in := watchInterrupts(cmd.Context(), cmd.ErrOrStderr())
	defer in.stop()
	err := a.inSandbox(in.ctx, j.flags.sandbox, cmd.ErrOrStderr(), func() error {
		client, op, err := a.prepare(in, j)
		if err != nil || op == nil {
			return err
		}
		return a.display(cmd, in, client, op, j)
	})
	return in.blame(err)
}

// prepared prepares a job for a dry run and calls do with it, and a context that
// ends with the first signal.
func (a *app) prepared(cmd *cobra.Command, j job, do func(context.Context, *kube.Operation) error) error {
	j.flags.planOnly = true
	in := watchInterrupts(cmd.Context(), cmd.ErrOrStderr())
	defer in.stop()
	err := a.inSandbox(in.ctx, j.flags.sandbox, cmd.ErrOrStderr(), func() error {
		_, op, err := a.prepare(in, j)
		if err != nil || op == nil {
			return err
		}
		return do(in.ctx, op)
	})
	return in.blame(err)
}

// prepare checks and plans. The operation is nil where there is nothing to do.
func (a *app) prepare(in *interrupts, j job) (*kube.Client, *kube.Operation, error) {
	client, err := kube.Connect(a.settings, slog.Default(), j.registry)
	if err != nil {
		return nil, nil, err
	}
	op, err := j.prepare(in.ctx, client, a.settings.Namespace())
	if err != nil {
		return nil, nil, err
	}
	return client, op, nil
}

// inSandbox calls do, where sandbox is set with settings that lead to a
// throwaway cluster, which is gone when it returns.
func (a *app) inSandbox(ctx context.Context, sandbox bool, say io.Writer, do func() error) (err error) {
	if !sandbox {
		return do()
	}
	start := time.Now()
	fmt.Fprint(say, "starting a throwaway cluster … ")
	cluster, err := throwaway.Start(ctx, throwaway.Options{})
	if err != nil {
		fmt.Fprintln(say)
		return err
	}
	defer func() {
		if closing := cluster.Close(); closing != nil {
			fmt.Fprintln(say, "warning:", closing)
		}
	}()
	fmt.Fprintf(say, "ready after %.1fs\n", time.Since(start).Seconds())
	s := a.settings
	s.KubeConfig, s.KubeContext = cluster.Kubeconfig, ""
	s.KubeToken, s.KubeAsUser, s.KubeAsGroups, s.KubeAPIServer = "", "", nil, ""
	s.KubeCaFile, s.KubeTLSServerName, s.KubeInsecureSkipTLSVerify = "", "", false
	return do()
}

// outcome is the exit code of an operation that is over. What went wrong has
// been told, except where only events were printed.
func outcome(s *event.State, err error, m mode) error {
	if s.Status == event.Succeeded {
		return nil
	}
	code := s.Exit
	if code == exitDone {
		code = exitFailed
	}
	if s.Message != "" {
		err = errors.New(s.Message)
	}
	if m != modeJSON && s.Status != "" {
		err = nil
	}
	return &exitError{code, err}
}
