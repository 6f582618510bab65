package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/incluster"
	"lockstep/kube/planfile"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/plans"
)

// runFlags are the flags that all operations share.
type runFlags struct {
	runOptions    // those that need no parsing; withReports sets follow
	readiness     readinessFlags
	waitAll, hold bool
	interrupt     string
	cluster       clusterFlags
	out           outFlags
}

const (
	heartbeat = 10 * time.Second
	// defaultSettle is how long the containers of workloads without probes must have run before the outcome (R22c).
	defaultSettle = 5 * time.Second
)

// add adds the flags of every operation.
func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.common.Timeout, "timeout", kube.DefaultTimeout, "time limit of the operation, without pauses; also of each object without --readiness-timeout; an automatic rollback gets the same time again")
	f.Bool("no-tui", false, "print lines instead of the screen (default without a terminal, in CI, or with -o json)")
	f.BoolVar(&r.common.Step, "step", false, "start paused, before the first write; with --no-tui, resume with lockstep ctl")
	f.StringArrayVar(&r.common.BreakOn, "break-on", nil, "pause before a group: CHART:GROUP, CHART:~ (objects without a group), any unambiguous suffix of these, a pattern (*:schema), kind=Job, or failure (repeatable)")
	f.StringArrayVar(&r.common.ApproveBefore, "approve-before", nil, "pause before a group until somebody approves it: CHART:GROUP or as in --break-on (repeatable)")
	f.StringArrayVar(&r.common.Approve, "approve", nil, "approve a group beforehand, named as in --break-on (repeatable)")
	f.BoolVar(&r.provenApprovals, "approval-in-cluster", false, "accept only approvals that somebody writes to the cluster with their own account (always with --in-cluster); see lockstep help approvals")
	f.DurationVar(&r.approvalTimeout, "approval-timeout", 0, "how long a group may wait for its approval; then the run is aborted (0: no limit)")
	f.BoolVar(&r.hold, "hold-on-failure", true, "hold the run when a group fails, so that you can retry (default: true with the screen, false without)")
	f.StringArrayVar(&r.out.reports, "report", nil, "write a report: junit=FILE, json=FILE or markdown=FILE (repeatable)")
	r.out.addNotify(f)
	f.BoolVar(&r.common.SkipPreflight, "skip-preflight", false, "skip most checks before the first write: fields, permissions, references, quotas, limits and webhooks")
	command.AddOutput(cmd)
	r.cluster.add(f)
	const onHangup = "if the terminal closes: continue the run, or abort and keep the objects (keep)"
	command.AddChoice(cmd, &r.hangup, "on-hangup", "", onHangup, command.HangupContinue, command.HangupKeep)
}

// addWait adds --wait and --no-hooks.
func (r *runFlags) addWait(cmd *cobra.Command) {
	command.AddWait(cmd, &r.common.Wait, "what to wait for: ordered (each group before the next), or watcher, hookOnly or legacy, which ignore groups, as in Helm. Without the flag: ordered. A bare --wait means watcher")
	cmd.Flags().BoolVar(&r.common.NoHooks, "no-hooks", false, "skip hooks")
}

// addChart adds the flags of operations that render charts.
func (r *runFlags) addChart(cmd *cobra.Command, exec executor) {
	r.addReadiness(cmd)
	r.addPlan(cmd, exec)
	r.addCheckImages(cmd)
	f := cmd.Flags()
	f.BoolVar(&r.common.Strict, "strict", false, "treat lint errors about the order as errors, not as warnings: refuse a chart whose objects would lose their order")
	f.BoolVar(&r.common.Test, "test", false, "run the chart's tests (helm.sh/hook: test) after the release is deployed; if one fails, the release fails")
}

