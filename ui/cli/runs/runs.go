package runs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

const runsLong = `Lists the recorded runs of this machine and user, the newest first. Every operation keeps a record; the last 50 are
kept, in lockstep/runs below $XDG_STATE_HOME (or ~/.local/state), for their user's eyes only. A run that was killed
is listed as cut off; "lockstep recover" tells what it has left in the cluster.

RUN is the name of a record, the beginning of a name that no other has, or a file: a copy of a record, or what -o
json printed.`

const runsShowLong = `Tells what became of a recorded run, why, and what made it as long as it was. Without RUN it is the last one.

The critical path are the groups that decided how long it took: the one that ended last, before it the one that it
had to wait for longest, and so on. Each bar goes from a group's beginning to its end; its full part is the longest
that one of the group's objects took to become ready once the API server had it, the rest went into requests.

"best possible time" is how long the run would have taken if requests took no time and never had to wait for
their turn: the longest way through the plan, counting nothing but how long the cluster took to get each group's
objects ready, as far as the record tells. What is left is up to the cluster and the chart.

"biggest bottleneck" is the group that others wait for without whose time the run would have been shortest.`

const runsDiffLong = `Compares how long the groups of two recorded runs took, A being the earlier one: which have become slower or faster,
which are new, and which are gone. Less than half a second, or a tenth, is no difference.`

const runsRmLong = `Removes records of runs: those that are named, all, or those of runs that are older than a time, such as 36h or 30d.
The record of a run that is under way stays. Releases are not touched.`

func (a *app) newRuns() *cobra.Command {
	output := command.TextOrJSON()
	cmd := &cobra.Command{
		Use:     "runs",
		GroupID: "more",
		Short:   "list, look into, compare and remove records of runs",
		Long:    runsLong,
		Example: `lockstep runs
lockstep runs show
lockstep runs diff 20261120-1204 20261121-0911
lockstep runs rm --older-than 30d`,
		Args:              command.Args(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, runs, err := recordedRuns()
			if err != nil {
				return err
			}
			return a.Display(cmd, report.Mode(output.Value)).Show(runs)
		},
	}
	command.AddChoice(cmd, &output, "output", "o", "format")
	cmd.AddCommand(a.newRunsShow(), a.newRunsDiff(), a.newRunsRm())
	return cmd
}

func (a *app) newRunsShow() *cobra.Command {
	output := command.TextOrJSON()
	cmd := &cobra.Command{
		Use:   "show [RUN]",
		Short: "tell what became of a run, why, and what took the time",
		Long:  runsShowLong,
		Example: `lockstep runs show
lockstep runs show 20261120-120411-shop -o json | jq .criticalPath`,
		Args:              command.Args(0, 1),
		ValidArgsFunction: completeRecords(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := recordOf(first(args))
			if err != nil {
				return err
			}
			return a.Display(cmd, report.Mode(output.Value)).Show(r)
		},
	}
	command.AddChoice(cmd, &output, "output", "o", "format")
	return cmd
}

func (a *app) newRunsDiff() *cobra.Command {
	output := command.TextOrJSON()
	cmd := &cobra.Command{
		Use:               "diff A B",
		Short:             "tell which groups became slower or faster from one run to another",
		Long:              runsDiffLong,
		Example:           `lockstep runs diff 20261120-120411-shop 20261121-091102-shop`,
		Args:              command.Args(2, 2),
		ValidArgsFunction: completeRecords(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := recordOf(args[0])
			if err != nil {
				return err
			}
			after, err := recordOf(args[1])
			if err != nil {
				return err
			}
			return a.Display(cmd, report.Mode(output.Value)).Show(report.DiffRuns(before, after))
		},
	}
	command.AddChoice(cmd, &output, "output", "o", "format")
	return cmd
}

