package deploy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/helmfile"
	"lockstep/kube/incluster"
	"lockstep/kube/journal"
	"lockstep/kube/mask"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
)

const upLong = `Deploy all releases in a helmfile, in the order of their needs. A release starts when every release it needs is
deployed, with all groups ready; inside a release, groups run in the chart's order. Unchanged releases are skipped.

Everything is rendered, planned and checked before the first write. After a failure, no further releases start, and
running ones finish. --rollback-on-failure then rolls back every release that this run installed or upgraded, in reverse.

lockstep reads plain YAML itself; for files with templates it runs helmfile, which must be in PATH. "lockstep help
helmfile" lists the supported keys. Without -f: helmfile.yaml, helmfile.yaml.gotmpl or helmfile.d in the current
directory.

After a failure or a kill, run the same command again.`

const downLong = `Uninstall all releases in a helmfile, in reverse order: a release is uninstalled after every release that needs it is gone.`

// stackFlags are the flags of up and down, and of plan and rbac for a helmfile.
type stackFlags struct {
	input.HelmfileFlags
	down        bool // the command is down
	run         *runFlags
	charts      input.StackLoaderOptions
	concurrency int
	name        string
	prune       bool
	// allowHooks and skipHooks decide on the hooks of the helmfile.
	allowHooks, skipHooks bool
	// pruneNamespaces are additional namespaces for prune.
	pruneNamespaces []string
}

func (s *stackFlags) add(cmd *cobra.Command) {
	cmd.Annotations = map[string]string{input.NamespaceUsage: "namespace of all releases, instead of those in the file"}
	s.Add(cmd)
	f := cmd.Flags()
	command.AddCount(f, &s.concurrency, "concurrency", "", 0, "maximum releases at a time; 0 for no limit")
	f.BoolVar(&s.allowHooks, "allow-hooks", false, "run the hooks of the helmfile: programs on this machine and images in the cluster, which plan lists")
	f.BoolVar(&s.skipHooks, "skip-hooks", false, "do not run the hooks of the helmfile")
	cmd.MarkFlagsMutuallyExclusive("allow-hooks", "skip-hooks")
	f.BoolVar(&s.charts.SkipDeps, "skip-deps", false, "do not download missing dependencies of local charts")
	s.addPrune(cmd)
	s.run.add(cmd)
	f.Lookup("break-on").Usage = "pause before a release or group: RELEASE, RELEASE/GROUP, a group or pattern as in lockstep install, kind=Job, failure, or prune (repeatable)"
	s.run.addSandbox(cmd)
	s.run.addDeleteCRDs(cmd)
}

func (s *stackFlags) addPrune(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.name, "stack", "", "label the stored releases with this name, for --prune")
	cmd.Flags().BoolVar(&s.prune, "prune", false, "uninstall releases labelled by --stack that the file no longer defines, in the namespaces of its releases")
	cmd.Flags().StringArrayVar(&s.pruneNamespaces, "prune-namespace", nil, "prune in this namespace too (repeatable)")
}

// hooks returns what to do with the hooks of the helmfile.
func (s *stackFlags) hooks() kube.HookPolicy {
	switch {
	case s.skipHooks:
		return kube.SkipHooks
	case s.allowHooks:
		return kube.AllowHooks
	}
	return kube.RefuseHooks
}

// breakOnPrune is the argument of --break-on that pauses a run before it prunes. On the screen it is the default.
const breakOnPrune = "prune"

func (a *app) newUp() *cobra.Command {
	flags := stackFlags{run: &runFlags{}}
	cmd := &cobra.Command{
		Use: "up", GroupID: "deploy", Short: "deploy all releases in a helmfile, in order", Long: upLong,
		Example: `lockstep up
lockstep up -f helmfile.yaml -e production --rollback-on-failure
lockstep up -l tier=backend --break-on db
helmfile build --embed-values | lockstep up -f -`,
		Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.withStackReports(cmd, &flags) },
	}
	flags.add(cmd)
	cmd.Flags().StringArrayVar(&flags.charts.Set, "set", nil, "set values of every release: key1=val1,key2=val2 (repeatable)")
	flags.run.addChart(cmd, executor{writes: true})
	flags.run.addReplace(cmd)
	cmd.Flags().BoolVar(&flags.charts.ForceConflicts, "force-conflicts", false, "take over fields owned by other managers")
	addCRDs(cmd, &flags.charts.CRDs)
	command.AddOrder(cmd, &flags.charts.Order)
	flags.run.addRollback(cmd, "the run", "roll back every release that it installed or upgraded")
	return cmd
}

