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

const watchLong = `Shows a release as it is now: its groups, with the live status of each resource. In a terminal that is the screen of
"lockstep install", read-only; elsewhere, or with --no-tui, the groups once and then a line for each change, with -o json
an event per line. It goes on until Ctrl-C, through upgrades too, or until the release is uninstalled.

Where a run of this machine is at work on the release, it is that run that is shown, up to its end.

Releases that were not deployed in order, by Helm for instance, are one group. Hooks are not shown: they are over.`

// watchFlags are those of watch.
type watchFlags struct {
	output      command.Choice
	noTUI, once bool
}

func (a *app) newWatch() *cobra.Command {
	var flags watchFlags
	cmd := &cobra.Command{
		Use:     "watch NAME",
		GroupID: "release",
		Short:   "watch the resources of a release, group by group",
		Long:    watchLong,
		Example: `lockstep watch shop -n shop
lockstep watch shop -n shop --once`,
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.CompleteRelease(nil),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.watch(cmd, &flags, args[0]) },
	}
	a.addRevision(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.once, "once", false, "print how things are and end")
	f.BoolVar(&flags.noTUI, "no-tui", false, "print lines in place of the screen")
	flags.output = command.TextOrJSON()
	command.AddChoice(cmd, &flags.output, "output", "o", "format")
	return cmd
}

func (a *app) watch(cmd *cobra.Command, flags *watchFlags, name string) error {
	if gone, err := a.watchRun(cmd, flags, name); gone || err != nil {
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
		state, err := LookOnce(ctx, view, d.Once())
		if err != nil {
			return err
		}
		return d.Show(report.Release{State: state, Timings: timingsOf(view)})
	case m == command.ModeScreen:
		return a.watchOnScreen(ctx, d, client, view)
	}
	failed := make(chan error, 1)
	go func() { failed <- view.Run(ctx) }()
	report.Follow(view.Feed(), d.Watch())
	return <-failed
}

// watchRun tells of the release from the run that is at work on it on this machine
// (R47), until that is over; its record tells only half of it until then. It
// reports whether there is nothing more to watch.
func (a *app) watchRun(cmd *cobra.Command, flags *watchFlags, name string) (gone bool, err error) {
	if cmd.Flags().Changed("revision") {
		return false, nil // of which the run may not be
	}
	live, err := runs.Live(func(op event.Operation) bool {
		return op.Release == name && op.Namespace == a.Settings.Namespace() && runs.ClientFor(a.App, op) != nil
	})
	if err != nil || len(live) == 0 {
		return false, nil // it is watched all the same
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

// watchOnScreen shows a view on the screen until the user leaves; the terminal
// keeps how things were last.
func (a *app) watchOnScreen(ctx context.Context, d report.Display, client *kube.Client, view *kube.View) error {
	look, lookErr := theme.FromEnv(os.Getenv)
	interrupt := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore := a.Logs.ToFile(d)
	defer restore()
	state := make(chan *event.State, 1)
	failed := make(chan error, 1)
	go func() { failed <- view.Run(ctx) }()
	go func() { state <- report.Follow(view.Feed()) }()
	err := board.Run(ctx, board.Options{Source: view.Feed().Reader(), Inspector: screen.NewInspector(screen.NoChanges("nothing is being applied: this looks at what is there; lockstep plan tells what a chart would change"), client.Diagnoser(), view.Mask()), Theme: look,
		Kubectl: client.KubectlFlags()})
	if interrupt.Err() != nil {
		err = nil // a signal ends it as a key does
	}
	cancel()
	err = errors.Join(err, <-failed, d.Show(report.Release{State: <-state, Timings: timingsOf(view)}))
	command.WarnIf(d, lookErr)
	return err
}