// addReadiness adds the flags for the readiness of applied objects.
func (r *runFlags) addReadiness(cmd *cobra.Command) {
	f := cmd.Flags()
	r.readiness.add(f, &r.common.ReadinessTimeout)
	f.DurationVar(&r.common.FirstStatusTimeout, "first-status-timeout", kube.DefaultFirstStatus, "time for the controller of a custom resource to write a status; then the resource counts as ready, with a warning (0: do not wait)")
	f.DurationVar(&r.common.Settle, "settle", defaultSettle, "how long containers without a readiness or startup probe must run before they count as stable; at most --timeout (0: do not wait)")
	f.BoolVar(&r.waitAll, "wait-all", true, "wait until every group is ready, not only those that others wait for")
	command.AddWaitForJobs(f, &r.common.WaitForJobs)
	f.BoolVar(&r.common.KeepBrokenPods, "keep-broken-pods", false, "keep pods of StatefulSets that block the rollout: they have an older template and were never ready")
}

// addCheckImages adds --check-images.
func (r *runFlags) addCheckImages(cmd *cobra.Command) {
	command.AddChoice(cmd, &r.common.CheckImages, "check-images", "", "ask the registries for all images before the first write: off, warn, or error to refuse the operation; without a value: warn", kube.ImagesUnchecked, kube.ImagesMayLack, kube.ImagesMustExist)
	cmd.Flags().Lookup("check-images").NoOptDefVal = kube.ImagesMayLack
}

// addWaitFor adds --wait-for.
func (r *runFlags) addWaitFor(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&r.common.WaitFor, "wait-for", nil, "start only once this object from outside the release exists and is ready: "+plan.OutsideFormat+" (repeatable)")
}

// addReplace adds --replace.
func (r *runFlags) addReplace(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&r.common.ReplaceObjects, "replace", []string{plan.ReplaceNever},
		"delete and create again objects that cannot be updated: never, ask (pause before them; the default on the screen), or "+plan.ReplaceFormat+",…; the plan shows them")
}

// addPlan adds --plan to a command that changes the cluster.
func (r *runFlags) addPlan(cmd *cobra.Command, exec executor) {
	if exec.writes {
		cmd.Flags().String("plan", "", "run exactly the plan that \"lockstep plan --out\" saved in this file, or nothing (\"lockstep help plans\")")
	}
}

// readPlan reads the file of --plan, nil if it is not given.
func readPlan(cmd *cobra.Command) (*planfile.File, error) {
	path, err := cmd.Flags().GetString("plan")
	switch {
	case err != nil || path == "": // the command has no such flag
		return nil, nil
	case isDryRun(cmd):
		return nil, command.UsageError("--plan cannot be combined with --dry-run; print the plan with: " + text.Program + " plan show " + path)
	}
	f, err := plans.Read(path)
	if err == nil {
		err = plans.Check(path, f, cmd.Name() == "up")
	}
	return f, err
}

// addDeleteCRDs adds --delete-crds.
func (r *runFlags) addDeleteCRDs(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.common.DeleteCRDs, "delete-crds", false, "delete CustomResourceDefinitions of the templates although they have objects, with all of these; the plan counts them")
}

func (r *runFlags) addSandbox(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.sandbox, "sandbox", false, "use a throwaway cluster; it is deleted afterwards; needs lockstep-sandbox, which make builds in a clone")
}

// addRollback adds --rollback-on-failure and --on-interrupt, and extends --on-hangup. what and undo
// describe the operation and its rollback.
func (r *runFlags) addRollback(cmd *cobra.Command, what, undo string) {
	f := cmd.Flags()
	f.BoolVar(&r.common.RollbackOnFailure, "rollback-on-failure", false, "if "+what+" fails or is interrupted, "+undo)
	f.BoolVar(&r.common.RollbackOnFailure, "atomic", false, "alias of --rollback-on-failure")
	_ = f.MarkHidden("atomic") // fails only if the flag is not defined
	r.addPastNoReturn(cmd)
	const onInterrupt = "on the first SIGINT or SIGTERM: keep the objects, or roll back (default keep; rollback with --rollback-on-failure)"
	command.AddChoice(cmd, &r.interrupt, "on-interrupt", "", onInterrupt, "keep", "rollback")
	hangup := f.Lookup("on-hangup")
	hangup.Value.(*command.Choice).Allowed = []string{command.HangupContinue, command.HangupKeep, command.HangupRollback}
	hangup.Usage = "if the terminal closes: continue the run, abort and keep the objects (keep), or abort and roll back (rollback)"
}

