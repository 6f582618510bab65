package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
	"lockstep/ui/board/graph"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

const runsLong = `List the recorded runs of this user on this machine, newest first, or only those of a release, with an outcome or since a
time. lockstep keeps the last 1,000 records, up to 1 GiB, readable only by
their user, in lockstep/runs under $XDG_STATE_HOME (or ~/.local/state).

--in-cluster and -A list runs in the cluster instead, as long as their Jobs are kept: "lockstep help in-cluster".

"killed" marks a run whose process was killed; "lockstep recover" marks its release failed and lists the objects in the
cluster. "not watched" marks a run in the cluster that continues, or has ended, without the terminal that started it.

RUN is the name of a record, a unique prefix of it, or a file, such as a copy of a record or saved -o json
output. For a run in the cluster it is the name of the Job or the release; -n selects the namespace.`

const runsShowLong = `Show how a recorded run ended, why, and what took the time. Without RUN, the last run is shown.

The critical path lists the groups that determined the run's duration: the group that ended last, the group it waited
for longest, and so on. Each bar spans a group from start to end; its filled part is the time its slowest object took
to become ready after it was applied. The rest was spent on requests.

"best possible time" is how long the run would have taken if requests took no time: the longest path through the
plan, counting only the time that objects took to become ready.

"biggest bottleneck" is the group that would have saved the most time if it had been instant.`

const runsDiffLong = `Compare how long the groups of two recorded runs took: which became slower or faster, which are new, and which are
gone. A is the earlier run. Differences of at most 0.1 s or 10 % are ignored.`

const runsRmLong = `Remove records of runs: the ones you name, all of them, or those older than an age such as 36h or 30d. Records of
active runs are kept. Releases are not affected.`

func (a *app) newRuns() *cobra.Command {
	var inCluster, allNamespaces bool
	var wanted filter
	cmd := &cobra.Command{
		Use: "runs", GroupID: "more", Short: "list, show, compare and remove records of runs", Long: runsLong,
		Example: `lockstep runs
lockstep runs --release shop --outcome failed --since 7d
lockstep runs -A          # runs in the cluster
lockstep runs show
lockstep runs diff 20261120-1204 20261121-0911
lockstep runs rm --older-than 30d`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wanted.parse(inCluster || allNamespaces); err != nil {
				return err
			}
			if inCluster || allNamespaces {
				return a.listClusterRuns(cmd, allNamespaces)
			}
			dir, all, err := Recorded()
			if err != nil {
				return err
			}
			recorded := len(all)
			runs := wanted.of(all)
			if len(runs) == 0 && command.OutputFormat(cmd) == report.ModeText {
				return a.Display(cmd).Lines(wanted.none(recorded, dir))
			}
			return a.Display(cmd).Show(runs)
		},
	}
	command.AddOutput(cmd)
	wanted.addFlags(cmd)
	cmd.Flags().BoolVar(&inCluster, "in-cluster", false, "list the runs in the cluster, in the namespace of -n")
	cmd.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "list the runs in the cluster, in all namespaces")
	cmd.AddCommand(a.newRunsShow(), a.newRunsDiff(), a.newRunsRm())
	return cmd
}

func (a *app) newRunsShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [RUN]", Short: "show how a run ended, why, and what took the time", Long: runsShowLong,
		Example: `lockstep runs show
lockstep runs show 20261120-120411-shop -o json | jq .criticalPath`,
		Args: command.Args(0, 1), ValidArgsFunction: completeRecords(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.readRecord(cmd.Context(), firstArg(args))
			if err != nil {
				return err
			}
			return a.Display(cmd).Show(r)
		},
	}
	command.AddOutput(cmd)
	return cmd
}

func (a *app) newRunsDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use: "diff A B", Short: "compare the durations of groups in two runs", Long: runsDiffLong,
		Example: `lockstep runs diff 20261120-120411-shop 20261121-091102-shop`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return command.UsageError("runs diff needs two runs")
			}
			return command.Args(2, 2)(cmd, args)
		},
		ValidArgsFunction: completeRecords(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := a.readRecord(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			after, err := a.readRecord(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			return a.Display(cmd).Show(report.DiffRuns(before, after))
		},
	}
	command.AddOutput(cmd)
	return cmd
}

func (a *app) newRunsRm() *cobra.Command {
	var all bool
	var age string
	cmd := &cobra.Command{
		Use: "rm {RUN… | --all | --older-than AGE}", Short: "remove records of runs", Long: runsRmLong,
		Example: `lockstep runs rm 20261120-120411-shop
lockstep runs rm --older-than 30d`,
		Args: command.Args(0, -1), ValidArgsFunction: completeRecords(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && all:
				return command.UsageError("--all cannot be combined with names of runs")
			case len(args) > 0 && age != "":
				return command.UsageError("--older-than cannot be combined with names of runs")
			case len(args) == 0 && !all && age == "":
				return command.UsageError("name the runs to remove, or use --all or --older-than")
			}
			older, err := parseAge("older-than", age)
			if err != nil {
				return err
			}
			return a.removeRuns(cmd, args, func(r report.Run) bool { return all || time.Since(r.Started) > older })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "remove all records")
	f.StringVar(&age, "older-than", "", "remove records older than this, for example 36h or 30d")
	_ = cmd.RegisterFlagCompletionFunc("older-than", cobra.NoFileCompletions) // fails only if the flag is not defined
	cmd.MarkFlagsMutuallyExclusive("all", "older-than")
	return cmd
}

