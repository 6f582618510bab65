package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/ui/report"
)

const replayLong = `Plays a recorded run again on the screen, and prints its summary. Without a terminal, or with --no-tui, it is printed as
it was when it ran. Every operation keeps a record; the last 50 are kept, in lockstep/runs below $XDG_STATE_HOME (or
~/.local/state). What -o json printed can be read, too.

RUN is the name of a record, as the summary of the run names it, or a file. Without it, the last run is taken.`

func (a *app) newReplay() *cobra.Command {
	flags := replayFlags{output: choice{allowed: []string{"text", "json"}}}
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
		Args: args(0, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			dir, err := report.RunDir()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return report.Runs(dir), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := report.RunDir()
			if err != nil {
				return err
			}
			if flags.list {
				return a.display(cmd, report.ModeText).Lines(report.Runs(dir)...)
			}
			return a.replay(cmd, dir, args, &flags)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flags.list, "list", false, "list the records, the newest first")
	f.BoolVar(&flags.screen, "tui", false, "play it on the screen or not at all")
	f.BoolVar(&flags.noTUI, "no-tui", false, "print lines in place of the screen; so it is without a terminal, with TERM=dumb, with CI set, and with -o")
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

func (a *app) replay(cmd *cobra.Command, dir string, args []string, flags *replayFlags) error {
	events, bad := readRun(dir, args)
	if len(events) == 0 && bad != nil {
		return bad
	}
	m := modeOf(flags.output.value, flags.noTUI)
	d := a.display(cmd, m.lines())
	if flags.screen || m == modeScreen && !cmd.Flags().Changed("output") {
		if err := a.look(cmd, "replay", events, flags.speed); err != nil {
			return err
		}
		var state event.State
		for _, e := range events {
			state.Apply(e)
		}
		report.Summary(cmd.OutOrStdout(), &state, report.Options{Style: a.style(os.Stdout)})
	} else {
		report.Replay(events, d.Operation(report.Options{}))
	}
	if bad != nil {
		d.Warn("the record is cut off: " + bad.Error())
	}
	return nil
}

// readRun reads the record that args name, or the last one. Events may come
// with an error: those before a line that is none.
func readRun(dir string, args []string) ([]event.Event, error) {
	if len(args) == 0 {
		runs := report.Runs(dir)
		if len(runs) == 0 {
			return nil, fmt.Errorf("there is no record in %s yet", dir)
		}
		args = runs
	}
	f, err := report.OpenRun(dir, args[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	events, err := event.Read(f)
	if len(events) == 0 && err == nil {
		err = fmt.Errorf("%s: no event in it", args[0])
	}
	return events, err
}
