package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine"
	"lockstep/ui/report"
)

const replayLong = `Prints a recorded run as it was printed when it ran, or with --tui plays it again on the screen. Every operation keeps
a record; the last 50 are kept, in lockstep/runs below $XDG_STATE_HOME (or ~/.local/state). What -o json printed can be read, too.

RUN is the name of a record, as the summary of the run names it, or a file. Without it, the last run is taken.`

func (a *app) newReplay() *cobra.Command {
	format := choice{allowed: []string{"text", "json"}}
	list, tui, speed := false, false, 1.0
	cmd := &cobra.Command{
		Use:     "replay [RUN]",
		GroupID: "more",
		Short:   "print a recorded run",
		Long:    replayLong,
		Example: `lockstep replay
lockstep replay 20261120-120411-shop
lockstep replay --tui --speed 2
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
			if list {
				for _, name := range report.Runs(dir) {
					fmt.Fprintln(cmd.OutOrStdout(), name)
				}
				return nil
			}
			if !tui {
				return a.replay(cmd, dir, args, format.value)
			}
			events, err := readRun(dir, args)
			if len(events) == 0 && err != nil {
				return err
			}
			return a.look(cmd, "replay", events, speed)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the records, the newest first")
	cmd.Flags().BoolVar(&tui, "tui", false, "play it again on the screen")
	cmd.Flags().Float64Var(&speed, "speed", speed, "with --tui: how much faster than it was, 0 for its end at once")
	addChoice(cmd, &format, "output", "o", "format")
	return cmd
}

func (a *app) replay(cmd *cobra.Command, dir string, args []string, format string) error {
	events, bad := readRun(dir, args)
	if len(events) == 0 && bad != nil {
		return bad
	}
	report.Replay(events, a.printer(cmd, format, report.Options{}))
	if bad != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: the record is cut off:", bad)
	}
	return nil
}

// readRun reads the record that args name, or the last one. Events may come
// with an error: those before a line that is none.
func readRun(dir string, args []string) ([]engine.Event, error) {
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
	events, err := engine.ReadEvents(f)
	if len(events) == 0 && err == nil {
		err = fmt.Errorf("%s: no event in it", args[0])
	}
	return events, err
}

// printer is the headless way to show an operation.
func (a *app) printer(cmd *cobra.Command, format string, o report.Options) report.Consumer {
	if format == "json" {
		return report.NewJSON(cmd.OutOrStdout())
	}
	o.Style = streamStyle(os.Stdout, a.settings.ColorMode)
	return report.NewText(cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
}
