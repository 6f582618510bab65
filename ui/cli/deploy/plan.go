package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/connect"
	"lockstep/kube/planfile"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/plans"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
)

const planLong = `Show what an operation would create, change and delete, in order, and which hooks would run. Nothing is written.
"plan NAME CHART" plans an upgrade --install. Without NAME and CHART, plan shows what up would do; -f names the helmfile.

lockstep sends objects to the API server as dry runs, in the same requests as the operation. For a new object, only errors
in the object itself count, because an earlier group may create its namespace or kind. Values of Secrets are hidden; plan only names the keys that change.

-o json prints one object: operation (as in "lockstep help events"), changes (phase, group, object, action, diff,
message), warnings and errors; action is create, change, unchanged, delete, absent, keep, hook or refuse.

Like every operation, plan first checks the cluster: permissions, API versions, objects owned by others, references to
missing objects, quotas, limits, the namespace's PodSecurity level, and webhooks without a ready backend. Problems that
may resolve themselves are warnings; others are errors, and the operation would be refused. --skip-preflight skips most
of these checks, but not the one for objects owned by others.

--out saves the plan in a file, which --plan of the operation then follows exactly: "lockstep help plans".

With --tui, plan opens the screen, which compares an object when you select it.

Exit codes: 0 planned, 2 an error or a change that the API server would refuse. With --detailed-exitcode: 0 no changes, 2
changes, 1 an error. Hooks do not count as changes because they run with every operation.`

// newPlan returns the plan command. Its subcommands are the operations with the same flags.
func (a *app) newPlan() *cobra.Command {
	show := executor{run: a.plan}
	cmd, flags := a.newUpgradeWithFlags(show)
	a.addStack(cmd, &flags.run, &flags.deploy.ChartInput, a.planStack)
	cmd.Use, cmd.GroupID, cmd.Short, cmd.Long = "plan {NAME CHART | COMMAND … | -f HELMFILE}", "release", "show what an operation would do", planLong
	cmd.Example = `lockstep plan shop ./shop --out shop.plan
lockstep plan uninstall shop --detailed-exitcode
lockstep plan -f helmfile.yaml
lockstep plan shop ./shop -o json | jq '.changes[] | select(.action != "unchanged")'`
	flags.deploy.options.Install = true
	subs := []*cobra.Command{a.newInstall(show), a.newUpgrade(show), a.newRollback(show), a.newUninstall(show)}
	for _, sub := range subs {
		sub.GroupID, sub.Long, sub.Example = "", planLong, ""
		sub.Short = "show what " + sub.Name() + " would do"
	}
	for _, c := range append(subs, cmd) {
		hideFlags(c, forRuns...)
		hideFlags(c, "in-cluster", "image", "keep-for", "service-account", "on-hangup", "on-interrupt")
		run := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("dry-run") {
				return command.UsageError("plan writes nothing; drop --dry-run")
			}
			return run(cmd, args)
		}
		command.AddDetailedExitCode(c, "nothing would change")
		c.Flags().Bool("tui", false, "open the screen")
		c.Flags().String("out", "", "save the plan in this file, for --plan (\"lockstep help plans\")")
		c.MarkFlagsMutuallyExclusive("tui", "output")
		c.MarkFlagsMutuallyExclusive("tui", "out")
		if c.Flags().Lookup("sandbox") != nil {
			c.MarkFlagsMutuallyExclusive("sandbox", "out")
		}
	}
	cmd.Flags().Lookup("install").Hidden = true
	cmd.AddCommand(append(subs, plans.NewShow(a.App))...)
	return cmd
}

// forRuns are the flags of plan and rbac that are only useful for a run.
var forRuns = []string{
	"step", "break-on", "hold-on-failure", "no-tui", "report", command.NotifyFlag, "notify-key-file", "rollback-on-failure", "approve",
	"approval-timeout", "approval-in-cluster", "dry-run", "hide-secret", "show-secrets", "hide-notes",
}

// hideFlags hides flags of a command, as far as it has them.
func hideFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil {
			f.Hidden = true
		}
	}
}

// plan prints the changes of an operation.
func (a *app) plan(cmd *cobra.Command, spec operationSpec) error {
	if tui, err := cmd.Flags().GetBool("tui"); err == nil && tui {
		return a.planOnScreen(cmd, spec)
	}
	return a.preview(cmd, spec, func(ctx context.Context, op *kube.Operation) error {
		p, err := planOf(ctx, op)
		if err != nil {
			return err
		}
		if err := a.Display(cmd).Show(*p); err != nil {
			return err
		}
		if err := refusal(op); err != nil {
			return err
		}
		refused, changed := p.Count()
		if path := outPath(cmd); refused == 0 && path != "" {
			err = a.saveOne(ctx, cmd, spec, op, path)
		}
		return cmp.Or(err, planResult(cmd, refused, changed))
	})
}

// runOnly are flags that have no meaning for a plan and that plan refuses.
var runOnly = []string{"in-cluster", "report"}

