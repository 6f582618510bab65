package deploy

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/connect"
	"lockstep/kube/incluster"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/notify"
	"lockstep/ui/report"
	"lockstep/ui/report/reportfile"
	"lockstep/ui/trace"
)

// withReports parses the flags, calls run with them, and writes the reports of the operation, even
// if it never starts. If a report file cannot be created, it does not call run.
func (a *app) withReports(cmd *cobra.Command, flags *runFlags, exec executor, args []string, run func(runOptions) error) error {
	switch {
	case len(flags.out.reports) == 0:
	case isDryRun(cmd):
		return command.UsageError("--report cannot be combined with --dry-run")
	case !exec.writes:
		return errors.New("--report needs a run; this command only shows what would happen")
	case cmd.Name() == "uninstall" && len(args) > 1:
		return errors.New("--report covers one release; uninstall them one at a time")
	}
	if err := flags.cluster.check(cmd, exec); err != nil {
		return err
	}
	start := func() error {
		options, err := flags.parse(cmd)
		if err != nil {
			return err
		}
		return run(options)
	}
	if !exec.writes {
		return start()
	}
	if !isDryRun(cmd) {
		// Writing to a closed pipe must not kill the operation.
		signal.Ignore(syscall.SIGPIPE)
	}
	follow, err := a.follow(cmd, flags.out, a.gitHub(cmd, args))
	if err != nil {
		return err
	}
	defer follow.close(a.Display(cmd).Notices)
	flags.follow = follow
	err = start()
	if !follow.Reported() {
		a.reportNotStarted(cmd, args, follow, new(mask.Mask).Error(a.Signals.Cause(err)))
	}
	return err
}

// gitHub returns the step of GitHub Actions that runs lockstep, or nil elsewhere.
func (a *app) gitHub(cmd *cobra.Command, args []string) *reportfile.GitHub {
	stderr := a.Stderr(cmd)
	if stderr.CI != report.GitHub {
		return nil
	}
	return &reportfile.GitHub{
		Log: stderr.Writer, Summary: os.Getenv("GITHUB_STEP_SUMMARY"),
		ChartFile: func(chart string) string { return chartFile(args, chart) },
	}
}

// reportNotStarted writes the reports of an operation that did not start because of cause, which
// is nil if there was nothing to do. With -o json it also prints an event.
func (a *app) reportNotStarted(cmd *cobra.Command, args []string, follow *followers, cause error) {
	op := event.Operation{Name: cmd.Name(), Release: args[0], Namespace: a.Settings.Namespace()}
	if cmd.Name() == "install" && len(args) == 1 { // only a chart: the release has no name yet
		op.Release = ""
	}
	outcome := reportfile.NotStarted(op, time.Now().UTC(), command.ExitCode(cause), cause, problems(cause))
	oneRelease := cmd.Name() != "uninstall" || len(args) == 1
	if oneRelease {
		follow.notStarted(reportfile.NotStartedEvent(outcome))
	}
	if cause != nil && oneRelease && command.OutputFormat(cmd) == report.ModeJSON && !isDryRun(cmd) {
		a.Display(cmd).Operation(report.Options{}).Consume(reportfile.NotStartedEvent(outcome))
	}
	command.WarnIf(a.Display(cmd).Notices, follow.Report(outcome))
}

// problems returns the problems that an error lists, or nil if it is not about the plan or the checks
// before the first write.
func problems(err error) (found []plan.Warning) {
	if refusal, ok := errors.AsType[*kube.Refusal](err); ok {
		return refusal.Conflicts
	}
	faults, _ := errors.AsType[plan.Errors](err)
	if fault, ok := errors.AsType[*plan.Error](err); ok && faults == nil {
		faults = plan.Errors{fault}
	}
	for _, f := range faults {
		found = append(found, plan.Warning{Rule: f.Rule, Chart: f.Chart, Object: f.Object, Message: f.Message})
	}
	return found
}

func isDryRun(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("dry-run")
	return f != nil && f.Changed && f.Value.String() != command.DryRunNone && f.Value.String() != "false"
}

