// Package cli is the command line. It assembles the commands, which are in packages
// below by family: deploy, releases, author, runs and sandbox. What they share is in
// command, what needs the board in screen. Package report prints.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

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
	tuneGC()
	if err := unpacked(); err != nil {
		tell(report.NewNotices(command.StreamOf(os.Stderr, os.Stderr, "auto")), err)
		return command.ExitNothing
	}
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

// unpacked makes the arguments those of the packed task, if this is the process of one
// (package incluster). SIGTERM then ends it at once: the next pod resumes the run.
func unpacked() error {
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
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		os.Exit(128 + int(syscall.SIGTERM))
	}()
	return nil
}

// catch keeps errors of commands from fang, which queries the terminal's colours before
// it prints an error, even right after a screen has closed.
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

// plainer is what Go's parsers say of the value of a flag, and what to say instead.
var plainer = []struct {
	is   *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`time: missing unit in duration ("[^"]*")`), "no unit in $1; for example 30s or 5m"},
	{regexp.MustCompile(`time: invalid duration "[^"]*"`), "must be a duration, for example 30s or 5m"},
	{regexp.MustCompile(`strconv\.ParseBool: .*`), "must be true or false"},
	{regexp.MustCompile(`strconv\.ParseInt: .*`), "must be a whole number"},
	{regexp.MustCompile(`strconv\.ParseFloat: .*`), "must be a number"},
}

// tell prints why a command failed, as its last line.
func tell(say report.Notices, err error) {
	what := new(kube.Mask).Error(command.ErrorToShow(err)) // hides what looks like a credential
	if what == nil {
		return
	}
	if usage(what) {
		text, similar, ok := strings.Cut(what.Error(), "\n\nDid you mean this?\n")
		if ok {
			what = fmt.Errorf("%s; did you mean %s?", text, strings.Join(strings.Fields(similar), " or "))
		} else {
			for _, p := range plainer {
				text = p.is.ReplaceAllString(text, p.says)
			}
			what = fmt.Errorf("%s; try --help", strings.Join(strings.Fields(text), " "))
		}
	}
	say.Error(what)
}

// usage reports whether an error is about the command line; cobra has no type for it.
func usage(err error) bool {
	if _, is := errors.AsType[command.UsageError](err); is {
		return true
	}
	for _, p := range []string{"unknown command", "unknown flag", "unknown shorthand flag", "flag needs an argument", "invalid argument", "bad flag syntax"} {
		if strings.HasPrefix(err.Error(), p) {
			return true
		}
	}
	return false
}

const rootLong = `lockstep deploys Helm charts in the order they declare. Charts, releases, repositories and flags are Helm's; lockstep
adds groups of resources that wait for each other, within a chart and between subcharts, and lets you watch, pause and
step through a deployment.

Exit codes: 0 success, 1 the operation failed, 2 nothing was written, 3 aborted; plan: 0 no changes, 4 changes.`

func newRoot(in *command.Signals) *cobra.Command {
	a := &app{command.NewApp(in)}
	a.Image = DefaultImage()
	root := &cobra.Command{
		Use:   "lockstep",
		Short: "deploy Helm charts in order",
		Long:  rootLong,
		Example: `lockstep install shop ./shop --sandbox   # try it on a throwaway cluster
lockstep dag ./shop                      # show the order`,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.Logs.Configure(a.Settings.Debug)
			return nil
		},
	}
	root.AddGroup(&cobra.Group{ID: "deploy", Title: "deploy"}, &cobra.Group{ID: "release", Title: "releases"},
		&cobra.Group{ID: "look", Title: "charts"}, &cobra.Group{ID: "more", Title: "more"},
		&cobra.Group{ID: "pages", Title: "help pages"})
	a.addGlobalFlags(root.PersistentFlags())
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	rules, events := a.newRules(), a.newEvents()
	root.AddCommand(deploy.Commands(a.App)...)
	root.AddCommand(releases.Commands(a.App)...)
	root.AddCommand(author.Commands(a.App)...)
	root.AddCommand(runs.Commands(a.App)...)
	root.AddCommand(sandbox.New(), a.newVersion(), a.newPage("reports", "report formats and CI output", report.OutcomesDoc), events, rules)
	for _, p := range help.Pages() {
		root.AddCommand(a.newPage(p.Name, p.Title, p.Text))
	}
	helpTakesWords(root, events, rules)
	shortenHelp(root)
	return root
}

// rare are Helm's global flags that help does not list.
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
func (a *app) newPage(name, title, text string) *cobra.Command {
	page := &cobra.Command{Use: name, Short: title, GroupID: "pages"}
	page.SetHelpFunc(func(c *cobra.Command, _ []string) { _ = a.printPage(c, text) }) // stdout may be closed
	return page
}
