package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

const upLong = `Deploy all releases in a helmfile, in the order of their needs. A release starts when every release it needs is
deployed, with all groups ready; inside a release, groups run in the chart's order. Unchanged releases are skipped.

Everything is rendered, planned and checked before the first write. On a failure, releases that need the failed one do
not start and running ones finish. --rollback-on-failure then rolls back everything this run changed, in reverse.

lockstep reads plain YAML itself; for files with templates it runs helmfile, which must be in PATH. "lockstep help
helmfile" lists the supported keys. Without -f: helmfile.yaml, helmfile.yaml.gotmpl or helmfile.d in the current
directory.

After a failure or a kill, run the same command again.`

const downLong = `Uninstall all releases in a helmfile, in reverse order: a release is uninstalled after every release that needs it is gone.`

// stackFlags are the flags of up and down.
type stackFlags struct {
	command.HelmfileFlags
	run         runFlags
	set         []string
	concurrency int
	skipDeps    bool
	name        string
	prune       bool
}

func (s *stackFlags) add(cmd *cobra.Command) {
	s.Add(cmd)
	f := cmd.Flags()
	f.IntVar(&s.concurrency, "concurrency", 0, "maximum releases at a time; 0 for no limit")
	f.BoolVar(&s.skipDeps, "skip-deps", false, "do not download missing dependencies of local charts")
	s.addPrune(cmd)
	s.run.add(cmd)
	s.run.addSandbox(cmd)
}

func (s *stackFlags) addPrune(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.name, "stack", "", "label the stored releases with this name, for --prune")
	cmd.Flags().BoolVar(&s.prune, "prune", false, "uninstall releases labeled by --stack that the file no longer defines")
}

func (a *app) newUp() *cobra.Command {
	var flags stackFlags
	cmd := &cobra.Command{
		Use:     "up",
		GroupID: "deploy",
		Short:   "deploy all releases in a helmfile, in order",
		Long:    upLong,
		Example: `lockstep up
lockstep up -f helmfile.yaml -e production --rollback-on-failure
lockstep up -l tier=backend --break-on db
helmfile build --embed-values | lockstep up -f -`,
		Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.withStackReports(cmd, &flags, false) },
	}
	flags.add(cmd)
	cmd.Flags().StringArrayVar(&flags.set, "set", nil, "set values of every release: key1=val1,key2=val2 (repeatable)")
	flags.run.addReadiness(cmd)
	flags.run.addRollbackFlag(cmd, "the run", "roll back all releases that this run changed")
	return cmd
}

func (a *app) newDown() *cobra.Command {
	var flags stackFlags
	cmd := &cobra.Command{
		Use:     "down",
		GroupID: "deploy",
		Short:   "uninstall all releases in a helmfile, in reverse order",
		Long:    downLong,
		Example: `lockstep down
lockstep down -f helmfile.yaml -l tier=frontend`,
		Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.withStackReports(cmd, &flags, true) },
	}
	flags.add(cmd)
	return cmd
}

func (a *app) withStackReports(cmd *cobra.Command, flags *stackFlags, down bool) error {
	return a.withReports(cmd, &flags.run, executor{writes: true}, []string{cmp.Or(flags.File, "helmfile.yaml")}, func() error { return a.runStack(cmd, flags, down) })
}

// runStack runs up or down, with --sandbox on a throwaway cluster.
func (a *app) runStack(cmd *cobra.Command, flags *stackFlags, down bool) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	if flags.prune && flags.name == "" {
		return errors.New("--prune needs --stack NAME; use the same name as in earlier runs")
	}
	if flags.run.cluster.enabled {
		return a.stackInCluster(cmd, flags, file, r, down)
	}
	return a.inSandbox(cmd, job{runOptions: r}, func(s *helmcli.EnvSettings) error {
		r.common.Lease = a.leaseOptions(cmd, job{runOptions: r})
		stack, clients, err := a.prepareStack(cmd, flags, file, r, s, down)
		if err != nil {
			return err
		}
		return a.showStack(cmd, flags, r, stack, clients)
	})
}

