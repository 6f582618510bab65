package deploy

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
)

const planLong = `Show what an operation would create, change and delete, in order, and which hooks would run. Nothing is written.
"plan NAME CHART" plans an upgrade --install.

Every object is sent to the API server as a dry run. New objects are checked individually, because they may need objects
from earlier groups. Values of Secrets are hidden; plan only names the keys that change.

-o json prints one object: operation (as in "lockstep help events"), changes (phase, group, object, action, diff,
message), warnings and errors; action is create, change, unchanged, delete, absent, keep, hook or refuse.

Like every operation, plan first checks the cluster: permissions, API versions, objects owned by others, references to
objects that neither the chart nor the cluster has, quotas, limits, the namespace's PodSecurity level, and webhooks
without a ready backend. Problems that may resolve themselves are warnings; others are errors, and the operation would
be refused. --skip-preflight skips these checks.

With --tui, plan opens the screen, which compares an object when you select it.

Exit codes: 0 no changes, 2 an error or a change that the API server would refuse, 4 changes. Hooks do not count as
changes because they run with every operation.`

// newPlan makes the plan command. Its subcommands are the operations with their flags;
// they show what the operation would do instead of running it.
func (a *app) newPlan() *cobra.Command {
	show := execute{job: a.plan}
	cmd := a.newUpgrade(show)
	a.addStack(cmd, a.planStack)
	cmd.Use, cmd.GroupID, cmd.Short, cmd.Long = "plan NAME CHART", "release", "show what an operation would do", planLong
	cmd.Example = `lockstep plan shop ./shop -n shop
lockstep plan uninstall shop
lockstep plan shop ./shop -o json | jq '.changes[] | select(.action != "unchanged")'`
	_ = cmd.Flags().Set("install", "true") // defined by newUpgrade
	subs := []*cobra.Command{a.newInstall(show), a.newUpgrade(show), a.newRollback(show), a.newUninstall(show)}
	for _, sub := range subs {
		sub.GroupID, sub.Long, sub.Example = "", planLong, ""
		sub.Short = "show what " + sub.Name() + " would do"
	}
	for _, c := range append(subs, cmd) {
		hideRunFlags(c)
		c.Flags().Bool("tui", false, "open the screen")
		c.MarkFlagsMutuallyExclusive("tui", "output")
	}
	cmd.Flags().Lookup("install").Hidden = true
	cmd.AddCommand(subs...)
	return cmd
}

// hideRunFlags hides the flags that only affect a run.
func hideRunFlags(cmd *cobra.Command) {
	for _, name := range []string{"step", "break-on", "hold-on-failure", "no-tui", "report", "rollback-on-failure", "dry-run", "hide-secret", "show-secrets", "hide-notes"} {
		if f := cmd.Flags().Lookup(name); f != nil {
			f.Hidden = true
		}
	}
}

// plan shows what a job would do. Its error tells whether there are changes.
func (a *app) plan(cmd *cobra.Command, j job) error {
	if tui, err := cmd.Flags().GetBool("tui"); err == nil && tui {
		return a.planOnScreen(cmd, j)
	}
	return a.preview(cmd, j, func(ctx context.Context, op *kube.Operation) error {
		found, err := op.Changes(ctx)
		if err != nil {
			return err
		}
		p := report.Plan{Operation: op.Info(), Changes: reportChanges(found), Warnings: op.Warnings(), Errors: op.Refused(), Phases: op.Phases()}
		changes, refused := 0, 0
		for _, c := range found {
			switch {
			case c.Real():
				changes++
			case c.Action == kube.ActionRefuse:
				refused++
			}
		}
		if err := a.Display(cmd, j.mode.Report()).Show(p); err != nil {
			return err
		}
		switch {
		case len(p.Errors) > 0:
			return &kube.Refusal{Operation: p.Operation.Name, Because: p.Errors}
		case refused > 0:
			return fmt.Errorf("the API server would refuse %s", report.Count(refused, "change"))
		case changes > 0:
			return command.Exit(command.ExitChanges, nil)
		}
		return nil
	})
}

// reportChanges are changes as package report shows them.
func reportChanges(changes []kube.Change) (told []report.Change) {
	for _, c := range changes {
		told = append(told, report.Change{Phase: c.Phase, Group: c.Group, Object: c.Object, Action: string(c.Action), Diff: c.Diff, Message: c.Message})
	}
	return told
}

// planOnScreen shows on the screen what a job would do, with the diff of the selected object.
func (a *app) planOnScreen(cmd *cobra.Command, j job) error {
	return a.inSandbox(cmd, j, func(s *helmcli.EnvSettings) error {
		client, op, err := a.prepared(cmd, j, s, true)
		if err != nil || op == nil {
			return err
		}
		title := fmt.Sprintf("plan %s %s", op.Info().Name, op.Info().Release)
		return screen.ShowPlan(a.App, cmd, board.Options{Title: title, Inspector: screen.NewInspector(screen.Changes(op), client.Diagnoser(), op.Mask()), Kubectl: client.KubectlFlags()}, op.Phases(), append(op.Warnings(), op.Refused()...))
	})
}

// planStack shows what "up" would do to each release of a helmfile. Its error tells whether
// there are changes.
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
	return a.inSandbox(cmd, job{running: r}, func(s *helmcli.EnvSettings) error {
		stack, _, err := a.prepareStack(cmd, flags, file, r, s, false)
		if err != nil {
			return err
		}
		defer stack.Close()
		found, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (report.StackPlan, error) { return changesOf(ctx, stack) })
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

// changesOf compares the releases of a stack with the cluster.
func changesOf(ctx context.Context, stack *kube.Stack) (out report.StackPlan, err error) {
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

// addStack makes a command of a release take a helmfile without arguments: that of -f, or
// of the working directory.
func (a *app) addStack(cmd *cobra.Command, do func(*cobra.Command, *stackFlags) error) {
	flags := stackFlags{run: runFlags{waitFlags: waitFlags{timeout: defaultTimeout, waitAll: true}}}
	flags.run.output = command.TextOrJSON()
	flags.AddChoice(cmd)
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