// parseAge parses the value of a flag, a duration such as 36h or, in days, 30d.
func parseAge(flag, s string) (time.Duration, error) {
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
		return 0, fmt.Errorf("--%s %s is not a valid age; use a value such as 36h or 30d", flag, s)
	}
	return d, nil
}

// Recorded returns the recorded runs of this machine, and the directory of their records. It marks live
// runs as running.
func Recorded() (dir string, runs report.RunList, err error) {
	if dir, err = report.RunDir(); err != nil {
		return "", nil, err
	}
	runs = report.RecordedRuns(dir)
	return dir, runs, markRunning(runs)
}

// markRunning changes the outcome of live runs from Killed to StillRunning.
func markRunning(runs []report.Run) error {
	if !slices.ContainsFunc(runs, func(r report.Run) bool { return r.Outcome == report.Killed }) {
		return nil
	}
	now := map[time.Time]*event.State{}
	live, err := LiveRuns(func(event.Operation) bool { return true })
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	for _, l := range live {
		now[l.Feed().Events()[0].Time] = l.Now(ctx) // unique, because it has nanoseconds
		l.Close()
	}
	for i, r := range runs {
		if state := now[r.Started]; r.Outcome == report.Killed && state != nil {
			runs[i].Outcome = report.StillRunning
			runs[i].State, runs[i].Why = standstill(state)
		}
	}
	return err
}

// stateTimeout is how long runs waits for the state of live runs.
const stateTimeout = 5 * time.Second

// standstill returns whether a live run is paused, held or degraded, and why; "" if it is not.
func standstill(s *event.State) (state, why string) {
	status, why := s.RunStatus()
	switch stuck := Stuck(s); {
	case !s.Ended.IsZero():
		return "", ""
	case status == event.Paused, status == event.Held:
		return string(status), why
	case stuck != "":
		return string(event.Degraded), stuck
	}
	return "", ""
}

// Stuck names the first object of a live run that waiting will not make ready, in a stack its release, with the cause. It returns ""
// if there is none.
func Stuck(s *event.State) string {
	for g := range s.GroupStates() {
		for _, o := range g.Objects {
			if !o.Degraded || o.Done() {
				continue
			}
			at := graph.ShortObject(o.Object)
			if s.Operation.IsStack() {
				at = g.ID
			}
			return at + ": " + phrase.CauseIn(s.Scopes[g.ID], g, o, s.Now)
		}
	}
	return ""
}

func noRuns(dir string) string { return fmt.Sprintf("no recorded runs yet (looked in %s)", dir) }

// readRecord reads a record, or the last one if name is empty. A run in the cluster has the name
// of its Job or its release.
func (a *app) readRecord(ctx context.Context, name string) (*report.Record, error) {
	dir, err := report.RunDir()
	if err != nil {
		return nil, err
	}
	if name == "" {
		runs := report.RecordedRuns(dir)
		if len(runs) == 0 {
			return nil, errors.New(noRuns(dir))
		}
		name = runs[0].Name
	}
	r, err := report.ReadRecord(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return a.clusterRecord(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	run := []report.Run{r.Run}
	_ = markRunning(run) // without the live runs, the record is still readable
	r.Run = run[0]
	if op := r.State.Operation; !op.IsStack() && op.Name != "test" {
		r.Recover = command.ShellJoin([]string{text.Program, "recover", r.Release, "-n", r.Namespace})
	}
	return r, nil
}

// removeRuns removes the named records, or the matching ones if no names are given. If a name
// is invalid, nothing is removed.
func (a *app) removeRuns(cmd *cobra.Command, names []string, match func(report.Run) bool) error {
	dir, runs, err := Recorded()
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
			return fmt.Errorf("%s is not a record in %s", name, dir)
		}
		named[report.RunName(path)] = true
	}
	byName := map[string]report.Run{}
	for _, r := range runs {
		byName[r.Name] = r
	}
	removed := 0
	d := a.Display(cmd)
	for _, name := range report.Runs(dir) {
		run := byName[name] // zero for an empty file: older than any age
		switch {
		case len(names) > 0 && !named[name], len(names) == 0 && !match(run):
			continue
		case run.Outcome == report.StillRunning:
			d.Warn("run " + name + " is still running; its record is kept")
			continue
		}
		if err := report.RemoveRun(dir, name); err != nil {
			return err
		}
		removed++
	}
	return d.Lines(text.Count(removed, "record") + " removed")
}

// completeRecords completes up to max arguments with the names of records. A negative max means any
// number.
func completeRecords(max int) command.Completion {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		dir, err := report.RunDir()
		if err != nil || max >= 0 && len(args) >= max {
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
