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

const planLong = `Says what an operation would do, in order, and writes nothing: what would be created, what would be changed and how,
what would stay, what would be deleted, and which hooks would run. "plan NAME CHART" is about upgrade --install.

Changes are found out by the API server, which is asked to apply everything as a dry run. Of what is not there yet
only its own fields are checked, since it may need what comes before it. Values of Secrets are not shown, only which of
them change.

With -o json that is one object: operation (as in "lockstep help events"), changes (phase, group, object, action, diff,
message), warnings, and errors; action is create, change, unchanged, delete, absent, keep, hook or refuse.

What the cluster lacks is looked up first, as in every operation: rights, kinds and versions of APIs, objects of others,
references to what is neither in the chart nor in the cluster, quotas, limits, the PodSecurity level of the namespace,
webhooks that nobody answers. What may still come is a warning; what cannot is an error, and the operation would be
refused. --skip-preflight leaves out what is only looked up for that.

With --tui it is looked at on the screen, where each object is compared once it is selected.

Exit codes: 0 nothing to do, 2 an error, or the API server would refuse a change, 4 there are changes. Hooks alone
are none: they run with every operation.`

// newPlan makes the plan command. Its subcommands are those that it is about,
// with their flags; they say what the operation would do in place of it.
func (a *app) newPlan() *cobra.Command {
	show := execute{job: a.plan}
	cmd := a.newUpgrade(show)
	cmd.Use, cmd.GroupID, cmd.Short, cmd.Long = "plan NAME CHART", "release", "say what an operation would do", planLong
	cmd.Example = `lockstep plan shop ./shop -n shop
lockstep plan upgrade shop ./shop --reuse-values --set api.replicas=3
lockstep plan uninstall shop
lockstep plan shop ./shop --tui
lockstep plan shop ./shop -o json | jq '.changes[] | select(.action != "unchanged")'`
	_ = cmd.Flags().Set("install", "true") // it is there
	subs := []*cobra.Command{a.newInstall(show), a.newUpgrade(show), a.newRollback(show), a.newUninstall(show)}
	for _, sub := range subs {
		sub.GroupID, sub.Long, sub.Example = "", planLong, ""
		sub.Short = "say what " + sub.Name() + " would do"
	}
	for _, c := range append(subs, cmd) {
		hideRunFlags(c)
		c.Flags().Bool("tui", false, "look at it on the screen")
		c.MarkFlagsMutuallyExclusive("tui", "output")
	}
	cmd.Flags().Lookup("install").Hidden = true
	cmd.AddCommand(subs...)
	return cmd
}

// hideRunFlags hides the flags that are about a run.
func hideRunFlags(cmd *cobra.Command) {
	for _, name := range []string{"step", "break-on", "hold-on-failure", "no-tui", "report", "rollback-on-failure", "dry-run", "hide-secret", "show-secrets", "hide-notes"} {
		if f := cmd.Flags().Lookup(name); f != nil {
			f.Hidden = true
		}
	}
}

// plan says what a job would do. The error says whether there are changes.
func (a *app) plan(cmd *cobra.Command, j job) error {
	if tui, err := cmd.Flags().GetBool("tui"); err == nil && tui {
		return a.planOnScreen(cmd, j)
	}
	return a.preview(cmd, j, func(ctx context.Context, op *kube.Operation) error {
		found, err := op.Changes(ctx)
		if err != nil {
			return err
		}
		p := report.Plan{Operation: op.Info(), Changes: reportChanges(found), Warnings: op.Warnings(), Errors: op.Refused()}
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

// reportChanges are changes as they are told.
func reportChanges(changes []kube.Change) (told []report.Change) {
	for _, c := range changes {
		told = append(told, report.Change{Phase: c.Phase, Group: c.Group, Object: c.Object, Action: string(c.Action), Diff: c.Diff, Message: c.Message})
	}
	return told
}

// planOnScreen shows on the screen what a job would do, with the differences of what
// is looked at.
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
