package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lockstep/kube"
)

// runFlags are those of every operation on a release.
type runFlags struct {
	timeout, readiness    time.Duration
	wait                  choice
	waitAll, waitForJobs  bool
	noHooks               bool
	rollback              bool
	noTUI, step, hold     bool
	breakOn               []string
	output                choice
	sandbox, planOnly     bool
	readinessSet, holdSet bool
}

const (
	defaultTimeout   = 5 * time.Minute
	defaultReadiness = time.Minute
	heartbeat        = 10 * time.Second
)

// add adds the flags that every operation has.
func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.timeout, "timeout", defaultTimeout, "for the whole operation")
	f.BoolVar(&r.noTUI, "no-tui", false, "print lines in place of the screen; so it is without a terminal, with TERM=dumb, with CI set, and with -o json")
	f.BoolVar(&r.step, "step", false, "start paused, before anything is written (screen only)")
	f.StringArrayVar(&r.breakOn, "break-on", nil, "pause before the group CHART:GROUP starts (repeatable; screen only)")
	f.BoolVar(&r.hold, "hold-on-failure", true, "pause on a failure, to look and to retry (screen only)")
	r.output = choice{allowed: []string{"text", "json"}}
	addChoice(cmd, &r.output, "output", "o", "format")
}

// addWait adds the flags of operations on the objects of a release.
func (r *runFlags) addWait(cmd *cobra.Command) {
	f := cmd.Flags()
	r.wait = choice{allowed: []string{"ordered", "watcher", "hookOnly", "legacy"}, also: []string{"true", "false", "none"}}
	addChoice(cmd, &r.wait, "wait", "", "what to wait for; ordered goes group by group, --wait alone is watcher")
	f.Lookup("wait").NoOptDefVal = "watcher"
	f.BoolVar(&r.noHooks, "no-hooks", false, "run no hooks")
}

// addReadiness adds the flags of operations that bring objects.
func (r *runFlags) addReadiness(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.readiness, "readiness-timeout", defaultReadiness, "for each resource to become ready, from its apply; at most --timeout")
	f.BoolVar(&r.waitAll, "wait-all", false, "also wait for the groups that nothing waits for")
	f.BoolVar(&r.waitForJobs, "wait-for-jobs", false, "Jobs are ready only when they are complete")
}

func (r *runFlags) addSandbox(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.sandbox, "sandbox", false, "do it on a throwaway cluster that is gone afterwards")
}

func (r *runFlags) addRollbackFlag(cmd *cobra.Command, undo string) {
	f := cmd.Flags()
	f.BoolVar(&r.rollback, "rollback-on-failure", false, "on a failure or an interrupt, "+undo+", in order")
	f.BoolVar(&r.rollback, "atomic", false, "another name of --rollback-on-failure")
	_ = f.MarkHidden("atomic") // it is there
}

// mode is how an operation is shown.
type mode string

const (
	modeScreen mode = "screen"
	modeText   mode = "text"
	modeJSON   mode = "json"
)

// check finds what is wrong with the flags, and how the operation is shown. It
// is called before anything else (R25).
func (r *runFlags) check(cmd *cobra.Command) (mode, error) {
	r.readinessSet, r.holdSet = cmd.Flags().Changed("readiness-timeout"), cmd.Flags().Changed("hold-on-failure")
	switch {
	case r.timeout <= 0:
		return "", errors.New("--timeout must be more than 0")
	case r.readinessSet && r.readiness <= 0:
		return "", errors.New("--readiness-timeout must be more than 0")
	case r.readinessSet && r.readiness > r.timeout:
		return "", fmt.Errorf("--readiness-timeout %s is more than --timeout %s: lower the first or raise the second (R25)", r.readiness, r.timeout)
	}
	m := r.mode()
	if m == modeScreen {
		return m, nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"--step", r.step}, {"--break-on", len(r.breakOn) > 0}, {"--hold-on-failure", r.holdSet && r.hold}} {
		if f.set {
			return "", fmt.Errorf("%s needs the screen, where somebody can go on: run in a terminal without --no-tui, -o json, CI or TERM=dumb", f.name)
		}
	}
	return m, nil
}

func (r *runFlags) mode() mode {
	switch {
	case r.output.value == "json":
		return modeJSON
	case r.noTUI, !isTerminal(os.Stdout), !isTerminal(os.Stdin), os.Getenv("TERM") == "dumb", os.Getenv("CI") != "":
		return modeText
	}
	return modeScreen
}

// common are the options of an operation.
func (r *runFlags) common(release, namespace string, m mode) kube.Common {
	c := kube.Common{
		Release: release, Namespace: namespace, Timeout: r.timeout,
		Wait: r.wait.value, WaitAll: r.waitAll, WaitForJobs: r.waitForJobs,
		Step: r.step, BreakOn: r.breakOn, HoldOnFailure: r.hold && m == modeScreen,
		RollbackOnFailure: r.rollback, NoHooks: r.noHooks, Heartbeat: heartbeat, PlanOnly: r.planOnly,
	}
	if r.readinessSet {
		c.ReadinessTimeout = r.readiness // else the default, or the timeout where that is less
	}
	return c
}
