package releases

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
)

const watchLong = `Watch a release group by group until Ctrl-C, or until it is uninstalled without --keep-history. In a terminal, watch
shows a read-only screen; its diff shows what has been changed in the cluster since the release was deployed. Otherwise, or with
--no-tui, it prints the groups once and then a line per change.

-o json prints an event per line. watch continues after an upgrade. If a run on this machine is working on the release, watch
shows that run until it ends.

A release that was not deployed in order, for example by Helm, is shown as one group. Hooks are not shown.`

func (a *app) newWatch() *cobra.Command {
	once := false
	cmd := &cobra.Command{
		Use: "watch NAME", GroupID: "release", Short: "watch a release, group by group", Long: watchLong,
		Example: `lockstep watch shop -n shop
lockstep watch shop -n shop --once`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error { return a.watch(cmd, args[0], once) },
	}
	a.addRevision(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print the current state and exit")
	cmd.Flags().Bool("no-tui", false, "print lines instead of the screen")
	cmd.Flags().Duration("timeout", 0, "without the screen, how long to watch; 0 until it is interrupted")
	command.AddOutput(cmd)
	return cmd
}

func (a *app) watch(cmd *cobra.Command, name string, once bool) error {
	if done, err := a.watchRun(cmd, name, once); done || err != nil {
		return err
	}
	client, view, err := a.openView(cmd, name)
	if err != nil {
		return err
	}
	d := a.Display(cmd)
	switch {
	case once:
		state, err := ReadOnce(cmd.Context(), view, d.Once())
		if err != nil {
			return err
		}
		if command.OutputFormat(cmd) == report.ModeText { // else they are among the events
			for _, w := range state.Warnings {
				d.Warnings([]plan.Warning{{Rule: w.Rule, Object: w.Object, Message: w.Message}})
			}
		}
		return d.Show(report.Release{State: state, Timings: timings(view.Course())})
	case command.UseScreen(cmd):
		return a.watchOnScreen(cmd, client, view, name)
	}
	_, err = follow(cmd.Context(), view, d.Watch())
	return err
}

// watchRun shows the live run of the release on this machine (R47) until it ends, because the
// release's record is incomplete until then. done reports whether watch should end, too.
func (a *app) watchRun(cmd *cobra.Command, name string, once bool) (done bool, err error) {
	if cmd.Flags().Changed("revision") {
		return false, nil // the run may create another revision
	}
	live, err := runs.LiveRuns(func(op event.Operation) bool {
		return op.Release == name && op.Namespace == a.Settings.Namespace()
	})
	live = runs.InCluster(cmd.Context(), a.App, live)
	if err != nil || len(live) == 0 {
		return false, nil // an unreadable socket must not prevent watching the release
	}
	for _, r := range live {
		defer r.Close()
	}
	r, d := live[0], a.Display(cmd)
	switch {
	case once:
		return true, d.Show(report.NewRunStatus(r.Now(cmd.Context())))
	case command.UseScreen(cmd):
		return true, runs.ShowLive(a.App, cmd, r, nil)
	}
	now := report.Watch(cmd.Context(), r.Feed(), d.Operation(report.Options{}))
	return cmd.Context().Err() != nil || now.Operation.Name == "uninstall" && now.Status == event.Succeeded, nil
}

// watchOnScreen shows a view on the screen until the user quits, then prints the last state.
func (a *app) watchOnScreen(cmd *cobra.Command, client *kube.Client, view *kube.View, name string) error {
	recorded := &recorded{View: view, client: client, release: kube.ReleaseKey{Namespace: a.Settings.Namespace(), Name: name}, earlier: cmd.Flags().Changed("revision")}
	o := board.Options{
		Source: view.Feed().Reader(), Inspector: screen.NewInspector(recorded, client.Diagnoser(), view.Mask()), Kubectl: client.KubectlFlags(),
	}
	defer screen.Open(a.App, cmd, &o)()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	var state *event.State
	var viewErr error
	var viewing sync.WaitGroup
	viewing.Go(func() { state, viewErr = follow(ctx, view) })
	err := board.Run(ctx, o)
	if cmd.Context().Err() != nil {
		err = nil // a signal quits, as the key q does
	}
	cancel()
	viewing.Wait()
	if a.FromHome != "" { // it shows the release
		return errors.Join(err, viewErr)
	}
	return errors.Join(err, viewErr, a.Display(cmd).Show(report.Release{State: state, Timings: timings(view.Course())}))
}