func (a *app) newRunsRm() *cobra.Command {
	var all bool
	var age string
	cmd := &cobra.Command{
		Use:   "rm {RUN… | --all | --older-than AGE}",
		Short: "remove records of runs",
		Long:  runsRmLong,
		Example: `lockstep runs rm 20261120-120411-shop
lockstep runs rm --older-than 30d`,
		Args:              command.Args(0, 1<<10),
		ValidArgsFunction: completeRecords(1 << 10),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 0) == (all || age != "") {
				return errors.New("name the runs to remove, or use --all or --older-than")
			}
			older, err := parseAge(age)
			if err != nil {
				return err
			}
			return a.removeRuns(cmd, args, func(r report.Run) bool { return all || time.Since(r.Started) > older })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "remove the records of all runs")
	f.StringVar(&age, "older-than", "", "remove the records of runs that began longer ago: 36h, 30d")
	_ = cmd.RegisterFlagCompletionFunc("older-than", cobra.NoFileCompletions) // it is there
	cmd.MarkFlagsMutuallyExclusive("all", "older-than")
	return cmd
}

// parseAge reads a duration, for which d may stand for days as well.
func parseAge(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 1e5 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("--older-than %s is no age: write 36h or 30d", s)
	}
	return d, nil
}

// recordedRuns are the runs of this machine and where their records are. Those
// that are under way say so.
func recordedRuns() (dir string, runs report.RunList, err error) {
	if dir, err = report.RunDir(); err != nil {
		return "", nil, err
	}
	runs = report.RecordedRuns(dir)
	if !slices.ContainsFunc(runs, func(r report.Run) bool { return r.Outcome == report.Killed }) {
		return dir, runs, nil
	}
	began := map[time.Time]bool{}
	live, err := Live(func(event.Operation) bool { return true })
	for _, l := range live {
		began[l.Feed().Events()[0].Time] = true // to the nanosecond, which no two runs share
		l.Close()
	}
	for n, r := range runs {
		if r.Outcome == report.Killed && began[r.Started] {
			runs[n].Outcome = report.StillRunning
		}
	}
	return dir, runs, err
}

// recordOf reads the record of a name, or the last one where that is empty.
func recordOf(name string) (*report.Record, error) {
	dir, err := report.RunDir()
	if err != nil {
		return nil, err
	}
	if name == "" {
		runs := report.RecordedRuns(dir)
		if len(runs) == 0 {
			return nil, fmt.Errorf("there is no record in %s yet", dir)
		}
		name = runs[0].Name
	}
	return report.ReadRecord(dir, name)
}

// removeRuns removes the records that are named, or else those that fit. Nothing
// is removed where one that is named is not to be.
func (a *app) removeRuns(cmd *cobra.Command, names []string, fits func(report.Run) bool) error {
	dir, runs, err := recordedRuns()
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, name := range names {
		path, err := report.FindRun(dir, name)
		if err != nil {
			return err
		}
		if filepath.Dir(path) != dir {
			return fmt.Errorf("%s is no record in %s", name, dir)
		}
		named[report.RunName(path)] = true
	}
	removed := 0
	d := a.Display(cmd, report.ModeText)
	for _, name := range report.Runs(dir) {
		at := slices.IndexFunc(runs, func(r report.Run) bool { return r.Name == name })
		run := report.Run{} // a file with nothing in it is as old as can be
		if at >= 0 {
			run = runs[at]
		}
		switch {
		case len(names) > 0 && !named[name], len(names) == 0 && !fits(run):
			continue
		case run.Outcome == report.StillRunning:
			d.Warn("run " + name + " is under way: its record stays")
			continue
		}
		if err := report.RemoveRun(dir, name); err != nil {
			return err
		}
		removed++
	}
	return d.Lines(report.Count(removed, "record") + " removed")
}

// completeRecords completes the names of records, of which a command takes so many.
func completeRecords(most int) command.Completion {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		dir, err := report.RunDir()
		if err != nil || len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, r := range report.RecordedRuns(dir) {
			if !slices.Contains(args, r.Name) {
				names = append(names, fmt.Sprintf("%s\t%s %s, %s", r.Name, r.Operation, r.Release, r.Outcome))
			}
		}
		return names, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveKeepOrder
	}
}
