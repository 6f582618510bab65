package runs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/engine/text"
	"lockstep/ui/board"
	"lockstep/ui/board/replay"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
	"lockstep/ui/report/format"
)

const replayLong = `Replay a recorded run on the screen, forward and backward. Without a terminal, or with --no-tui, lockstep prints the
run as it did the first time. Without RUN, the last run is replayed.

Every operation keeps a record; "lockstep runs" lists them. Incomplete records are replayed as far as they go. RUN is
the name of a record as in the run's summary, a unique prefix of it, or a file, such as saved -o json output. For a run
in the cluster it is the name of the Job or the release; -n selects the namespace.`

func (a *app) newReplay() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use: "replay [RUN]", GroupID: "more", Short: "replay a recorded run", Long: replayLong,
		Example: `lockstep replay
lockstep replay 20261120-120411-shop
lockstep replay --speed 16
lockstep replay --at 63          # paused after 63 events
lockstep replay --no-tui`,
		Args: command.Args(0, 1), ValidArgsFunction: completeRecords(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !flags.list {
				return a.replay(cmd, args, &flags)
			}
			dir, err := report.RunDir()
			if err != nil {
				return err
			}
			return a.Display(cmd).Lines(report.Runs(dir)...)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flags.list, "list", false, "list the records, newest first")
	f.BoolVar(&flags.screen, "tui", false, "use the screen, or fail without a terminal")
	f.Bool("no-tui", false, "print lines instead of the screen (default without a terminal, in CI, or with -o)")
	f.Float64Var(&flags.speed, "speed", 1, "speed factor on the screen; 0 jumps to the end")
	f.IntVar(&flags.at, "at", 0, "start paused after this many events, on the screen")
	command.AddOutput(cmd)
	cmd.MarkFlagsMutuallyExclusive("tui", "no-tui", "output")
	return cmd
}

type replayFlags struct {
	list, screen bool
	speed        float64
	at           int
}

func (a *app) replay(cmd *cobra.Command, args []string, flags *replayFlags) error {
	r, err := a.readRecord(cmd.Context(), firstArg(args))
	if err != nil {
		return err
	}
	d := a.Display(cmd)
	if flags.screen || command.UseScreen(cmd) && !cmd.Flags().Changed("output") {
		p := replay.NewPlayer(r.Events, flags.speed)
		if flags.at > 0 {
			p.Stop(flags.at)
		}
		err := screen.Show(a.App, cmd, board.Options{Title: "replay", Inspector: recordInspector{r, p.At}}, func(ctx context.Context, o board.Options) error {
			return board.Replay(ctx, p, o)
		})
		if err != nil {
			return err
		}
		if err := d.Lines(resumeHint(r, p)); err != nil {
			return err
		}
		a.Summary(cmd, r.State, report.Options{})
	} else {
		report.Replay(r.Events, d.Operation(report.Options{}))
	}
	if problem := r.Incomplete(); problem != "" {
		d.Warn(problem)
	}
	return nil
}

// resumeHint says where the user quit a replay and how to return there.
func resumeHint(r *report.Record, p *replay.Player) string {
	return fmt.Sprintf("quit the replay at event %d of %d, %s into the run; continue with: "+text.Program+" replay %s --at %d",
		p.At(), len(r.Events), format.Duration(p.Elapsed()), command.ShellJoin([]string{r.Name}), p.At())
}
