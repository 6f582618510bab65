// Package cli is the command line: commands, flags, exit codes, and the choice
// of how an operation is shown. Flags are read into values before anything runs;
// what commands have to say, package report prints. It has a file for each
// command, and is larger than other packages for that.
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
	"helm.sh/helm/v4/pkg/action"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/ui/report"
)

// Main runs the program with the arguments and streams of the process and
// returns its exit code.
func Main() int {
	tendHeap()
	in := newInterrupts(context.Background())
	root := newRoot(in)
	var failed error
	catch(root, &failed)
	say := report.NewNotices(stream(os.Stderr, os.Stderr, "auto"))
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], cobra.ShellCompRequestCmd) {
		root.SetOut(report.Safe(os.Stdout)) // the names of releases and groups
	}
	restoreTerminal := terminalNow()
	in.quit = func(why error) {
		restoreTerminal()
		tell(say, why)
		os.Exit(exitAborted)
	}
	stop := in.watch()
	defer stop()
	err := fang.Execute(in.ctx, root, fang.WithVersion(version()), fang.WithErrorHandler(
		func(_ io.Writer, _ fang.Styles, err error) { tell(say, err) }))
	if failed != nil {
		err = in.reason(failed)
		tell(say, err)
	}
	return exitCode(err)
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
	what := new(kube.Mask).Error(toSay(err)) // what quotes values that nobody knows yet
	if what == nil {
		return
	}
	if usage(what) {
		words := strings.Join(strings.Fields(what.Error()), " ") // cobra suggests in several lines
		what = fmt.Errorf("%s; try --help", words)
	}
	say.Error(what)
}

// args checks the number of arguments.
func args(from, to int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < from || to >= 0 && len(args) > to {
			return fmt.Errorf("accepts %s, not %d arguments", cmd.Use, len(args))
		}
		return nil
	}
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

// app is what the commands share.
type app struct {
	settings *helmcli.EnvSettings
	helm     *action.Configuration // ready after readyHelm
	in       *interrupts
	logs     logs
}

// display is how a command shows what it has to say.
func (a *app) display(cmd *cobra.Command, mode report.Mode) report.Display {
	return report.New(mode, stream(cmd.OutOrStdout(), os.Stdout, a.settings.ColorMode), stream(cmd.ErrOrStderr(), os.Stderr, a.settings.ColorMode))
}

func (a *app) style(f *os.File) report.Style { return streamStyle(f, a.settings.ColorMode) }

// afterScreen are the options of a summary that is printed when the screen is gone.
func (a *app) afterScreen(o report.Options) report.Options {
	to := stream(os.Stdout, os.Stdout, a.settings.ColorMode)
	o.Style, o.Width = to.Style, to.Width
	return o
}

const rootLong = `lockstep deploys Helm charts in the order that they ask for. Charts are Helm's, and so are releases, flags and
repositories; what is added is that resources can be put in groups which wait for each other, within a chart
and between subcharts, and that you can watch, pause and step through a deployment.

Exit codes: 0 done, 1 the operation failed, 2 nothing was written, 3 aborted; of plan: 0 nothing to do, 4 there are
changes.`

func newApp(in *interrupts) *app {
	return &app{settings: helmcli.New(), helm: action.NewConfiguration(), in: in}
}

func newRoot(in *interrupts) *cobra.Command {
	a := newApp(in)
	root := &cobra.Command{
		Use:   "lockstep",
		Short: "deploy Helm charts in order",
		Long:  rootLong,
		Example: `# see it work, on a cluster of its own that is gone afterwards
lockstep install shop ./shop --sandbox

# what would be deployed when
lockstep dag ./shop`,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.logs.set(a.settings.Debug)
			return nil
		},
	}
	root.AddGroup(&cobra.Group{ID: "deploy", Title: "deploy"}, &cobra.Group{ID: "release", Title: "look at a release"},
		&cobra.Group{ID: "look", Title: "look at a chart"}, &cobra.Group{ID: "more", Title: "more"})
	a.addGlobalFlags(root.PersistentFlags())
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	rules, events := a.newRules(), newEvents()
	operate := execute{job: a.operate, writes: true}
	root.AddCommand(
		a.newInstall(operate), a.newUpgrade(operate), a.newRollback(operate), a.newUninstall(operate), a.newTest(operate),
		a.newAttach(), a.newCtl(), a.newPlan(),
		a.newRecover(), a.newWatch(), a.newStatus(), a.newHistory(), a.newList(), a.newGet(),
		a.newDag(), a.newSuggest(), a.newTemplate(), a.newLint(),
		a.newSandbox(), a.newRuns(), a.newReplay(), a.newVersion(),
		newTopic("annotations", "how a chart asks for an order", annotationsTopic),
		newTopic("inferred", "the order that a chart implies", inferredTopic),
		newTopic("kubernetes", "the versions lockstep was tested on", kubernetesTopic),
		newTopic("reports", "what --report writes, and what CI systems are told", report.OutcomesDoc),
		events, rules,
	)
	helpTakesWords(root, events, rules)
	return root
}

// rare are the global flags of Helm that work, though help does not list them.
var rare = []string{"kube-token", "kube-as-user", "kube-as-group", "kube-apiserver", "kube-ca-file", "kube-tls-server-name",
	"kube-insecure-skip-tls-verify", "burst-limit", "qps", "content-cache", "repository-cache", "colour"}

func (a *app) addGlobalFlags(f *pflag.FlagSet) {
	a.settings.AddFlags(f)
	for _, name := range rare {
		if flag := f.Lookup(name); flag != nil {
			flag.Hidden = true
		}
	}
}

// newTopic is a page of help that is no command.
func newTopic(name, about, text string) *cobra.Command {
	topic := &cobra.Command{Use: name, Short: about, GroupID: "more"}
	topic.SetHelpFunc(func(c *cobra.Command, _ []string) { report.Page(c.OutOrStdout(), text) })
	return topic
}
