package runs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// filter selects recorded runs.
type filter struct {
	release, outcome, since string
	newerThan               time.Duration
}

// anyOutcome is the value of --outcome that selects all runs.
const anyOutcome = "any"

// outcomes are the values of --outcome, and the outcomes of records that they select. Paused and held are states of a running run.
var outcomes = map[string]string{
	"succeeded": string(event.Succeeded), "failed": string(event.Failed), "aborted": string(event.Aborted), "running": report.StillRunning,
	"killed": report.Killed, "not-watched": report.Unwatched, "paused": string(event.Paused), "held": string(event.Held),
}

func (f *filter) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.release, "release", "", "list only runs of this release")
	_ = cmd.RegisterFlagCompletionFunc("release", completeRecordedReleases) // fails only if the flag is not defined
	command.AddChoice(cmd, &f.outcome, "outcome", "", "list only runs with this outcome or state",
		anyOutcome, "succeeded", "failed", "aborted", "running", "paused", "held", "killed", "not-watched")
	cmd.Flags().StringVar(&f.since, "since", "", "list only runs that started within this time, for example 36h or 7d")
	_ = cmd.RegisterFlagCompletionFunc("since", cobra.NoFileCompletions)
}

// parse checks the flags. inCluster means that runs in the cluster are listed.
func (f *filter) parse(inCluster bool) (err error) {
	if inCluster && (f.release != "" || f.since != "" || f.outcome != anyOutcome) {
		return errors.New("--release, --outcome and --since select recorded runs; they cannot be combined with --in-cluster or -A")
	}
	f.newerThan, err = parseAge("since", f.since)
	return err
}

// of returns the selected runs.
func (f *filter) of(runs report.RunList) report.RunList {
	return slices.DeleteFunc(runs, func(r report.Run) bool {
		wanted := outcomes[f.outcome]
		return f.release != "" && r.Release != f.release || f.since != "" && time.Since(r.Started) > f.newerThan ||
			wanted != "" && r.Outcome != wanted && r.State != wanted
	})
}

// completeRecordedReleases completes a flag with the releases of the recorded runs.
func completeRecordedReleases(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	dir, err := report.RunDir()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, r := range report.RecordedRuns(dir) {
		names = append(names, r.Release)
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// none says that no run is selected.
func (f *filter) none(recorded int, dir string) string {
	if recorded == 0 {
		return noRuns(dir)
	}
	return fmt.Sprintf("none of the %d recorded runs matches", recorded)
}