// chartFile returns the path of a chart's Chart.yaml, or of its nearest parent that has one,
// relative to GITHUB_WORKSPACE. It is "" unless the chart is deployed from a directory.
func chartFile(args []string, chart string) string {
	dir := args[len(args)-1]
	if len(args) < 2 || !input.Exists(filepath.Join(dir, "Chart.yaml")) {
		return ""
	}
	for _, name := range strings.Split(chart, "/")[1:] {
		sub := filepath.Join(dir, "charts", name)
		if !input.Exists(filepath.Join(sub, "Chart.yaml")) {
			break
		}
		dir = sub
	}
	file, err := filepath.Abs(filepath.Join(dir, "Chart.yaml"))
	if err == nil {
		file, err = filepath.Rel(os.Getenv("GITHUB_WORKSPACE"), file)
	}
	if err != nil || !filepath.IsLocal(file) {
		return ""
	}
	return filepath.ToSlash(file)
}

// outFlags say who else is told about a run.
type outFlags struct {
	reports, notify []string
	notifyKeyFile   string
}

// addNotify adds --notify and --notify-key-file.
func (o *outFlags) addNotify(f *pflag.FlagSet) {
	f.StringArrayVar(&o.notify, command.NotifyFlag, nil, "post notices of the run to a URL, https://… as CloudEvents or slack+https://… (repeatable); see lockstep help telemetry")
	f.StringVar(&o.notifyKeyFile, "notify-key-file", "", "sign notices with the key in this file (HMAC-SHA256, Standard Webhooks)")
}

// followers tell others about a run: in report files, traces and notices.
type followers struct {
	*reportfile.Reporter
	trace   *trace.Recorder  // nil for none
	notices *notify.Notifier // nil for none
	// elsewhere is set when the run is a Job of the cluster, which has these followers itself.
	elsewhere bool
}

// follow returns the followers of a command. Traces that cannot be sent are a warning.
func (a *app) follow(cmd *cobra.Command, out outFlags, github *reportfile.GitHub) (*followers, error) {
	reporter, err := reportfile.NewReporter(out.reports, github)
	if err != nil {
		return nil, err
	}
	f := &followers{Reporter: reporter}
	if isDryRun(cmd) {
		return f, nil
	}
	if f.notices, err = notify.Start(out.notify, out.notifyKeyFile); err != nil {
		return nil, err
	}
	f.trace, err = trace.Start(a.Version, incluster.JobID(), time.Now())
	command.WarnIf(a.Display(cmd).Notices, err)
	return f, nil
}

// consumers are the followers that get each event.
func (f *followers) consumers() (all []report.Consumer) {
	if f.trace != nil {
		all = append(all, f.trace)
	}
	if f.notices != nil {
		all = append(all, f.notices)
	}
	return all
}

// environ returns what makes a hook a part of the trace of the run. f may be nil.
func (f *followers) environ(u event.Unit) map[string]string {
	if f == nil {
		return nil
	}
	return f.trace.Environ(u)
}

// continues says when an earlier pod began the run, if one did. f may be nil.
func (f *followers) continues(began time.Time, earlier bool) {
	if f == nil || !earlier {
		return
	}
	if f.notices != nil {
		f.notices.Continue()
	}
	if f.trace != nil {
		f.trace.Continue(began)
	}
}

// listen counts the retries of requests until stop is called.
func (f *followers) listen(clients []*kube.Client) (stop func()) {
	if f.trace == nil {
		return func() {}
	}
	var stops []func()
	for _, c := range clients {
		stops = append(stops, c.Link().Listen(connect.Listener{Retrying: func(connect.Target, time.Time, string) { f.trace.Retried() }}))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// notStarted tells of an operation that did not start.
func (f *followers) notStarted(e event.Event) {
	for _, c := range f.consumers() {
		if !f.elsewhere {
			c.Consume(e)
		}
	}
}

// close waits a moment until everything is sent.
func (f *followers) close(notices report.Notices) {
	if f.elsewhere {
		return
	}
	var closing sync.WaitGroup // both wait at the same time
	var untraced, unsent error
	closing.Go(func() { untraced = f.trace.Close() })
	closing.Go(func() { unsent = f.notices.Close() })
	closing.Wait()
	command.WarnIf(notices, untraced)
	command.WarnIf(notices, unsent)
}
