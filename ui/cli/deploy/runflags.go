package deploy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// runFlags are the flags that all operations share.
type runFlags struct {
	waitFlags
	pauseFlags
	abortFlags
	cluster                         clusterFlags
	output                          command.Choice
	noTUI                           bool
	noHooks, sandbox, skipPreflight bool
	reports                         []string
	outcomes                        *report.Outcomes // set by withReports
}

// waitFlags decide what a run waits for, and for how long.
type waitFlags struct {
	timeout, readiness   time.Duration
	wait                 command.Choice
	waitAll, waitForJobs bool
}

// pauseFlags decide where a run pauses.
type pauseFlags struct {
	step, hold bool
	breakOn    []string
}

// abortFlags decide what happens on a failure, a signal or a closed terminal.
type abortFlags struct {
	rollback          bool
	interrupt, hangup command.Choice
}

const (
	defaultTimeout   = 5 * time.Minute
	defaultReadiness = time.Minute
	heartbeat        = 10 * time.Second
)

// add adds the flags of every operation.
func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.timeout, "timeout", defaultTimeout, "time limit of the whole operation")
	f.BoolVar(&r.noTUI, "no-tui", false, "print lines instead of the screen (default without a terminal, in CI, or with -o json)")
	f.BoolVar(&r.step, "step", false, "start paused, before the first write; with --no-tui, resume with lockstep ctl")
	f.StringArrayVar(&r.breakOn, "break-on", nil, "pause before a group: CHART:GROUP, CHART:~ (resources without a group), any unambiguous suffix of these, a pattern (*:schema), kind=Job, or failure (repeatable)")
	f.BoolVar(&r.hold, "hold-on-failure", true, "pause on failure so that you can retry (default: true with the screen, false without)")
	f.StringArrayVar(&r.reports, "report", nil, "write a report: junit=FILE, json=FILE or markdown=FILE (repeatable)")
	f.BoolVar(&r.skipPreflight, "skip-preflight", false, "skip checks of permissions, references, quotas, limits and webhooks")
	r.output = command.TextOrJSON()
	command.AddChoice(cmd, &r.output, "output", "o", "format")
	r.cluster.add(f)
	r.hangup = command.Choice{Allowed: []string{string(command.HangupContinue), string(command.HangupKeep)}}
	command.AddChoice(cmd, &r.hangup, "on-hangup", "", "")
	f.Lookup("on-hangup").Usage = "if the terminal closes: continue the run, or abort and keep existing objects (keep)"
}

// addWait adds --wait and --no-hooks.
func (r *runFlags) addWait(cmd *cobra.Command) {
	f := cmd.Flags()
	r.wait = command.WaitChoice()
	command.AddWait(cmd, &r.wait, "wait strategy (--wait without a value: watcher)")
	f.BoolVar(&r.noHooks, "no-hooks", false, "skip hooks")
}

// addReadiness adds the flags for the readiness of applied objects.
func (r *runFlags) addReadiness(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.readiness, "readiness-timeout", defaultReadiness, "time for each resource to become ready; at most --timeout")
	f.BoolVar(&r.waitAll, "wait-all", true, "wait until every group is ready, not only those that others wait for")
	f.BoolVar(&r.waitForJobs, "wait-for-jobs", false, "wait until Jobs are complete")
}

func (r *runFlags) addSandbox(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.sandbox, "sandbox", false, "use a throwaway cluster, deleted afterwards")
}

func (r *runFlags) addRollbackFlag(cmd *cobra.Command, what, undo string) {
	f := cmd.Flags()
	f.BoolVar(&r.rollback, "rollback-on-failure", false, "if "+what+" fails or is interrupted, "+undo)
	f.BoolVar(&r.rollback, "atomic", false, "alias of --rollback-on-failure")
	_ = f.MarkHidden("atomic") // defined above
	r.interrupt = command.Choice{Allowed: []string{"keep", "rollback"}}
	command.AddChoice(cmd, &r.interrupt, "on-interrupt", "", "on the first SIGINT or SIGTERM, keep existing objects or roll back")
	r.hangup.Allowed = append(r.hangup.Allowed, string(command.HangupRollback))
	f.Lookup("on-hangup").Usage = "if the terminal closes: continue the run, abort and keep existing objects (keep), or abort and roll back (rollback)"
}

// runOptions are the parsed flags of an operation.
type runOptions struct {
	mode             command.Mode
	sandbox          bool
	rollbackOnSignal bool // the first signal rolls back
	hangup           command.HangupAction
	// controlFlag is a flag that may make a run without a screen wait for commands from another
	// terminal, or "".
	controlFlag string
	outcomes    *report.Outcomes // receives the outcome, for reports
	common      kube.Common      // without the release, its namespace and PlanOnly
}

// parse validates the flags (R25). Call it before anything else.
func (r *runFlags) parse(cmd *cobra.Command) (runOptions, error) {
	changed := cmd.Flags().Changed
	readiness := r.readiness
	switch {
	case r.timeout <= 0:
		return runOptions{}, errors.New("--timeout must be more than 0")
	case !changed("readiness-timeout"):
		readiness = 0 // means the default, or the timeout if that is shorter
	case r.readiness <= 0:
		return runOptions{}, errors.New("--readiness-timeout must be more than 0")
	case r.readiness > r.timeout:
		return runOptions{}, fmt.Errorf("--readiness-timeout %s exceeds --timeout %s: lower the first or raise the second (R25)", r.readiness, r.timeout)
	}
	m := command.ModeFor(r.output.Value, r.noTUI)
	isFailure := func(text string) bool { return text == "failure" }
	hold := r.hold && (m == command.ModeScreen || changed("hold-on-failure")) || slices.ContainsFunc(r.breakOn, isFailure)
	controlFlag := ""
	switch {
	case m == command.ModeScreen:
	case r.step:
		controlFlag = "--step"
	case len(r.breakOn) > 0:
		controlFlag = "--break-on"
	case hold:
		controlFlag = "--hold-on-failure"
	}
	rollbackOnSignal := r.rollback
	if changed("on-interrupt") {
		rollbackOnSignal = r.interrupt.Value == "rollback"
	}
	return runOptions{mode: m, sandbox: r.sandbox, rollbackOnSignal: rollbackOnSignal, hangup: command.HangupAction(r.hangup.Value), controlFlag: controlFlag, outcomes: r.outcomes, common: kube.Common{
		Timeout: r.timeout, ReadinessTimeout: readiness, Wait: r.wait.Value, SkipLeaves: !r.waitAll, WaitForJobs: r.waitForJobs,
		Step: r.step, BreakOn: slices.DeleteFunc(slices.Clone(r.breakOn), isFailure), HoldOnFailure: hold,
		RollbackOnFailure: r.rollback, NoHooks: r.noHooks, Heartbeat: heartbeat, SkipPreflight: r.skipPreflight,
	}}, nil
}