func (a *app) newDown() *cobra.Command {
	flags := stackFlags{run: &runFlags{}, down: true}
	cmd := &cobra.Command{
		Use: "down", GroupID: "deploy", Short: "uninstall all releases in a helmfile, in reverse order", Long: downLong,
		Example: `lockstep down
lockstep down -f helmfile.yaml -l tier=frontend`,
		Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.withStackReports(cmd, &flags) },
	}
	flags.add(cmd)
	return cmd
}

// withStackReports runs up or down and writes its reports.
func (a *app) withStackReports(cmd *cobra.Command, flags *stackFlags) error {
	args := []string{cmp.Or(flags.Path, "helmfile.yaml")}
	return a.withReports(cmd, flags.run, executor{writes: true}, args, func(r runOptions) error {
		return a.runStack(cmd, flags, r)
	})
}

// runStack runs up or down.
func (a *app) runStack(cmd *cobra.Command, flags *stackFlags, r runOptions) error {
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	if flags.prune && flags.name == "" {
		return errors.New("--prune needs --stack NAME; use the same name as in earlier runs")
	}
	if flags.run.cluster.enabled {
		return a.stackInCluster(cmd, flags, file, r)
	}
	r.common.Lease, r.common.Job = a.leaseOptions(cmd), incluster.JobID()
	return a.withStack(cmd, flags, file, r, func(stack *kube.Stack, all clients) error {
		return a.runStackOperation(cmd, r, stack, all)
	})
}

// previewStack plans the releases of a helmfile and calls do with them instead of running them.
func (a *app) previewStack(cmd *cobra.Command, flags *stackFlags, r runOptions, do func(*kube.Stack) error) error {
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	r.common.PlanOnly = true
	return a.withStack(cmd, flags, file, r, func(stack *kube.Stack, _ clients) error { return do(stack) })
}

// clients are the connections of a stack by context.
type clients map[string]*kube.Client

// withStack loads and plans all releases of a helmfile and calls do. With --sandbox it uses a throwaway
// cluster.
func (a *app) withStack(cmd *cobra.Command, flags *stackFlags, file *helmfile.File, r runOptions, do func(*kube.Stack, clients) error) error {
	return a.withCluster(cmd, r.sandbox, func(s *helmcli.EnvSettings) error {
		loader, err := input.NewStackLoader(a.App, file, s, flags.charts)
		if err != nil {
			return err
		}
		all := clients{}
		connect := func(name string) (*kube.Client, error) {
			settings := s
			if name != "" && !r.sandbox {
				settings = command.ContextSettings(s, s.KubeConfig, name)
			}
			c, err := kube.Connect(settings, slog.Default(), loader.Registry)
			if err == nil {
				all[name] = c
			}
			return c, err
		}
		var journal *journal.Journal
		if incluster.JobName() != "" { // the run's own cluster
			client, err := connect("")
			if err == nil {
				journal, err = openJournal(cmd, client, r, a.Display(cmd))
			}
			if err != nil {
				return err
			}
			r.follow.continues(journal.Begun())
		}
		steps := &command.Progress{Notices: a.Display(cmd).Notices}
		steps.Start("planning " + text.Count(len(file.Releases), "release"))
		isPrune := func(text string) bool { return flags.prune && text == breakOnPrune }
		confirm := r.screen || slices.ContainsFunc(r.common.BreakOn, isPrune)
		r.common.BreakOn = slices.DeleteFunc(slices.Clone(r.common.BreakOn), isPrune)
		r.common.Mask = &mask.Mask{}
		a.Logs.Hide(r.common.Mask.Text) // of what the preparation reads
		stack, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (*kube.Stack, error) {
			return kube.PrepareStack(ctx, kube.StackOptions{
				File: file, Down: flags.down, Common: r.common, Concurrency: flags.concurrency, Load: loader.Load,
				Name: flags.name, Prune: flags.prune, PruneNamespaces: flags.pruneNamespaces, ConfirmPrune: confirm,
				Journal: journal, SavedPlan: r.savedPlan, Hooks: flags.hooks(), TraceEnv: r.follow.environ, Earlier: lastRun,
			}, connect)
		})
		steps.End()
		if err != nil {
			return exitIfBegun(journal, err)
		}
		defer stack.Close()
		return do(stack, all)
	})
}