// addPastNoReturn adds --past-no-return.
func (r *runFlags) addPastNoReturn(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.common.PastNoReturn, "past-no-return", "", "roll back even past a point of no return (lockstep/no-return) with exactly this reason; see lockstep help no-return")
}

// runOptions are the parsed flags of an operation.
type runOptions struct {
	screen           bool // show the screen
	sandbox          bool
	rollbackOnSignal bool          // the first signal rolls back
	approvalTimeout  time.Duration // 0 for none
	provenApprovals  bool          // they are read from the cluster
	hangup           string        // for command.SignalPolicy
	// controlFlag is a flag that may make a run without a screen wait for commands from another
	// terminal, or "".
	controlFlag   string
	follow        *followers     // set for a run
	savedPlan     *planfile.File // --plan, nil for none
	notifyKeyFile string
	common        kube.Common // without the release and its namespace
}

// timeout returns the time limit of the operation.
func (r runOptions) timeout() time.Duration { return cmp.Or(r.common.Timeout, kube.DefaultTimeout) }

// checkSandbox returns an error if --sandbox is combined with a flag that selects a cluster or user.
func (r *runFlags) checkSandbox(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if r.sandbox && err == nil && command.SelectsCluster(cmd, f.Name) {
			err = command.UsageError("--sandbox cannot be combined with --" + f.Name + ", because a throwaway cluster has its own connection settings")
		}
	})
	return err
}

// readinessTimeout validates the durations (R25) and returns the readiness timeout. 0 stands for the
// default, which kube limits to --timeout.
func (r *runFlags) readinessTimeout(cmd *cobra.Command) (time.Duration, error) {
	timeout, readiness := r.common.Timeout, r.common.ReadinessTimeout
	_, given := givenReadinessTimeout(cmd)
	switch {
	case timeout <= 0:
		return 0, errors.New("--timeout must be more than 0")
	case !given, readiness == 0 && cmd.Flag("readiness-timeout").DefValue == "0s":
		return 0, nil
	case readiness <= 0:
		return 0, errors.New("--readiness-timeout must be more than 0")
	case readiness > timeout:
		return 0, fmt.Errorf("--readiness-timeout %s exceeds --timeout %s: lower the first or raise the second (R25)", readiness, timeout)
	}
	return readiness, nil
}

// parse validates the flags. Call it before anything else.
func (r *runFlags) parse(cmd *cobra.Command) (runOptions, error) {
	if err := r.checkSandbox(cmd); err != nil {
		return runOptions{}, err
	}
	changed, common := cmd.Flags().Changed, r.common
	var err error
	if common.ReadinessTimeout, err = r.readinessTimeout(cmd); err != nil {
		return runOptions{}, err
	}
	for _, name := range []string{"approval-timeout", "keep-for", "first-status-timeout", "settle"} {
		if f := cmd.Flags().Lookup(name); f != nil && strings.HasPrefix(f.Value.String(), "-") {
			return runOptions{}, fmt.Errorf("--%s must not be negative", name)
		}
	}
	if r.provenApprovals && len(common.Approve) > 0 {
		return runOptions{}, errors.New("--approve cannot be combined with --approval-in-cluster, where somebody else approves")
	}
	switch {
	case !changed("settle"):
		common.Settle = min(common.Settle, common.Timeout)
	case common.Settle > common.Timeout:
		return runOptions{}, fmt.Errorf("--settle %s exceeds --timeout %s: lower the first or raise the second (R22c)", common.Settle, common.Timeout)
	}
	if common.FirstStatusTimeout == 0 && changed("first-status-timeout") {
		common.FirstStatusTimeout = -1 // 0 is the default
	}
	if !changed("timeout") { // then the readiness timeout has its own default (R25)
		common.Timeout = 0
	}
	if common.Readiness, err = r.readiness.overrides(); err != nil {
		return runOptions{}, err
	}
	out := r.runOptions
	out.screen, out.rollbackOnSignal, out.notifyKeyFile = command.UseScreen(cmd), common.RollbackOnFailure, r.out.notifyKeyFile
	out.provenApprovals = r.provenApprovals || incluster.ApprovalsLease() != "" // in the pod of a run
	if out.savedPlan, err = readPlan(cmd); err != nil {
		return out, err
	}
	isPlan := cmd.Flags().Lookup("tui") != nil // nobody can be asked
	if out.screen && !isPlan && !changed("replace") && cmd.Flags().Lookup("replace") != nil && cmd.Name() != "install" {
		common.ReplaceObjects = []string{plan.ReplaceAsk}
	}
	isFailure := func(text string) bool { return text == "failure" }
	common.HoldOnFailure = r.hold && (out.screen || changed("hold-on-failure")) || slices.ContainsFunc(common.BreakOn, isFailure)
	if !out.screen {
		out.controlFlag = controlFlag(common)
	}
	if changed("on-interrupt") {
		out.rollbackOnSignal = r.interrupt == "rollback"
	}
	common.BreakOn = slices.DeleteFunc(slices.Clone(common.BreakOn), isFailure)
	common.SkipLeaves, common.Heartbeat = !r.waitAll, heartbeat
	out.common = common
	return out, nil
}

