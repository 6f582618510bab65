package deploy

import (
	"context"
	"fmt"
	"strconv"

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

// newPlan returns the plan command. Its subcommands are the operations with the same flags.
func (a *app) newPlan() *cobra.Command {
	show := executor{run: a.plan}
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

// plan prints the changes of a job. The exit code says whether there are any.
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
			return &kube.Refusal{Operation: p.Operation.Name, Conflicts: p.Errors}
		case refused > 0:
			return fmt.Errorf("the API server would refuse %s", report.Count(refused, "change"))
		case changes > 0:
			return command.Exit(command.ExitChanges, nil)
		}
		return nil
	})
}

// reportChanges converts changes for package report.
func reportChanges(changes []kube.Change) (out []report.Change) {
	for _, c := range changes {
		out = append(out, report.Change{Phase: c.Phase, Group: c.Group, Object: c.Object, Action: string(c.Action), Diff: c.Diff, Message: c.Message})
	}
	return out
}

// planOnScreen shows the plan of a job on the screen, with the diff of the selected object.
func (a *app) planOnScreen(cmd *cobra.Command, j job) error {
	return a.inSandbox(cmd, j, func(s *helmcli.EnvSettings) error {
		client, op, err := a.prepareOperation(cmd, j, s, true)
		if err != nil || op == nil {
			return err
		}
		title := fmt.Sprintf("plan %s %s", op.Info().Name, op.Info().Release)
		return screen.ShowPlan(a.App, cmd, board.Options{Title: title, Inspector: screen.NewInspector(screen.Changes(op), client.Diagnoser(), op.Mask()), Kubectl: client.KubectlFlags()}, op.Phases(), append(op.Warnings(), op.Refused()...))
	})
}

const rbacLong = `Print a ServiceAccount with the roles and bindings that exactly this release needs, as YAML for kubectl apply. With
them, lockstep can install, upgrade, roll back, test and uninstall the release. Nothing is written.

Permissions for objects are limited to their names. With server-side apply that includes create; with
--server-side=false, create applies to all names. So do permissions for release records: with HELM_DRIVER=secret the
account can read all Secrets of the release's namespace, as with Helm. There is one Role per namespace, and a
ClusterRole for cluster-scoped kinds.

If the chart contains Roles, the account also gets the permissions that they grant, and "bind" for existing roles in the
chart's bindings, because the API server lets nobody grant permissions that they lack. The roles named *:optional only
help to watch, check and explain; a comment on each rule says what lockstep does without it.

Run rbac again after you change the chart or its values. If the release exists, the account keeps the permissions for
its deployed objects. Without a chart, rbac reads a helmfile and gives one account the permissions for all its releases.`

// newRBAC returns the rbac command, which plans an upgrade --install.
func (a *app) newRBAC() *cobra.Command {
	var flags installFlags
	cmd := &cobra.Command{
		Use: "rbac NAME CHART", GroupID: "release", Short: "print the ServiceAccount and roles that a release needs", Long: rbacLong,
		Example: `lockstep rbac shop ./shop -n shop | kubectl apply -f -
lockstep rbac shop ./shop -n shop --service-account deployer -f prod.yaml
lockstep rbac shop ./shop -n shop --in-cluster   # for install --in-cluster
lockstep rbac shop ./shop --sandbox              # without a cluster
lockstep rbac -f helmfile.yaml`,
		Args:              command.Args(2, 2),
		ValidArgsFunction: a.CompleteRelease(command.CompleteChart(1, 1)),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.rbac(cmd, &flags, args[0], args[1]) },
	}
	flags.run.add(cmd)
	flags.run.addSandbox(cmd)
	flags.deploy.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.serverSide, "server-side", true, "use server-side apply")
	flags.run.cluster.account = "lockstep"
	f.Lookup("service-account").Usage, f.Lookup("service-account").DefValue = "name of the ServiceAccount", "lockstep"
	f.Lookup("in-cluster").Usage = "also print what a run with --in-cluster needs"
	a.addStack(cmd, func(cmd *cobra.Command, stack *stackFlags) error {
		stack.run.sandbox, stack.run.cluster.account = flags.run.sandbox, flags.run.cluster.account
		return a.rbacStack(cmd, stack)
	})
	hideRunFlags(cmd)
	for _, name := range []string{"output", "skip-preflight", "create-namespace", "on-hangup", "description", "labels", "render-subchart-notes", "image", "keep-for"} {
		f.Lookup(name).Hidden = true
	}
	return cmd
}

func (a *app) rbac(cmd *cobra.Command, flags *installFlags, name, ref string) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	r.common.SkipPreflight = true // the new account must pass the checks, not this user
	prepare := func(ctx context.Context, c *kube.Client, common kube.Common, rendering kube.Rendering) (*kube.Operation, error) {
		return c.PrepareUpgrade(ctx, kube.Upgrade{
			Common: common, Rendering: rendering, Install: true, CreateNamespace: true, ServerSide: strconv.FormatBool(flags.serverSide),
		})
	}
	return a.deploy(cmd, &flags.deploy, r, name, ref, "none", prepare, executor{run: func(cmd *cobra.Command, j job) error {
		return a.preview(cmd, j, func(_ context.Context, op *kube.Operation) error {
			return a.writeRoles(cmd, flags.run.cluster, op.Info().Namespace, op.Info().Release, op)
		})
	}})
}

// rbacStack prints the roles for all releases of a helmfile, by context.
func (a *app) rbacStack(cmd *cobra.Command, flags *stackFlags) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	r.common.PlanOnly, r.common.SkipPreflight = true, true
	return a.inSandbox(cmd, job{runOptions: r}, func(s *helmcli.EnvSettings) error {
		stack, _, err := a.prepareStack(cmd, flags, file, r, s, false)
		if err != nil {
			return err
		}
		defer stack.Close()
		var contexts []string
		ops := map[string][]*kube.Operation{}
		for _, rel := range stack.Releases() {
			if rel.Operation == nil {
				continue
			}
			context := rel.Operation.Info().Context
			if ops[context] == nil {
				contexts = append(contexts, context)
			}
			ops[context] = append(ops[context], rel.Operation)
		}
		for _, context := range contexts {
			if len(contexts) > 1 {
				a.Display(cmd, report.ModeText).Print(fmt.Sprintf("---\n# For the cluster in context %s.\n", context))
			}
			if err := a.writeRoles(cmd, flags.run.cluster, s.Namespace(), stack.Info().Release, ops[context]...); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeRoles prints the roles for releases, and the warnings of their plans.
func (a *app) writeRoles(cmd *cobra.Command, c clusterFlags, namespace, name string, ops ...*kube.Operation) error {
	for _, op := range ops {
		a.Display(cmd, report.ModeText).Warnings(op.Warnings())
	}
	return kube.WriteRoles(cmd.OutOrStdout(), kube.Roles{Account: c.account, Namespace: namespace, Name: name, InCluster: c.enabled}, ops...)
}
