package cli

import (
	"os"

	"github.com/spf13/cobra"

	"lockstep/ui/board"
	"lockstep/ui/report"
)

const replayLong = `Plays a recorded run again on the screen, and prints its summary. Without a terminal, or with --no-tui, it is
printed as it was when it ran. Every operation keeps a record, which "lockstep runs" lists. A record that is cut off
is played up to there. What -o json printed can be played, too.

RUN is the name of a record, as the summary of the run names it, the beginning of a name that no other has, or a
file. Without it, the last run is taken.`

func (a *app) newReplay() *cobra.Command {
	flags := replayFlags{output: textOrJSON()}
	cmd := &cobra.Command{
		Use:     "replay [RUN]",
		GroupID: "more",
		Short:   "play a recorded run again",
		Long:    replayLong,
		Example: `lockstep replay
lockstep replay 20261120-120411-shop
lockstep replay --speed 2
lockstep replay --no-tui
lockstep replay --list`,
		Args:              args(0, 1),
		ValidArgsFunction: completeRecords(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !flags.list {
				return a.replay(cmd, args, &flags)
			}
			dir, err := report.RunDir()
			if err != nil {
				return err
			}
			return a.display(cmd, report.ModeText).Lines(report.Runs(dir)...)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flags.list, "list", false, "list the records, the newest first")
	f.BoolVar(&flags.screen, "tui", false, "play it on the screen or not at all")
	f.BoolVar(&flags.noTUI, "no-tui", false, "print lines in place of the screen; so it is without a terminal, with TERM=dumb, with CI or ACCESSIBLE set, and with -o")
	f.Float64Var(&flags.speed, "speed", 1, "on the screen: how much faster than it was, 0 for its end at once")
	addChoice(cmd, &flags.output, "output", "o", "format")
	cmd.MarkFlagsMutuallyExclusive("tui", "no-tui", "output")
	return cmd
}

// replayFlags are those of replay.
type replayFlags struct {
	output              choice
	list, screen, noTUI bool
	speed               float64
}

func (a *app) replay(cmd *cobra.Command, args []string, flags *replayFlags) error {
	r, err := recordOf(first(args))
	if err != nil {
		return err
	}
	m := modeOf(flags.output.value, flags.noTUI)
	d := a.display(cmd, m.lines())
	if flags.screen || m == modeScreen && !cmd.Flags().Changed("output") {
		if err := a.look(cmd, r.Events, flags.speed, board.Options{Title: "replay", Inspector: lookback{r}}); err != nil {
			return err
		}
		report.Summary(cmd.OutOrStdout(), r.State, report.Options{Style: a.style(os.Stdout)})
	} else {
		report.Replay(r.Events, d.Operation(report.Options{}))
	}
	if cut := r.Cut(); cut != "" {
		d.Warn(cut)
	}
	return nil
}