// lastRun returns the state at the end of the last recorded run with an identity, nil if there is none or if it is still running.
func lastRun(identity string) *event.State {
	dir, recorded, err := runs.Recorded()
	i := slices.IndexFunc(recorded, func(r report.Run) bool { return r.Identity == identity })
	if err != nil || i < 0 || recorded[i].Outcome == report.StillRunning {
		return nil
	}
	record, err := report.ReadRecord(dir, recorded[i].Name)
	if err != nil { // then its hooks run again
		return nil
	}
	return record.State
}

// addStack extends a command for one release, which has the flags run and input: without arguments
// it reads the helmfile of -f or of the working directory and calls do.
func (a *app) addStack(
	cmd *cobra.Command, run *runFlags, chart *input.ChartInput, do func(*cobra.Command, *stackFlags, runOptions) error,
) {
	flags := stackFlags{run: run}
	flags.AddSelection(cmd)
	flags.addPrune(cmd)
	runOne := cmd.RunE
	cmd.Args = input.OrHelmfile(cmd.Args)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return runOne(cmd, args)
		}
		if err := a.refuseReleaseFlags(cmd); err != nil {
			return err
		}
		r, err := run.parse(cmd)
		if err != nil {
			return err
		}
		flags.charts = input.StackLoaderOptions{
			Set: chart.Values.Values, CRDs: chart.Options.CRDs, Order: chart.Options.Order, ForceConflicts: chart.Options.ForceConflicts,
		}
		return do(cmd, &flags, r)
	}
}

// refuseReleaseFlags returns an error for flags that up does not have: a helmfile sets them for
// each of its releases.
func (a *app) refuseReleaseFlags(cmd *cobra.Command) (err error) {
	up, upgrade := a.newUp().Flags(), a.newUpgrade(executor{}).Flags()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "values" || f.Name == "set" || up.Lookup(f.Name) != nil || upgrade.Lookup(f.Name) == nil:
		case f.Name == "labels":
			err = command.UsageError("--labels applies to one release; use --selector to select releases of a helmfile")
		default:
			err = command.UsageError("--" + f.Name + " applies to one release; for a helmfile, set it in the file")
		}
	})
	return err
}

// runStackOperation runs a stack on the screen or as lines until it ends.
func (a *app) runStackOperation(cmd *cobra.Command, r runOptions, stack *kube.Stack, all clients) error {
	if r.provenApprovals {
		end, err := stack.ProveApprovals(cmd.Context())
		if err != nil {
			return suggestRoles(cmd, a.Settings.Namespace(), err)
		}
		defer end()
	}
	noChanges := func(why screen.NoChanges) inspect.Cluster { return screen.Disconnected{ChangeSource: why} }
	release := func(scope string) (inspect.Cluster, []string) {
		for _, rel := range stack.Releases() {
			switch {
			case rel.ID != scope:
			case rel.Operation != nil:
				return screen.NewInspector(screen.Changes(rel.Operation, rel.Client), rel.Operation.Diagnoser(), rel.Operation.Mask()), rel.Client.KubectlFlags()
			default:
				return noChanges("nothing to do"), rel.Client.KubectlFlags()
			}
		}
		return noChanges("nothing to do"), nil
	}
	known := slices.Collect(maps.Values(all))
	return a.runDisplayed(cmd, displayedRun{
		runOptions: r, op: stack, info: stack.Info(), clients: known, changes: screen.StackChanges(known), hide: stack.Mask().Text,
		abortOutcome: "running releases will be marked failed",
		next:         func(s *event.State) []string { return suggester{a, cmd, stack.Mask()}.afterStack(s, r.sandbox) },
		board:        board.Options{Inspector: noChanges("hooks of a helmfile have no objects"), Release: release},
		afterScreen:  func() {},
	})
}

// afterStack suggests the same command after a stack failed or was aborted. It resumes the stack (S7). After a stack in which others
// have changed objects, it suggests how to undo that.
func (s suggester) afterStack(state *event.State, sandbox bool) []string {
	switch {
	case sandbox || wroteNothing(state) || state.Status == event.Succeeded && !state.HasDrift():
		return nil
	case state.Status == event.Succeeded:
		return []string{s.related(state, undoDrift, append([]string{"drift"}, append(s.selection(), "--repair")...)...)}
	}
	return []string{s.rerun(state, nil)}
}

// selection returns the flags that select the helmfile and its releases.
func (s suggester) selection() (words []string) {
	selects := &cobra.Command{}
	(&input.HelmfileFlags{}).Add(selects)
	command.VisitSetFlags(s.cmd, func(name string, set []string) {
		if selects.Flags().Lookup(name) != nil || name == "namespace" {
			words = append(words, set...)
		}
	}, s.mask)
	return words
}
