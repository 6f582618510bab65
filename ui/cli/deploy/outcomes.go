package deploy

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// withReports runs an operation and writes its reports, even if it never starts. If
// they cannot be written, the operation does not start.
func (a *app) withReports(cmd *cobra.Command, flags *runFlags, do execute, names []string, run func() error) error {
	switch {
	case len(flags.reports) == 0:
	case !do.writes, dry(cmd):
		return errors.New("--report needs a run; this command only shows what would happen")
	case cmd.Name() == "uninstall" && len(names) > 1:
		return errors.New("--report covers one release; uninstall them one at a time")
	}
	if err := flags.cluster.suits(cmd, do); err != nil {
		return err
	}
	if !do.writes {
		return run()
	}
	if !dry(cmd) {
		// A write to a closed pipe must not end an operation.
		signal.Ignore(syscall.SIGPIPE)
	}
	out, err := report.NewOutcomes(report.OutcomesOptions{
		Files: flags.reports, Errs: command.StreamOf(cmd.ErrOrStderr(), os.Stderr, a.Settings.ColorMode),
		Summary: os.Getenv("GITHUB_STEP_SUMMARY"), File: func(chart string) string { return chartFile(names, chart) },
	})
	if err != nil {
		return err
	}
	flags.outcomes = out
	err = run()
	if !out.Over() {
		op, why := event.Operation{Name: cmd.Name(), Release: names[0], Namespace: a.Settings.Namespace()}, new(kube.Mask).Error(a.Signals.Reason(err))
		outcome := report.NotStarted(op, time.Now().UTC(), command.ExitCode(why), why, reasons(why))
		if why != nil && flags.output.Value == "json" && !dry(cmd) && (cmd.Name() != "uninstall" || len(names) == 1) {
			a.Display(cmd, report.ModeJSON).Operation(report.Options{}).Consume(report.NotStartedEvent(outcome))
		}
		command.WarnIf(a.Display(cmd, report.ModeText), out.End(outcome))
	}
	return err
}

// reasons are the problems that an error found in a plan or in its cluster, nil for
// other errors.
func reasons(err error) (because []plan.Warning) {
	var refusal *kube.Refusal
	var faults plan.Errors
	var fault *plan.Error
	switch {
	case errors.As(err, &refusal):
		return refusal.Because
	case errors.As(err, &faults):
	case errors.As(err, &fault):
		faults = plan.Errors{fault}
	}
	for _, f := range faults {
		because = append(because, plan.Warning{Rule: f.Rule, Chart: f.Chart, Object: f.Object, Message: f.Message})
	}
	return because
}

// dry reports whether a command writes nothing.
func dry(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("dry-run")
	return f != nil && f.Changed && f.Value.String() != "none" && f.Value.String() != "false"
}

// chartFile is the path, relative to GITHUB_WORKSPACE, of the Chart.yaml of a chart in
// the plan, or of its nearest parent that has one. It is empty unless the chart is
// deployed from a directory.
func chartFile(args []string, chart string) string {
	dir := args[len(args)-1]
	if len(args) < 2 || !exists(filepath.Join(dir, "Chart.yaml")) {
		return ""
	}
	_, subcharts, _ := strings.Cut(chart, "/")
	for name := range strings.SplitSeq(subcharts, "/") {
		sub := filepath.Join(dir, "charts", name)
		if name == "" || !exists(filepath.Join(sub, "Chart.yaml")) {
			break
		}
		dir = sub
	}
	file, err := filepath.Abs(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return ""
	}
	file, err = filepath.Rel(os.Getenv("GITHUB_WORKSPACE"), file)
	if err != nil || !filepath.IsLocal(file) {
		return ""
	}
	return filepath.ToSlash(file)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
