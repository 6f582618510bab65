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

const rbacLong = `Print a ServiceAccount with the roles and bindings that exactly this release needs, as YAML for kubectl apply. With
them, lockstep can install, upgrade, roll back, test and uninstall the release. Nothing is written.

Objects are granted by name. Server-side apply makes that possible even for create; with --server-side=false, create
has no names. Release records have none either: with HELM_DRIVER=secret the account can read all Secrets of the
release's namespace, as with Helm. There is one Role per namespace, and a ClusterRole for cluster-scoped kinds.

If the chart has Roles, the account also gets the rights that they grant, and "bind" for the roles of others that the
chart's bindings name, because the API server lets nobody grant more than they have. The roles named *:optional only
help to watch, check and explain; each rule says what lockstep does without it.

Run it again after a change of the chart or its values. A release that exists keeps the rights on the objects that
are deployed. Without a chart, it reads a helmfile, and one account gets the rights for all its releases.`

// newRBAC makes the rbac command, which plans an upgrade --install.
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
	r.common.SkipPreflight = true // it is another account that has to pass the checks
	prepare := func(ctx context.Context, c *kube.Client, common kube.Common, what kube.Rendering) (*kube.Operation, error) {
		return c.PrepareUpgrade(ctx, kube.Upgrade{
			Common: common, Rendering: what, Install: true, CreateNamespace: true, ServerSide: strconv.FormatBool(flags.serverSide),
		})
	}
	return a.deploy(cmd, &flags.deploy, r, name, ref, "none", prepare, execute{job: func(cmd *cobra.Command, j job) error {
		return a.preview(cmd, j, func(_ context.Context, op *kube.Operation) error {
			return a.writeRoles(cmd, flags.run.cluster, op.Info().Namespace, op.Info().Release, op)
		})
	}})
}

// rbacStack prints the roles of all releases of a helmfile, for each context.
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
	return a.inSandbox(cmd, job{running: r}, func(s *helmcli.EnvSettings) error {
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
			at := rel.Operation.Info().Context
			if ops[at] == nil {
				contexts = append(contexts, at)
			}
			ops[at] = append(ops[at], rel.Operation)
		}
		for _, at := range contexts {
			if len(contexts) > 1 {
				a.Display(cmd, report.ModeText).Print(fmt.Sprintf("---\n# For the cluster of context %s.\n", at))
			}
			if err := a.writeRoles(cmd, flags.run.cluster, s.Namespace(), stack.Info().Release, ops[at]...); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeRoles prints the roles for releases, and what their plans warn about.
func (a *app) writeRoles(cmd *cobra.Command, c clusterFlags, namespace, name string, ops ...*kube.Operation) error {
	for _, op := range ops {
		a.Display(cmd, report.ModeText).Warnings(op.Warnings())
	}
	return kube.WriteRoles(cmd.OutOrStdout(), kube.Roles{Account: c.account, Namespace: namespace, Name: name, InCluster: c.on}, ops...)
}