// PlanOf returns the plan of a command line, such as "upgrade shop ./shop", without its flags in runOnly. It writes and prints
// nothing. The plan is nil if there is nothing to do. A run would be refused if the plan has Errors. logs hides its secret values.
func PlanOf(ctx context.Context, logs *command.Logs, args []string) (p *report.Plan, err error) {
	err = planQuietly(ctx, logs, args, func(_ *app, ctx context.Context, _ *cobra.Command, _ operationSpec, op *kube.Operation) error {
		p, err = planOf(ctx, op)
		return err
	})
	return p, err
}

// SavePlanOf saves the plan of a command line in a file, as plan --out does.
func SavePlanOf(ctx context.Context, logs *command.Logs, args []string, path string) error {
	return planQuietly(ctx, logs, args, func(a *app, ctx context.Context, cmd *cobra.Command, spec operationSpec, op *kube.Operation) error {
		return a.saveOne(ctx, cmd, spec, op, path)
	})
}

// planQuietly prepares the operation of a command line and calls do with it, unless there is nothing to do. It prints nothing.
func planQuietly(
	ctx context.Context, logs *command.Logs, args []string, do func(*app, context.Context, *cobra.Command, operationSpec, *kube.Operation) error,
) error {
	a := &app{command.NewApp(command.NewSignals(ctx))}
	a.Logs, a.Quiet = logs, true
	exec := executor{run: func(cmd *cobra.Command, spec operationSpec) error {
		return a.preview(cmd, spec, func(ctx context.Context, op *kube.Operation) error {
			logs.Hide(op.Mask().Text)
			return do(a, ctx, cmd, spec, op)
		})
	}}
	root := &cobra.Command{Use: "lockstep", SilenceErrors: true, SilenceUsage: true, PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
		for _, name := range runOnly {
			f := cmd.Flags().Lookup(name)
			if list, ok := f.Value.(pflag.SliceValue); ok {
				_ = list.Replace(nil) // a list without elements is valid
				continue
			}
			_ = f.Value.Set(f.DefValue) // a default is valid
		}
		return command.CheckNamespace(cmd)
	}}
	root.AddGroup(&cobra.Group{ID: "deploy"})
	a.Settings.AddFlags(root.PersistentFlags())
	root.AddCommand(a.newInstall(exec), a.newUpgrade(exec), a.newRollback(exec), a.newUninstall(exec), a.newTest(exec))
	command.ReadEnvironment(root)
	root.SetArgs(args)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root.ExecuteContext(ctx)
}

// planResult returns the result of plan.
func planResult(cmd *cobra.Command, refused, changed int) error {
	switch {
	case refused > 0:
		return fmt.Errorf("the API server would refuse %s", text.Count(refused, "change"))
	case changed > 0:
		return command.Changes(cmd)
	}
	return nil
}

// planOf returns the plan of an operation, with its changes to the cluster.
func planOf(ctx context.Context, op *kube.Operation) (*report.Plan, error) {
	changes, err := op.Changes(ctx)
	if err != nil {
		return nil, err
	}
	return &report.Plan{
		Operation: op.Info(), Changes: changes, Phases: op.Phases(),
		Warnings: op.Warnings(), Errors: op.Conflicts(),
	}, nil
}

// planOnScreen shows the plan of an operation on the screen, with the diff of the selected object.
func (a *app) planOnScreen(cmd *cobra.Command, spec operationSpec) error {
	spec.common.PlanOnly = true
	return a.withCluster(cmd, spec.sandbox, func(s *helmcli.EnvSettings) error {
		client, op, err := a.prepareOperation(cmd, spec, s)
		if err != nil || op == nil {
			return err
		}
		info := op.Info()
		o := board.Options{
			Title:     "plan " + info.Title(),
			Inspector: screen.NewInspector(screen.Changes(op, client), op.Diagnoser(), op.Mask()), Kubectl: client.KubectlFlags(),
		}
		return screen.ShowPlan(a.App, cmd, o, &info, op.Phases(), append(op.Warnings(), op.Conflicts()...))
	})
}

// planSaver returns the plans of a planned operation, or a stack of them, for a file with the given salt.
type planSaver func(ctx context.Context, salt []byte) ([]planfile.Release, error)

// saverOf returns the planSaver of an operation.
func saverOf(op *kube.Operation) planSaver {
	return func(ctx context.Context, salt []byte) ([]planfile.Release, error) {
		saved, err := op.SavePlan(ctx, salt)
		return []planfile.Release{saved}, err
	}
}

// outPath returns the file of --out, "" if it is not given.
func outPath(cmd *cobra.Command) string {
	path, _ := cmd.Flags().GetString("out") // all commands of plan have it
	return path
}

// saveOne saves the plan of a release.
func (a *app) saveOne(ctx context.Context, cmd *cobra.Command, spec operationSpec, op *kube.Operation, path string) error {
	spec.common.PlanOnly = true
	return a.savePlan(ctx, cmd, path, &planfile.File{By: op.Username(ctx), Salt: planfile.NewSalt()}, saverOf(op), func(compare func(planSaver) error) error {
		_, again, err := a.prepareOperation(cmd, spec, a.Settings)
		if err != nil || again == nil {
			return cmp.Or(err, errors.New("the plan was not saved, because the cluster changed meanwhile; plan again"))
		}
		return compare(saverOf(again))
	})
}

