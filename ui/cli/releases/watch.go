package releases

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
)

const watchLong = `Watch a release group by group until Ctrl-C or until it is uninstalled. In a terminal, watch shows a read-only screen;
otherwise, or with --no-tui, it prints the groups once and then a line per change.

-o json prints an event per line. Upgrades do not end watch. If a run on this machine is working on the release, watch
shows that run until it ends.

A release that was not deployed in order, for example by Helm, is shown as one group. Hooks are not shown.`

// watchFlags are the flags of watch.
type watchFlags struct {
	output      command.Choice
	noTUI, once bool
}

func (a *app) newWatch() *cobra.Command {
	var flags watchFlags
	cmd := &cobra.Command{
		Use:     "watch NAME",
		GroupID: "release",
		Short:   "watch a release, group by group",
		Long:    watchLong,
		Example: `lockstep watch shop -n shop
lockstep watch shop -n shop --once`,
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.CompleteRelease(nil),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.watch(cmd, &flags, args[0]) },
	}
	a.addRevision(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.once, "once", false, "print the current state and exit")
	f.BoolVar(&flags.noTUI, "no-tui", false, "print lines instead of the screen")
	flags.output = command.TextOrJSON()
	command.AddChoice(cmd, &flags.output, "output", "o", "format")
	return cmd
}

func (a *app) watch(cmd *cobra.Command, flags *watchFlags, name string) error {
	if done, err := a.watchRun(cmd, flags, name); done || err != nil {
		return err
	}
	client, view, err := a.openView(cmd, name)
	if err != nil {
		return err
	}
	ctx, m := cmd.Context(), command.ModeFor(flags.output.Value, flags.noTUI)
	d := a.Display(cmd, m.Report())
	switch {
	case flags.once:
		state, err := ReadOnce(ctx, view, d.Once())
		if err != nil {
			return err
		}
		return d.Show(report.Release{State: state, Timings: timings(view)})
	case m == command.ModeScreen:
		return a.watchOnScreen(ctx, d, client, view)
	}
	failed := make(chan error, 1)
	go func() { failed <- view.Run(ctx) }()
	report.Follow(view.Feed(), d.Watch())
	return <-failed
}

// watchRun shows the live run of the release on this machine (R47) until it ends, because the
// release's record is incomplete until then. done reports whether watch should end, too.
func (a *app) watchRun(cmd *cobra.Command, flags *watchFlags, name string) (done bool, err error) {
	if cmd.Flags().Changed("revision") {
		return false, nil // the run may create another revision
	}
	live, err := runs.LiveRuns(func(op event.Operation) bool {
		return op.Release == name && op.Namespace == a.Settings.Namespace() && runs.ClientFor(a.App, op) != nil
	})
	if err != nil || len(live) == 0 {
		return false, nil // watch the release itself
	}
	for _, r := range live {
		defer r.Close()
	}
	r, m := live[0], command.ModeFor(flags.output.Value, flags.noTUI)
	d := a.Display(cmd, m.Report())
	switch {
	case flags.once:
		return true, d.Show(report.NewRunStatus(r.Now(cmd.Context())))
	case m == command.ModeScreen:
		return true, runs.ShowLive(a.App, cmd, d, r, nil)
	}
	now := report.Watch(cmd.Context(), r.Feed(), d.Operation(report.Options{}))
	return cmd.Context().Err() != nil || now.Operation.Name == "uninstall" && now.Status == event.Succeeded, nil
}

// watchOnScreen shows a view on the screen until the user quits, then prints the last state.
func (a *app) watchOnScreen(ctx context.Context, d report.Display, client *kube.Client, view *kube.View) error {
	themeOpts, themeErr := theme.FromEnv(os.Getenv)
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore := a.Logs.ToFile(d)
	defer restore()
	state := make(chan *event.State, 1)
	failed := make(chan error, 1)
	go func() { failed <- view.Run(ctx) }()
	go func() { state <- report.Follow(view.Feed()) }()
	err := board.Run(ctx, board.Options{Source: view.Feed().Reader(), Inspector: screen.NewInspector(screen.NoChanges("watch changes nothing; to see the changes of a chart, run lockstep plan"), client.Diagnoser(), view.Mask()), Theme: themeOpts,
		Kubectl: client.KubectlFlags()})
	if parent.Err() != nil {
		err = nil // a signal quits, as the key q does
	}
	cancel()
	err = errors.Join(err, <-failed, d.Show(report.Release{State: <-state, Timings: timings(view)}))
	command.WarnIf(d, themeErr)
	return err
}
