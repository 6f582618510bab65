// Package cli is the command line. It assembles the commands, which are in the packages deploy,
// releases, author, runs and sandbox below it. Packages command and screen have the code that they
// share; ui/report does the printing. Only package main imports cli; the entry point is Main.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	mango "github.com/muesli/mango-cobra"
	"github.com/muesli/roff"
	"github.com/spf13/cobra"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/incluster"
	"lockstep/kube/mask"
	"lockstep/ui/cli/author"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/deploy"
	"lockstep/ui/cli/help"
	"lockstep/ui/cli/home"
	"lockstep/ui/cli/input"
	"lockstep/ui/cli/releases"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/sandbox"
	"lockstep/ui/cli/schema"
	"lockstep/ui/report"
	"lockstep/ui/report/reportfile"
)

// Main runs the program with the arguments and streams of the process and returns its exit code.
func Main() int {
	tuneGC()
	notices := report.NewNotices(command.NewStream(os.Stderr, os.Stderr, "auto"))
	if calledAs(os.Args[0]) == kubectlCompletion {
		os.Args = slices.Insert(os.Args, 1, cobra.ShellCompRequestCmd)
	}
	if err := unpackTask(); err != nil {
		printError(notices, err)
		return command.ExitNothingWritten
	}
	signals := command.NewSignals(context.Background())
	root := newRoot(signals)
	if opensHome(root, os.Args[1:]) {
		os.Args = slices.Insert(os.Args, 1, "home")
	}
	var failed error
	captureErrors(root, &failed)
	if len(os.Args) > 1 && slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, os.Args[1]) {
		root.SetOut(report.Safe(os.Stdout)) // completions have names from the cluster and from charts
		time.AfterFunc(completionLimit, func() { os.Exit(command.ExitNothingWritten) })
	}
	restoreTerminal := command.SaveTerminal()
	signals.Quit = func(why error) {
		restoreTerminal()
		printError(notices, why)
		os.Exit(command.ExitAborted)
	}
	stop := signals.Watch()
	defer stop()
	explainAndPrint := func(err error) { printError(notices, explainUsage(root, os.Args[1:], err)) }
	err := execute(signals.Context, root)
	if err != nil {
		explainAndPrint(err)
	}
	if failed != nil {
		err = signals.Cause(failed)
		explainAndPrint(err)
	}
	return command.ExitCodeOf(root, os.Args[1:], err)
}

// unpackTask replaces os.Args with the command line of the packed task if this process runs in the
// pod of a task (package incluster). SIGTERM then ends the process at once: the next pod resumes the
// run.
func unpackTask() error {
	if len(os.Args) != 4 || os.Args[1] != incluster.CommandName {
		return nil
	}
	args, env, err := incluster.Unpack(os.Args[2], os.Args[3])
	for name, value := range env {
		if err == nil {
			err = os.Setenv(name, value)
		}
	}
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

// execute runs the command line of the process. Only errors in that line remain after captureErrors.
func execute(ctx context.Context, root *cobra.Command) error {
	lipgloss.EnableLegacyWindowsANSI(os.Stdout)
	lipgloss.EnableLegacyWindowsANSI(os.Stderr)
	root.SilenceErrors, root.SilenceUsage, root.Version = true, true, version()
	root.AddCommand(&cobra.Command{
		Use: "man", Short: "print the man page", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := mango.NewManPage(1, cmd.Root())
			if err == nil {
				report.Page(cmd.OutOrStdout(), page.Build(roff.NewDocument()))
			}
			return err
		},
	})
	return root.ExecuteContext(ctx)
}

// captureErrors stores the errors of commands in failed, apart from cobra's errors about the command line.
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

// offerFlags adds to an error about a missing cluster or missing dependencies the flag that helps,
// if the command has it.
func offerFlags(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*connect.NoClusterError](err); ok && cmd.Flags().Lookup("sandbox") != nil {
		return fmt.Errorf("%w, or try --sandbox", err)
	}
	if _, ok := errors.AsType[*charts.MissingError](err); ok && cmd.Flags().Lookup("dependency-update") != nil && len(cmd.Flags().Args()) > 0 {
		return fmt.Errorf("%w, or pass --dependency-update", err)
	}
	return err
}

