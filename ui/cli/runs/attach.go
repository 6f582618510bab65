package runs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/screen"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

const attachLong = `Joins a run of another process on this machine: one that was started without a screen, whose terminal has gone, or that
somebody else is to look at, too. In a terminal it is the run's own screen, on which it can be steered, and which has
from the run's process what it will do to each object; leaving it leaves the run alone. Elsewhere the run is told line by line from its beginning, with -o json an event per line.

Without RELEASE it joins the only live run. Runs are found through sockets in lockstep/live below $XDG_STATE_HOME (or
~/.local/state), which are for their user alone. A program can use such a socket, too: it reads the events of
"lockstep help events", an empty line where the present is reached, and takes commands, a JSON object a line with the
fields command, group, phase, id; the event that answers one has its id in answers.

Exit codes: that of the run where it was seen to its end, 0 where it goes on, 2 where there is no such run.`

// attachFlags are those of attach.
type attachFlags struct {
	output command.Choice
	noTUI  bool
}

func (a *app) newAttach() *cobra.Command {
	var flags attachFlags
	cmd := &cobra.Command{
		Use:     "attach [RELEASE]",
		GroupID: "deploy",
		Short:   "join a live run of another process on this machine",
		Long:    attachLong,
		Example: `lockstep attach shop
lockstep attach shop -o json | jq .message`,
		Args:              command.Args(0, 1),
		ValidArgsFunction: completeLive,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.joinRun(cmd, first(args))
			if err != nil {
				return err
			}
			defer r.Close()
			return a.attach(cmd, r, command.ModeFor(flags.output.Value, flags.noTUI))
		},
	}
	cmd.Flags().BoolVar(&flags.noTUI, "no-tui", false, "print lines in place of the screen")
	flags.output = command.TextOrJSON()
	command.AddChoice(cmd, &flags.output, "output", "o", "format")
	return cmd
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// attach shows a live run until it is over or left.
func (a *app) attach(cmd *cobra.Command, r *remote.Run, m command.Mode) error {
	d := a.Display(cmd, m.Report())
	if m == command.ModeScreen {
		if err := ShowLive(a.App, cmd, d, r, r.Command); err != nil {
			return err
		}
	} else {
		report.Watch(cmd.Context(), r.Feed(), d.Operation(report.Options{Steer: CtlCommand(r.Operation)}))
	}
	return left(r, d, m)
}

// ShowLive shows a live run on the screen, read-only without send, and
// then how it stands.
func ShowLive(a *command.App, cmd *cobra.Command, d report.Display, r *remote.Run, send func(event.Command)) error {
	look, lookErr := theme.FromEnv(os.Getenv)
	defer a.Logs.ToFile(d)()
	o := board.Options{Source: r.Feed().Reader(), Command: send, Attached: true, Theme: look}
	o.Inspector, o.Kubectl = inspectorOf(a, cmd.Context(), r)
	screen.DiscardInput()
	err := board.Run(cmd.Context(), o)
	if cmd.Context().Err() != nil {
		err = nil // a signal leaves it as a key does
	}
	if now := r.Now(context.Background()); now.Ended.IsZero() {
		err = errors.Join(err, d.Show(report.NewRunStatus(now)))
	} else {
		report.Summary(cmd.OutOrStdout(), now, a.SummaryOptions(report.Options{}))
	}
	command.WarnIf(d, lookErr)
	return err
}

// ClientFor is a connection to the cluster of a run, nil where the kubeconfig does
// not lead there: then only the events tell of it.
func ClientFor(a *command.App, op event.Operation) *kube.Client {
	client, err := kube.Connect(a.Settings, slog.Default(), nil)
	if err != nil || client.ContextName() != op.Context {
		return nil
	}
	return client
}

// inspectorOf asks the run what it does, and its cluster, where that can be asked now
// and the release has a record, by which secret values are known. It leads kubectl
// there, too.
func inspectorOf(a *command.App, ctx context.Context, r *remote.Run) (board.Inspector, []string) {
	client := ClientFor(a, r.Operation)
	if client == nil {
		return screen.Disconnected(r), nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	view, err := client.PrepareView(ctx, r.Operation.Release, r.Operation.Namespace, 0)
	if err != nil {
		return screen.Disconnected(r), client.KubectlFlags()
	}
	return screen.NewInspector(r, client.Diagnoser(), view.Mask()), client.KubectlFlags()
}

// left is what attach ends with: what the run has, where it is over.
func left(r *remote.Run, d report.Display, m command.Mode) error {
	s := r.Now(context.Background())
	switch {
	case s.Ended.IsZero() && r.Lost():
		return command.Exit(command.ExitFailed, remote.ErrLost)
	case s.Ended.IsZero():
		d.Note("the run goes on; lockstep attach " + r.Operation.Release + " joins it again")
		return nil
	}
	return command.Ending(s, nil, m)
}

// CtlCommand is how a run is steered from a script.
func CtlCommand(op event.Operation) string { return "lockstep ctl " + op.Release }