// clients has the connections of a stack by context.
type clients map[string]*kube.Client

// prepareStack loads and plans all releases of a helmfile.
func (a *app) prepareStack(cmd *cobra.Command, flags *stackFlags, file *kube.Helmfile, r runOptions, s *helmcli.EnvSettings, down bool) (*kube.Stack, clients, error) {
	d := a.Display(cmd, r.mode.Report())
	loader, err := command.NewStackLoader(a.App, file, s, flags.set, flags.skipDeps)
	if err != nil {
		return nil, nil, err
	}
	steps := &progress{notices: d}
	defer steps.end()
	steps.start(fmt.Sprintf("planning %d releases", len(file.Releases)))
	all := clients{}
	connect := func(name string) (*kube.Client, error) {
		settings := s
		if name != "" && !r.sandbox {
			settings = settingsFor(s, s.KubeConfig)
			settings.KubeContext = name
		}
		c, err := kube.Connect(settings, slog.Default(), loader.Registry)
		if err == nil {
			all[name] = c
		}
		return c, err
	}
	r.common.ReadinessTimeout = min(max(r.common.ReadinessTimeout, 0), r.common.Timeout)
	stack, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (*kube.Stack, error) {
		return kube.PrepareStack(ctx, kube.StackOptions{
			File: file, Down: down, Common: r.common, Concurrency: flags.concurrency, Name: flags.name, Prune: flags.prune,
			Render: loader.Load,
		}, connect)
	})
	return stack, all, err
}

// planStack prints the changes of "up", release by release. The exit code says whether there
// are any.
func (a *app) planStack(cmd *cobra.Command, flags *stackFlags) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	r.common.PlanOnly = true
	return a.inSandbox(cmd, job{runOptions: r}, func(s *helmcli.EnvSettings) error {
		stack, _, err := a.prepareStack(cmd, flags, file, r, s, false)
		if err != nil {
			return err
		}
		defer stack.Close()
		found, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (report.StackPlan, error) { return stackChanges(ctx, stack) })
		if err != nil {
			return err
		}
		if err := a.Display(cmd, r.mode.Report()).Show(found); err != nil {
			return err
		}
		switch refused, changed := found.Count(); {
		case refused > 0:
			return fmt.Errorf("%s would be refused", report.Count(refused, "change"))
		case changed > 0:
			return command.Exit(command.ExitChanges, nil)
		}
		return nil
	})
}

// stackChanges returns the changes of each release of a stack.
func stackChanges(ctx context.Context, stack *kube.Stack) (out report.StackPlan, err error) {
	out.Stack = stack.Info().Release
	for _, rel := range stack.Releases() {
		one := report.ReleasePlan{Release: rel.ID, Needs: rel.Needs, Unchanged: rel.Unchanged || rel.Operation == nil}
		if op := rel.Operation; !one.Unchanged {
			changes, err := op.Changes(ctx)
			if err != nil {
				return out, fmt.Errorf("release %s: %w", rel.ID, err)
			}
			one.Plan = &report.Plan{Operation: op.Info(), Changes: reportChanges(changes), Warnings: op.Warnings(), Errors: op.Refused(), Phases: op.Phases()}
		}
		out.Releases = append(out.Releases, one)
	}
	return out, nil
}

// addStack extends a command for one release: without arguments it reads the helmfile of -f or
// of the working directory and calls do.
func (a *app) addStack(cmd *cobra.Command, do func(*cobra.Command, *stackFlags) error) {
	flags := stackFlags{run: runFlags{waitFlags: waitFlags{timeout: defaultTimeout, waitAll: true}}}
	flags.run.output = command.TextOrJSON()
	flags.AddSelection(cmd)
	flags.addPrune(cmd)
	run := cmd.RunE
	cmd.Args = command.OrHelmfile(cmd.Args)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return run(cmd, args)
		}
		var err error
		if flags.File, err = command.HelmfileArgument(cmd); err != nil {
			return err
		}
		if flags.run.output.Value, err = cmd.Flags().GetString("output"); err != nil {
			return err
		}
		return do(cmd, &flags)
	}
}