// opensHome reports whether a command line has no command, so that home opens: in a terminal, unless its flags ask for
// something else.
func opensHome(root *cobra.Command, args []string) bool {
	cmd, _, err := root.Find(args)
	other := func(arg string) bool { return slices.Contains([]string{"-h", "--help", "-v", "--version"}, arg) }
	return err == nil && cmd == root && !slices.ContainsFunc(args, other) && command.CheckScreen() == nil
}

// rootFor returns the command to run a command line, without the name of the program, in this process.
func rootFor(signals *command.Signals, args []string) *cobra.Command {
	root := newRoot(signals)
	os.Args = append(os.Args[:1:1], args...) // messages say how to run it again
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	return root
}

// printError prints the error of a command. It prints each of several plan.Errors on a separate line.
func printError(notices report.Notices, err error) {
	shown := new(mask.Mask).Error(command.ErrorToShow(err)) // hides credentials
	if shown == nil {
		return
	}
	command.TellHome(shown.Error())
	if found, ok := errors.AsType[plan.Errors](shown); ok && found.Error() == shown.Error() {
		for _, e := range found {
			notices.Error(e)
		}
		return
	}
	notices.Error(shown)
}

// checkColour returns an error for a --color that Helm does not know.
func (a *app) checkColour() error {
	allowed, mode := []string{"never", "auto", "always"}, a.Settings.ColorMode
	if slices.Contains(allowed, mode) {
		return nil
	}
	return fmt.Errorf("invalid --color %q: must be one of %s", mode, strings.Join(allowed, ", "))
}

const rootLong = `lockstep deploys Helm charts in the order that they declare or, with --order=inferred, in the one that their objects imply. It works with ordinary Helm charts, releases, repositories and flags. Kubernetes objects form groups, and each group
starts once the groups that it waits for are ready. You can watch, pause and step through a deployment.

Start here: lockstep help order

Exit codes: 0 success, 1 the operation failed, 2 failed before anything was written, 3 aborted. LOCKSTEP_<FLAG> sets a flag.`

func newRoot(signals *command.Signals) *cobra.Command { return rootOf(command.NewApp(signals)) }

func rootOf(shared *command.App) *cobra.Command {
	a := &app{shared}
	a.Version, a.Image = version(), defaultImage()
	root := &cobra.Command{
		Use: "lockstep", Short: "deploy Helm charts in order", Long: rootLong,
		Example: `lockstep suggest ./shop                  # the order that a chart implies, without a cluster
lockstep install shop ./shop --sandbox   # try it on a throwaway cluster
lockstep                                 # in a terminal: live runs and releases`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.Logs.Configure(a.Settings.Debug)
			if err := cmp.Or(a.checkColour(), command.CheckNamespace(cmd)); err != nil {
				return err
			}
			for _, warning := range input.IgnoredValues(cmd) {
				a.Display(cmd).Warn(warning)
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
	colour := root.PersistentFlags().Lookup("color")
	colour.Usage, colour.DefValue = "use colours: never, auto, always (default auto)", ""
	root.PersistentFlags().Lookup("namespace").Usage = "namespace (default: the one in the kubeconfig's context)"
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	root.AddCommand(deploy.Commands(a.App)...)
	root.AddCommand(home.New(a.App))
	root.AddCommand(releases.Commands(a.App, deploy.NewRepair(a.App))...)
	root.AddCommand(author.Commands(a.App)...)
	root.AddCommand(runs.Commands(a.App)...)
	root.AddCommand(sandbox.New(), schema.New(), a.newVersion(), a.newEvents(), a.newRules())
	root.AddCommand(a.newPage("reports", "report formats and CI output", func() string { return reportfile.Doc }))
	for _, p := range help.Pages() {
		root.AddCommand(a.newPage(p.Name, p.Title, p.Text))
	}
	a.addForms(root)
	a.offerAttach(root)
	setBounds(root)
	addCompletion(root)
	a.setUpHelp(root)
	if text.Program != root.Name() {
		renameTo(root, text.Program)
	}
	command.ReadEnvironment(root)
	return root
}

// unlistedFlags are global flags of Helm that help does not list.
var unlistedFlags = []string{"kube-token", "kube-as-user", "kube-as-group", "kube-apiserver", "kube-ca-file", "kube-tls-server-name",
	"kube-insecure-skip-tls-verify", "burst-limit", "qps", "content-cache", "repository-cache", "colour"}

type app struct{ *command.App }
