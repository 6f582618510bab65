// Package cli is the command line. It assembles the commands, which are in the packages deploy,
// releases, author, runs and sandbox below it. Code that they share is in command and screen;
// package report prints. Only main imports it; its entry point is Main.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"charm.land/fang/v2"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/cli/author"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/deploy"
	"lockstep/ui/cli/help"
	"lockstep/ui/cli/releases"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/sandbox"
	"lockstep/ui/report"
)

// Main runs the program with the arguments and streams of the process and
// returns its exit code.
func Main() int {
	tuneGC()
	if err := unpackTask(); err != nil {
		printError(report.NewNotices(command.NewStream(os.Stderr, os.Stderr, "auto")), err)
		return command.ExitNothing
	}
	signals := command.NewSignals(context.Background())
	root := newRoot(signals)
	var failed error
	captureErrors(root, &failed)
	notices := report.NewNotices(command.NewStream(os.Stderr, os.Stderr, "auto"))
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], cobra.ShellCompRequestCmd) {
		root.SetOut(report.Safe(os.Stdout)) // completions have names from the cluster and from charts
	}
	restoreTerminal := command.SaveTerminal()
	signals.Quit = func(why error) {
		restoreTerminal()
		printError(notices, why)
		os.Exit(command.ExitAborted)
	}
	stop := signals.Watch()
	defer stop()
	err := fang.Execute(signals.Context, root, fang.WithVersion(version()), fang.WithErrorHandler(
		func(_ io.Writer, _ fang.Styles, err error) { printError(notices, err) }))
	if failed != nil {
		err = signals.Cause(failed)
		printError(notices, err)
	}
	return command.ExitCode(err)
}

// unpackTask replaces the arguments with those of the packed task if this process runs in a task's
// pod (package incluster). SIGTERM then ends the process at once: the next pod resumes the run.
func unpackTask() error {
	if len(os.Args) != 4 || os.Args[1] != kube.RunPacked {
		return nil
	}
	args, err := kube.Unpack(os.Args[2], os.Args[3])
	if err == nil {
		err = os.Chdir(os.Args[3])
	}
	if err != nil {
		return err
	}
	os.Args = append(os.Args[:1], args...)
	command.ExitOnTerminate()
	return nil
}

// captureErrors stores the errors of commands in failed instead of passing them to fang. Before
// fang prints an error, it queries the terminal's colours, even right after a screen has closed.
func captureErrors(cmd *cobra.Command, failed *error) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			if err := run(c, args); err != nil {
				*failed = offerFlags(c, err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		captureErrors(sub, failed)
	}
}

// offerFlags adds the flag that helps to the errors about a missing cluster and missing
// dependencies, if the command has it.
func offerFlags(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*kube.NoClusterError](err); ok && cmd.Flags().Lookup("sandbox") != nil {
		return fmt.Errorf("%w, or try --sandbox", err)
	}
	if _, ok := errors.AsType[*kube.MissingDependencies](err); ok && cmd.Flags().Lookup("dependency-update") != nil && len(cmd.Flags().Args()) > 0 {
		return fmt.Errorf("%w, or pass --dependency-update", err)
	}
	return err
}

// flagErrors replaces the errors of Go's parsers for values of flags.
var flagErrors = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`time: missing unit in duration "([^"]*)"`), "add a unit, for example ${1}s or ${1}m"},
	{regexp.MustCompile(`time: (invalid duration|unknown unit) .*`), "must be a duration, for example 30s or 5m"},
	{regexp.MustCompile(`strconv\.ParseBool: .*`), "must be true or false"},
	{regexp.MustCompile(`strconv\.ParseInt: .*`), "must be a whole number"},
	{regexp.MustCompile(`strconv\.ParseFloat: .*`), "must be a number"},
}

// printError prints the error of a command, as the last line of its output.
func printError(notices report.Notices, err error) {
	shown := new(kube.Mask).Error(command.ErrorToShow(err)) // hides credentials
	if shown == nil {
		return
	}
	shown = exclusive(shown)
	if isUsageError(shown) {
		text, similar, ok := strings.Cut(shown.Error(), "\n\nDid you mean this?\n")
		if ok {
			shown = fmt.Errorf("%s; did you mean %s?", text, strings.Join(strings.Fields(similar), " or "))
		} else {
			for _, p := range flagErrors {
				text = p.pattern.ReplaceAllString(text, p.text)
			}
			hint := "try --help"
			if unknown, ok := errors.AsType[*unknownFlag](shown); ok {
				hint = "list all flags with: " + unknown.help
			}
			shown = fmt.Errorf("%s; %s", strings.Join(strings.Fields(text), " "), hint)
		}
	}
	if found, ok := errors.AsType[plan.Errors](shown); ok && found.Error() == shown.Error() {
		for _, e := range found {
			notices.Error(e)
		}
		return
	}
	notices.Error(shown)
}

// exclusiveFlags matches cobra's error about flags that exclude each other. $1 are those given.
var exclusiveFlags = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)

// exclusive replaces cobra's error about flags that exclude each other.
func exclusive(err error) error {
	found := exclusiveFlags.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	given := strings.Fields(found[1])
	return command.UsageError(fmt.Sprintf("--%s cannot be combined with --%s", given[0], strings.Join(given[1:], " or --")))
}

