// Package cli is the command line. It assembles the commands, which are in packages
// below by family: deploy, releases, author, runs and sandbox. What they share is in
// command, what needs the board in screen. Package report prints.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"charm.land/fang/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	tendHeap()
	in := command.NewSignals(context.Background())
	root := newRoot(in)
	var failed error
	catch(root, &failed)
	say := report.NewNotices(command.StreamOf(os.Stderr, os.Stderr, "auto"))
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], cobra.ShellCompRequestCmd) {
		root.SetOut(report.Safe(os.Stdout)) // the names of releases and groups
	}
	restoreTerminal := command.SaveTerminal()
	in.Quit = func(why error) {
		restoreTerminal()
		tell(say, why)
		os.Exit(command.ExitAborted)
	}
	stop := in.Watch()
	defer stop()
	err := fang.Execute(in.Context, root, fang.WithVersion(version()), fang.WithErrorHandler(
		func(_ io.Writer, _ fang.Styles, err error) { tell(say, err) }))
	if failed != nil {
		err = in.Reason(failed)
		tell(say, err)
	}
	return command.ExitCode(err)
}

// catch keeps the errors of commands from fang, which asks the terminal for its
// colours before it prints one, after a screen that has just been left, too.
func catch(cmd *cobra.Command, failed *error) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			*failed = run(c, args)
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		catch(sub, failed)
	}
}

// tell says why a command failed, in its last line.
func tell(say report.Notices, err error) {
	what := new(kube.Mask).Error(command.ErrorToShow(err)) // what quotes values that nobody knows yet
	if what == nil {
		return
	}
	if usage(what) {
		words := strings.Join(strings.Fields(what.Error()), " ") // cobra suggests in several lines
		what = fmt.Errorf("%s; try --help", words)
	}
	say.Error(what)
}

// usage reports whether an error is about how the program was called. Cobra has
// no type for those.
func usage(err error) bool {
	for _, p := range []string{"unknown command", "unknown flag", "unknown shorthand flag", "flag needs an argument", "accepts ", "requires ", "invalid argument", "bad flag syntax"} {
		if strings.HasPrefix(err.Error(), p) {
			return true
		}
	}
	return false
}

const rootLong = `lockstep deploys Helm charts in the order that they ask for. Charts are Helm's, and so are releases, flags and
repositories; what is added is that resources can be put in groups which wait for each other, within a chart
and between subcharts, and that you can watch, pause and step through a deployment.

Exit codes: 0 done, 1 the operation failed, 2 nothing was written, 3 aborted; of plan: 0 nothing to do, 4 there are
changes.`

func newRoot(in *command.Signals) *cobra.Command {
	a := &app{command.NewApp(in)}
	root := &cobra.Command{
		Use:   "lockstep",
		Short: "deploy Helm charts in order",
		Long:  rootLong,
		Example: `# see it work, on a cluster of its own that is gone afterwards
lockstep install shop ./shop --sandbox

# what would be deployed when
lockstep dag ./shop`,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.Logs.Configure(a.Settings.Debug)
			return nil
		},
	}
	root.AddGroup(&cobra.Group{ID: "deploy", Title: "deploy"}, &cobra.Group{ID: "release", Title: "look at a release"},
		&cobra.Group{ID: "look", Title: "look at a chart"}, &cobra.Group{ID: "more", Title: "more"},
		&cobra.Group{ID: "pages", Title: "pages of help"})
	a.addGlobalFlags(root.PersistentFlags())
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	rules, events := a.newRules(), newEvents()
	root.AddCommand(deploy.Commands(a.App)...)
	root.AddCommand(releases.Commands(a.App)...)
	root.AddCommand(author.Commands(a.App)...)
	root.AddCommand(runs.Commands(a.App)...)
	root.AddCommand(sandbox.New(), a.newVersion(), newPage("reports", "what --report writes, and what CI systems are told", report.OutcomesDoc), events, rules)
	for _, p := range help.Pages() {
		root.AddCommand(newPage(p.Name, p.Title, p.Text))
	}
	helpTakesWords(root, events, rules)
	return root
}

// rare are the global flags of Helm that work, though help does not list them.
var rare = []string{"kube-token", "kube-as-user", "kube-as-group", "kube-apiserver", "kube-ca-file", "kube-tls-server-name",
	"kube-insecure-skip-tls-verify", "burst-limit", "qps", "content-cache", "repository-cache", "colour"}

func (a *app) addGlobalFlags(f *pflag.FlagSet) {
	a.Settings.AddFlags(f)
	for _, name := range rare {
		if flag := f.Lookup(name); flag != nil {
			flag.Hidden = true
		}
	}
}

// app gives this package's commands what all commands share.
type app struct{ *command.App }

// newPage is a page of help that is no command.
func newPage(name, title, text string) *cobra.Command {
	page := &cobra.Command{Use: name, Short: title, GroupID: "pages"}
	page.SetHelpFunc(func(c *cobra.Command, _ []string) { report.Page(c.OutOrStdout(), text) })
	return page
}
