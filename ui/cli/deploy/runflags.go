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

// runFlags are those of every operation on a release.
type runFlags struct {
	timeout, readiness   time.Duration
	wait                 command.Choice
	waitAll, waitForJobs bool
	noHooks              bool
	rollback             bool
	noTUI, step, hold    bool
	breakOn              []string
	output               command.Choice
	sandbox              bool
	skipPreflight        bool
	interrupt, hangup    command.Choice
	reports              []string
	outcomes             *report.Outcomes // set once reports were read
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
	f.BoolVar(&r.noTUI, "no-tui", false, "print lines in place of the screen; so it is without a terminal, with TERM=dumb, with CI or ACCESSIBLE set, and with -o json")
	f.BoolVar(&r.step, "step", false, "start paused, before anything is written; without the screen \"lockstep ctl\" steers")
	f.StringArrayVar(&r.breakOn, "break-on", nil, "pause before the group CHART:GROUP starts; a pattern (*:schema), kind=Job, or failure (repeatable)")
	f.BoolVar(&r.hold, "hold-on-failure", true, "pause on a failure, to look and to retry (without the screen only where given)")
	f.StringArrayVar(&r.reports, "report", nil, "in the end write junit=FILE, json=FILE or markdown=FILE, however it ends (repeatable; \"lockstep help reports\")")
	f.BoolVar(&r.skipPreflight, "skip-preflight", false, "do not look whether the cluster has what it takes: rights, references, quotas, limits, webhooks")
	r.output = command.TextOrJSON()
	command.AddChoice(cmd, &r.output, "output", "o", "format")
	r.hangup = command.Choice{Allowed: []string{string(command.HangupContinue), string(command.HangupKeep)}}
	command.AddChoice(cmd, &r.hangup, "on-hangup", "", "what to do when the terminal goes away: go on without it, or stop and keep what is there")
}

// addWait adds the flags of operations on the objects of a release.
func (r *runFlags) addWait(cmd *cobra.Command) {
	f := cmd.Flags()
	r.wait = command.WaitChoice()
	command.AddWait(cmd, &r.wait, "what to wait for; ordered goes group by group, --wait alone is watcher")
	f.BoolVar(&r.noHooks, "no-hooks", false, "run no hooks")
}

// addReadiness adds the flags of operations that bring objects.
func (r *runFlags) addReadiness(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.readiness, "readiness-timeout", defaultReadiness, "for each resource to become ready, from its apply; at most --timeout")
	f.BoolVar(&r.waitAll, "wait-all", true, "wait until every group is ready; false checks only groups that others wait for")
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
	r.interrupt = command.Choice{Allowed: []string{"keep", "rollback"}}
	command.AddChoice(cmd, &r.interrupt, "on-interrupt", "", "what the first SIGINT or SIGTERM does with what is there (rollback with --rollback-on-failure)")
	r.hangup.Allowed = append(r.hangup.Allowed, string(command.HangupRollback))
	hangup := f.Lookup("on-hangup")
	hangup.Usage += ", " + string(command.HangupRollback)
}

// running is how an operation is to be run, as its flags say.
type running struct {
	mode    command.Mode
	sandbox bool
	// interrupt tells that the first signal rolls back.
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
		readiness = 0 // the default, or the timeout where that is less
	case r.readiness <= 0:
		return running{}, errors.New("--readiness-timeout must be more than 0")
	case r.readiness > r.timeout:
		return running{}, fmt.Errorf("--readiness-timeout %s is more than --timeout %s: lower the first or raise the second (R25)", r.readiness, r.timeout)
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
