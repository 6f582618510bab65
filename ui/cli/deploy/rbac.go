package deploy

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

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
	account := ""
	cmd := &cobra.Command{
		Use: "rbac NAME CHART", GroupID: "release", Short: "print the ServiceAccount and roles that a release needs", Long: rbacLong,
		Example: `lockstep rbac shop ./shop -n shop | kubectl apply -f -
lockstep rbac shop ./shop -n shop --service-account deployer -f prod.yaml
lockstep rbac shop ./shop --sandbox   # without a cluster
lockstep rbac -f helmfile.yaml`,
		Args:              command.Args(2, 2),
		ValidArgsFunction: a.CompleteRelease(command.CompleteChart(1, 1)),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.rbac(cmd, &flags, account, args[0], args[1]) },
	}
	flags.run.add(cmd)
	flags.run.addSandbox(cmd)
	flags.deploy.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.serverSide, "server-side", true, "use server-side apply")
	f.StringVar(&account, "service-account", "lockstep", "name of the ServiceAccount")
	a.addStack(cmd, func(cmd *cobra.Command, stack *stackFlags) error {
		stack.run.sandbox = flags.run.sandbox
		return a.rbacStack(cmd, stack, account)
	})
	hideRunFlags(cmd)
	for _, name := range []string{"output", "skip-preflight", "create-namespace", "on-hangup", "description", "labels", "render-subchart-notes"} {
		f.Lookup(name).Hidden = true
	}
	return cmd
}

func (a *app) rbac(cmd *cobra.Command, flags *installFlags, account, name, ref string) error {
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
			return a.writeRoles(cmd, account, op.Info().Namespace, op.Info().Release, op)
		})
	}})
}

// rbacStack prints the roles of all releases of a helmfile, for each context.
func (a *app) rbacStack(cmd *cobra.Command, flags *stackFlags, account string) error {
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
			if rel.Operation == nil || rel.Remove {
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
				fmt.Fprintf(cmd.OutOrStdout(), "---\n# For the cluster of context %s.\n", at)
			}
			if err := a.writeRoles(cmd, account, s.Namespace(), stack.Info().Release, ops[at]...); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeRoles prints the roles for releases, and what their plans warn about.
func (a *app) writeRoles(cmd *cobra.Command, account, namespace, name string, ops ...*kube.Operation) error {
	for _, op := range ops {
		a.Display(cmd, report.ModeText).Warnings(op.Warnings())
	}
	return kube.WriteRoles(cmd.OutOrStdout(), kube.Roles{Account: account, Namespace: namespace, Name: name}, ops...)
}