// savePlan saves a plan in a file. f says who saves it, and what a stack has besides its releases. again plans the same again and
// compares it: a template may render something else each time.
func (a *app) savePlan(ctx context.Context, cmd *cobra.Command, path string, f *planfile.File, first planSaver, again func(compare func(planSaver) error) error) (err error) {
	f.At = time.Now().UTC().Truncate(time.Second)
	if f.Releases, err = first(ctx, f.Salt); err != nil {
		return err
	}
	err = again(func(second planSaver) error {
		compared, err := second(ctx, f.Salt)
		if err == nil {
			err = plans.CheckStable(f, compared)
		}
		return err
	})
	if err == nil {
		err = plans.Write(path, f)
	}
	if err != nil {
		return err
	}
	d := a.Display(cmd)
	d.Warnings(plans.Clocks(f))
	runs := cmd.Name()
	switch {
	case runs == "plan" && len(cmd.Flags().Args()) == 0:
		runs = "up"
	case runs == "plan":
		runs = "upgrade --install"
	}
	d.Note(fmt.Sprintf("saved the plan in %s; to run it: lockstep %s … --plan %s, with the same arguments and flags", path, runs, command.ShellJoin([]string{path})))
	return nil
}

// planStack prints the changes of "up", release by release.
func (a *app) planStack(cmd *cobra.Command, flags *stackFlags, r runOptions) error {
	return a.previewStack(cmd, flags, r, func(stack *kube.Stack) error {
		p, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (report.StackPlan, error) {
			return stackPlanOf(ctx, stack)
		})
		if err != nil {
			return err
		}
		if err := a.Display(cmd).Show(p); err != nil {
			return err
		}
		refused, changed := p.Count()
		if path := outPath(cmd); refused == 0 && path != "" {
			err = a.saveStackPlan(cmd, flags, r, stack, path)
		}
		return cmp.Or(err, planResult(cmd, refused, changed))
	})
}

// saveStackPlan saves the plan of a stack in a file.
func (a *app) saveStackPlan(cmd *cobra.Command, flags *stackFlags, r runOptions, stack *kube.Stack, path string) error {
	_, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (struct{}, error) {
		salt := planfile.NewSalt()
		f := &planfile.File{By: stack.Username(ctx), Stack: stack.Info().Release, Salt: salt, Hooks: stack.SavedHooks(salt)}
		return struct{}{}, a.savePlan(ctx, cmd, path, f, stack.SavePlan, func(compare func(planSaver) error) error {
			return a.previewStack(cmd, flags, r, func(again *kube.Stack) error { return compare(again.SavePlan) })
		})
	})
	return err
}

// stackPlanOf returns the plan of a stack, with the changes of each release.
func stackPlanOf(ctx context.Context, stack *kube.Stack) (out report.StackPlan, err error) {
	out.Stack, out.Warnings = stack.Info().Release, stack.OwnWarnings()
	out.Hooks = stack.Steps()
	clusters := map[string]connect.ClusterID{}
	for _, rel := range stack.Releases() {
		release := report.ReleasePlan{Release: rel.ID, Needs: rel.Needs, Unchanged: rel.Unchanged || rel.Operation == nil, Absent: rel.Operation == nil, Pruned: rel.Pruned}
		clusters[rel.ID] = rel.Cluster
		if !release.Unchanged {
			if release.Plan, err = planOf(ctx, rel.Operation); err != nil {
				return out, fmt.Errorf("release %s: %w", rel.ID, err)
			}
		}
		out.Releases = append(out.Releases, release)
	}
	dropRepeated(out.Releases, stack.Phases(), clusters)
	return out, nil
}

// dropRepeated removes the creation of a namespace, or of an object in crds/, from all releases but the
// first one that creates it. order has the releases as groups, in the order in which they start; clusters
// are those of the releases.
func dropRepeated(releases []report.ReleasePlan, order []event.Phase, clusters map[string]connect.ClusterID) {
	type key struct {
		cluster connect.ClusterID
		object  plan.Object
	}
	created := map[key]bool{}
	for _, p := range order {
		for _, g := range p.Groups {
			if g.Step != nil {
				continue
			}
			r := releases[slices.IndexFunc(releases, func(r report.ReleasePlan) bool { return r.Release == g.ID })]
			if r.Plan == nil {
				continue
			}
			prelude := map[string]bool{} // phases
			for _, phase := range r.Plan.Phases {
				prelude[phase.Name] = phase.Kind == event.PhaseNamespace || phase.Kind == event.PhaseCRDs
			}
			r.Plan.Changes = slices.DeleteFunc(r.Plan.Changes, func(c inspect.Change) bool {
				k := key{clusters[r.Release], c.Object}
				repeated := prelude[c.Phase] && c.Action == inspect.Create && created[k]
				created[k] = created[k] || prelude[c.Phase]
				return repeated
			})
		}
	}
}