// controlFlag returns runOptions.controlFlag of a run without a screen.
func controlFlag(c kube.Common) string {
	switch {
	case c.Step:
		return "--step"
	case len(c.ApproveBefore) > 0:
		return "--approve-before"
	case len(c.BreakOn) > 0:
		return "--break-on"
	case c.HoldOnFailure:
		return "--hold-on-failure"
	}
	return ""
}

// clusterFlags are the flags for a run in the cluster.
type clusterFlags struct {
	enabled        bool
	image, account string
	keepFor        time.Duration
}

func (c *clusterFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&c.enabled, "in-cluster", false, "run as a Job in the cluster; this terminal only watches and controls it")
	f.StringVar(&c.account, "service-account", "", "the Job's ServiceAccount, with --in-cluster")
	f.StringVar(&c.image, "image", "", "image of the Job, with --in-cluster (default: the image for this lockstep version)")
	f.DurationVar(&c.keepFor, "keep-for", time.Hour, "how long to keep the Job after it ends, with --in-cluster")
}

// localFlags are the flags that commandLine does not copy. They determine the packed files, concern only
// this terminal or connect to the cluster from outside, or are passed in another way.
var localFlags = []string{
	"in-cluster", "service-account", "image", "keep-for", "sandbox", "output", "no-tui", "report", "notify-key-file", "on-hangup", "create-namespace",
	"values", "set", "set-string", "set-json", "set-file", "set-literal", "values-from-revision",
	"version", "devel", "repo", "username", "password", "ca-file", "cert-file", "key-file", "insecure-skip-tls-verify", "plain-http",
	"pass-credentials", "verify", "keyring", "dependency-update", "generate-name", "name-template", "labels", "hold-on-failure",
	"readiness", "readiness-file", "no-wait-for", "plan",
	"namespace", "kubeconfig", "kube-context", "kube-token", "kube-as-user", "kube-as-group", "kube-apiserver", "kube-ca-file",
	"kube-tls-server-name", "kube-insecure-skip-tls-verify", "registry-config", "repository-config", "repository-cache", "color",
	"file", "environment", "selector", "state-values-file", "state-values-set", "skip-deps", "allow-hooks", "skip-hooks",
}

// check returns an error if a command cannot run in the cluster.
func (c *clusterFlags) check(cmd *cobra.Command, exec executor) error {
	switch {
	case !c.enabled && !exec.printManifests:
		for _, name := range []string{"service-account", "image", "keep-for"} {
			if exec.writes && cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s needs --in-cluster", name)
			}
		}
		return nil
	case isDryRun(cmd):
		return fmt.Errorf("%s cannot be combined with --dry-run", c.requestedBy(cmd))
	case !exec.writes && !exec.printManifests:
		return errors.New("--in-cluster cannot be combined with plan, which writes nothing")
	case cmd.Flags().Changed("post-renderer"):
		return fmt.Errorf("--post-renderer does not work with %s: its plugin is on this machine", c.requestedBy(cmd))
	}
	return nil
}

// requestedBy returns the flag or command that asks for a run in the cluster.
func (c *clusterFlags) requestedBy(cmd *cobra.Command) string {
	if c.enabled {
		return "--in-cluster"
	}
	return cmd.Name()
}
