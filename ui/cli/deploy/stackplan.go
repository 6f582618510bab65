package deploy

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

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

// addStackPlan makes plan without arguments show a helmfile: that of -f, or of the working
// directory.
func (a *app) addStackPlan(cmd *cobra.Command) {
	flags := stackFlags{run: runFlags{waitFlags: waitFlags{timeout: defaultTimeout, waitAll: true}}}
	flags.run.output = command.TextOrJSON()
	flags.AddChoice(cmd)
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
		return a.planStack(cmd, &flags)
	}
}
