package runs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/ui/board"
	"lockstep/ui/board/replay"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
)

const replayLong = `Plays a recorded run again on the screen, forwards and back, and prints where it was left and the summary of the run.
Without a terminal, or with --no-tui, it is printed as it was when it ran. Every operation keeps a record, which
"lockstep runs" lists. A record that is cut off is played up to there. What -o json printed can be played, too.

RUN is the name of a record, as the summary of the run names it, the beginning of a name that no other has, or a
file. Without it, the last run is taken.`

func (a *app) newReplay() *cobra.Command {
	flags := replayFlags{output: command.TextOrJSON()}
	cmd := &cobra.Command{
		Use:     "replay [RUN]",
		GroupID: "more",
		Short:   "play a recorded run again",
		Long:    replayLong,
		Example: `lockstep replay
lockstep replay 20261120-120411-shop
lockstep replay --speed 16
lockstep replay --at 63          # stand still where 63 events have happened
lockstep replay --no-tui
lockstep replay --list`,
		Args:              command.Args(0, 1),
		ValidArgsFunction: completeRecords(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !flags.list {
				return a.replay(cmd, args, &flags)
			}
			dir, err := report.RunDir()
			if err != nil {
				return err
			}
			return a.Display(cmd, report.ModeText).Lines(report.Runs(dir)...)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flags.list, "list", false, "list the records, the newest first")
	f.BoolVar(&flags.screen, "tui", false, "play it on the screen or not at all")
	f.BoolVar(&flags.noTUI, "no-tui", false, "print lines in place of the screen; so it is without a terminal, with TERM=dumb, with CI or ACCESSIBLE set, and with -o")
	f.Float64Var(&flags.speed, "speed", 1, "on the screen: how much faster than it was, 0 for its end at once")
	f.IntVar(&flags.at, "at", 0, "on the screen: begin where so many events have happened, and stand still")
	command.AddChoice(cmd, &flags.output, "output", "o", "format")
	cmd.MarkFlagsMutuallyExclusive("tui", "no-tui", "output")
	return cmd
}

// replayFlags are those of replay.
type replayFlags struct {
	output              command.Choice
	list, screen, noTUI bool
	speed               float64
	at                  int
}

func (a *app) replay(cmd *cobra.Command, args []string, flags *replayFlags) error {
	r, err := recordOf(first(args))
	if err != nil {
		return err
	}
	m := command.ModeFor(flags.output.Value, flags.noTUI)
	d := a.Display(cmd, m.Report())
	if flags.screen || m == command.ModeScreen && !cmd.Flags().Changed("output") {
		p := replay.NewPlayer(r.Events, flags.speed)
		if flags.at > 0 {
			p.Stop(flags.at)
		}
		err := screen.Show(a.App, cmd, board.Options{Title: "replay", Inspector: recorded{r, p.At}}, func(ctx context.Context, o board.Options) error {
			return board.Replay(ctx, p, o)
		})
		if err != nil {
			return err
		}
		if err := d.Lines(leftAt(r, p)); err != nil {
			return err
		}
		report.Summary(cmd.OutOrStdout(), r.State, a.SummaryOptions(report.Options{}))
	} else {
		report.Replay(r.Events, d.Operation(report.Options{}))
	}
	if cut := r.Incomplete(); cut != "" {
		d.Warn(cut)
	}
	return nil
}

// leftAt says where a replay was left, and how to come back to that.
func leftAt(r *report.Record, p *replay.Player) string {
	return fmt.Sprintf("replay left at event %d of %d, %s into the run; back to that: lockstep replay %s --at %d",
		p.At(), len(r.Events), report.Seconds(p.Passed()), command.ShellWords([]string{r.Name}), p.At())
}