type unknownFlag struct {
	error
	help string // the command that lists all flags
}

// namesHelp adds to the error about an unknown flag where all flags are listed: --help of a
// command lists only the most used ones.
func namesHelp(cmd *cobra.Command, err error) error {
	if !strings.HasPrefix(err.Error(), "unknown ") {
		return err
	}
	page := " flags"
	if cmd.HasParent() {
		page = strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name())
	}
	return &unknownFlag{err, cmd.Root().Name() + " help" + page}
}

// checkColour refuses values of --color that Helm refuses.
func (a *app) checkColour() error {
	allowed, mode := []string{"never", "auto", "always"}, a.Settings.ColorMode
	if slices.Contains(allowed, mode) {
		return nil
	}
	return command.UsageError(fmt.Sprintf("invalid argument %q for \"--color\" flag: must be one of %s", mode, strings.Join(allowed, ", ")))
}

// checkNamespace refuses a namespace that cannot exist.
func checkNamespace(cmd *cobra.Command) error {
	f := cmd.Flag("namespace")
	if f == nil || f.Value.String() == "" || len(validation.IsDNS1123Label(f.Value.String())) == 0 {
		return nil
	}
	source := "HELM_NAMESPACE"
	if f.Changed {
		source = "--namespace"
	}
	return fmt.Errorf("%s: invalid namespace name %q: use at most 63 lowercase letters, digits and \"-\"; start and end with a letter or digit", source, f.Value)
}

// isUsageError reports whether an error is about the arguments. Cobra has no type for these errors.
func isUsageError(err error) bool {
	if _, ok := errors.AsType[command.UsageError](err); ok {
		return true
	}
	prefixes := []string{
		"unknown command", "unknown flag", "unknown shorthand flag", "flag needs an argument", "invalid argument", "bad flag syntax",
	}
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(err.Error(), p) })
}

const rootLong = `lockstep deploys Helm charts in the order they declare. It works with ordinary Helm charts, releases, repositories and
flags. Resources form groups, which are applied in the order of their dependencies, within a chart and between
subcharts. You can watch, pause and step through a deployment.

Exit codes: 0 success, 1 the operation failed, 2 failed before anything was written, 3 aborted; plan: 0 no changes, 4 changes.`

func newRoot(signals *command.Signals) *cobra.Command {
	a := &app{command.NewApp(signals)}
	a.Image = DefaultImage()
	root := &cobra.Command{
		Use: "lockstep", Short: "deploy Helm charts in order", Long: rootLong,
		Example: `lockstep install shop ./shop --sandbox   # try it on a throwaway cluster
lockstep dag ./shop                      # show the order`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.Logs.Configure(a.Settings.Debug)
			if err := cmp.Or(a.checkColour(), checkNamespace(cmd)); err != nil {
				return err
			}
			for _, argument := range command.IgnoredValues(cmd) {
				a.Display(cmd).Warn(argument + " sets nothing, because its key is empty or lacks a closing bracket")
			}
			return nil
		},
	}
	root.AddGroup(&cobra.Group{ID: "deploy", Title: "deploy"}, &cobra.Group{ID: "release", Title: "releases"},
		&cobra.Group{ID: "look", Title: "charts"}, &cobra.Group{ID: "more", Title: "more"},
		&cobra.Group{ID: "pages", Title: "help pages"})
	a.Settings.AddFlags(root.PersistentFlags())
	for _, name := range unlistedFlags {
		_ = root.PersistentFlags().MarkHidden(name) // fails if Helm no longer has it
	}
	root.PersistentFlags().Lookup("color").Usage = "use colours (never, auto, always)"
	root.PersistentFlags().Lookup("namespace").Usage = "namespace (default: the one in the kubeconfig's context)"
	root.SetFlagErrorFunc(namesHelp)
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	root.AddCommand(deploy.Commands(a.App)...)
	root.AddCommand(releases.Commands(a.App)...)
	root.AddCommand(author.Commands(a.App)...)
	root.AddCommand(runs.Commands(a.App)...)
	root.AddCommand(sandbox.New(), a.newVersion(), a.newEvents(), a.newRules())
	root.AddCommand(a.newPage("reports", "report formats and CI output", report.OutcomesDoc))
	for _, p := range help.Pages() {
		root.AddCommand(a.newPage(p.Name, p.Title, p.Text))
	}
	addCompletion(root)
	shortenHelp(root)
	return root
}

// unlistedFlags are global flags of Helm that help does not list.
var unlistedFlags = []string{"kube-token", "kube-as-user", "kube-as-group", "kube-apiserver", "kube-ca-file", "kube-tls-server-name",
	"kube-insecure-skip-tls-verify", "burst-limit", "qps", "content-cache", "repository-cache", "colour"}

type app struct{ *command.App }

// newPage returns a page of help, which is not a command.
func (a *app) newPage(name, title, text string) *cobra.Command {
	page := &cobra.Command{Use: name, Short: title, GroupID: "pages"}
	page.SetHelpFunc(func(c *cobra.Command, _ []string) { _ = a.printPage(c, text) }) // stdout may be closed
	return page
}
