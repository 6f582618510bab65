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

// runFlags are the flags of every operation on a release.
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

// waitFlags decide what to wait for, and how long.
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

// abortFlags decide what a failure, a signal or a closed terminal does.
type abortFlags struct {
	rollback          bool
	interrupt, hangup command.Choice
}

const (
	defaultTimeout   = 5 * time.Minute
	defaultReadiness = time.Minute
	heartbeat        = 10 * time.Second
)

// add adds the flags that every operation has.
func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.timeout, "timeout", defaultTimeout, "time limit of the whole operation")
	f.BoolVar(&r.noTUI, "no-tui", false, "print lines instead of the screen (default without a terminal, in CI, or with -o json)")
	f.BoolVar(&r.step, "step", false, "start paused, before the first write; without a screen, resume with lockstep ctl")
	f.StringArrayVar(&r.breakOn, "break-on", nil, "pause before a group: CHART:GROUP, CHART:~, a unique end of either, a pattern (*:schema), kind=Job, or failure (repeatable)")
	f.BoolVar(&r.hold, "hold-on-failure", true, "pause on failure so that you can retry (default: only on the screen)")
	f.StringArrayVar(&r.reports, "report", nil, "write a report: junit=FILE, json=FILE or markdown=FILE (repeatable)")
	f.BoolVar(&r.skipPreflight, "skip-preflight", false, "skip checks of permissions, references, quotas, limits and webhooks")
	r.output = command.TextOrJSON()
	command.AddChoice(cmd, &r.output, "output", "o", "format")
	r.cluster.add(f)
	r.hangup = command.Choice{Allowed: []string{string(command.HangupContinue), string(command.HangupKeep)}}
	command.AddChoice(cmd, &r.hangup, "on-hangup", "", "if the terminal closes, continue or abort the run")
}

// addWait adds the flags of operations on the objects of a release.
func (r *runFlags) addWait(cmd *cobra.Command) {
	f := cmd.Flags()
	r.wait = command.WaitChoice()
	command.AddWait(cmd, &r.wait, "wait strategy (--wait without a value: watcher)")
	f.BoolVar(&r.noHooks, "no-hooks", false, "skip hooks")
}

// addReadiness adds the flags of operations that apply objects.
func (r *runFlags) addReadiness(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.readiness, "readiness-timeout", defaultReadiness, "time for each resource to become ready; at most --timeout")
	f.BoolVar(&r.waitAll, "wait-all", true, "wait until every group is ready, not only those that others wait for")
	f.BoolVar(&r.waitForJobs, "wait-for-jobs", false, "wait until Jobs are complete")
}

func (r *runFlags) addSandbox(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.sandbox, "sandbox", false, "use a throwaway cluster, deleted afterwards")
}

func (r *runFlags) addRollbackFlag(cmd *cobra.Command, undo string) {
	f := cmd.Flags()
	f.BoolVar(&r.rollback, "rollback-on-failure", false, "on a failure or an interrupt, "+undo)
	f.BoolVar(&r.rollback, "atomic", false, "alias of --rollback-on-failure")
	_ = f.MarkHidden("atomic") // defined above
	r.interrupt = command.Choice{Allowed: []string{"keep", "rollback"}}
	command.AddChoice(cmd, &r.interrupt, "on-interrupt", "", "on the first SIGINT or SIGTERM, keep existing objects or roll back")
	r.hangup.Allowed = append(r.hangup.Allowed, string(command.HangupRollback))
	hangup := f.Lookup("on-hangup")
	hangup.Usage += ", " + string(command.HangupRollback)
}

// running is how an operation is to be run, as its flags say.
type running struct {
	mode    command.Mode
	sandbox bool
	// interrupt means that the first signal rolls back.
	interrupt bool
	hangup    command.HangupAction
	// steering is the flag by which a run without a screen may wait for
	// somebody to steer it, or empty.
	steering string
	// outcomes are told how it has ended.
	outcomes *report.Outcomes
	// common lacks what the flags of operations do not say: the release, its
	// namespace, and whether anything is to be written.
	common kube.Common
}

// parse reads the flags, or says what is wrong with them. It is called before
// anything else (R25).
func (r *runFlags) parse(cmd *cobra.Command) (running, error) {
	given := cmd.Flags().Changed
	readiness := r.readiness
	switch {
	case r.timeout <= 0:
		return running{}, errors.New("--timeout must be more than 0")
	case !given("readiness-timeout"):
		readiness = 0 // the default, or the timeout if that is less
	case r.readiness <= 0:
		return running{}, errors.New("--readiness-timeout must be more than 0")
	case r.readiness > r.timeout:
		return running{}, fmt.Errorf("--readiness-timeout %s exceeds --timeout %s: lower the first or raise the second (R25)", r.readiness, r.timeout)
	}
	m := command.ModeFor(r.output.Value, r.noTUI)
	failures := func(text string) bool { return text == "failure" }
	hold := r.hold && (m == command.ModeScreen || given("hold-on-failure")) || slices.ContainsFunc(r.breakOn, failures)
	steering := ""
	switch {
	case m == command.ModeScreen:
	case r.step:
		steering = "--step"
	case len(r.breakOn) > 0:
		steering = "--break-on"
	case hold:
		steering = "--hold-on-failure"
	}
	interrupt := r.rollback
	if given("on-interrupt") {
		interrupt = r.interrupt.Value == "rollback"
	}
	return running{mode: m, sandbox: r.sandbox, interrupt: interrupt, hangup: command.HangupAction(r.hangup.Value), steering: steering, outcomes: r.outcomes, common: kube.Common{
		Timeout: r.timeout, ReadinessTimeout: readiness, Wait: r.wait.Value, SkipLeaves: !r.waitAll, WaitForJobs: r.waitForJobs,
		Step: r.step, BreakOn: slices.DeleteFunc(slices.Clone(r.breakOn), failures), HoldOnFailure: hold,
		RollbackOnFailure: r.rollback, NoHooks: r.noHooks, Heartbeat: heartbeat, SkipPreflight: r.skipPreflight,
	}}, nil
}
