package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/connect"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

const rbacLong = `Print a ServiceAccount with exactly the roles and bindings that this release needs, as YAML for kubectl apply. With
them, lockstep can install, upgrade, roll back, test and uninstall the release. Nothing is written.

Permissions for objects are limited to their names. With server-side apply that includes create; with
--server-side=false, create applies to all names. Permissions for release records are not limited to names either: with
HELM_DRIVER=secret the account can read all Secrets of the release's namespace, as with Helm. There is one Role per
namespace, and a ClusterRole for cluster-scoped kinds.

If the chart contains Roles, the account also gets the permissions that they grant, and "bind" for existing roles in the
chart's bindings, because the API server lets nobody grant permissions that they lack. It may also read what the
templates look up when rbac renders them. The roles named *:optional only help to watch, check and explain; a comment on
each rule says what lockstep does without it.

Run rbac again after you change the chart or its values. If the release exists, the account keeps the permissions for
its deployed objects. Without a chart, rbac reads a helmfile and gives one account the permissions for all its releases.`

// newRBAC returns the rbac command, which plans an upgrade --install.
func (a *app) newRBAC() *cobra.Command {
	var flags installFlags
	cmd := &cobra.Command{
		Use: "rbac {NAME CHART | -f HELMFILE}", GroupID: "release", Short: "print the ServiceAccount and roles that a release needs", Long: rbacLong,
		Example: `lockstep rbac shop ./shop -n shop | kubectl apply -f -
lockstep rbac shop ./shop -n shop --service-account deployer -f prod.yaml
lockstep rbac shop ./shop -n shop --in-cluster   # for install --in-cluster
lockstep rbac shop ./shop -n shop --approval-in-cluster   # for install --approval-in-cluster
lockstep rbac shop ./shop --sandbox              # without a cluster
lockstep rbac -f helmfile.yaml`,
		Args: command.Args(2, 2), ValidArgsFunction: a.CompleteRelease(input.CompleteChart(1, 1)),
		RunE: func(cmd *cobra.Command, args []string) error { return a.rbac(cmd, &flags, args[0], args[1]) },
	}
	flags.run.add(cmd)
	flags.run.addSandbox(cmd)
	flags.run.addCheckImages(cmd)
	cmd.Flags().Lookup("check-images").Usage = "also print the permission to list the nodes, whose architectures the images must have"
	flags.deploy.add(cmd, dryRunUsage)
	f := cmd.Flags()
	f.BoolVar(&flags.serverSide, "server-side", true, "use server-side apply")
	flags.run.cluster.account = "lockstep"
	f.Lookup("service-account").Usage, f.Lookup("service-account").DefValue = "name of the ServiceAccount", "lockstep"
	f.Lookup("in-cluster").Usage = "also print the permissions for --in-cluster"
	f.Lookup("approval-in-cluster").Usage = "also print the permissions for --approval-in-cluster"
	a.addStack(cmd, &flags.run, &flags.deploy.ChartInput, a.rbacStack)
	hideFlags(cmd, forRuns...)
	hideFlags(cmd, "output", "skip-preflight", "create-namespace", "on-hangup", "description", "labels", "render-subchart-notes", "image", "keep-for")
	f.Lookup("approval-in-cluster").Hidden = false
	return cmd
}

func (a *app) rbac(cmd *cobra.Command, flags *installFlags, name, ref string) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	flags.deploy.dryRun = command.DryRunNone
	r.common.SkipPreflight = true // the new account must pass the checks, not this user
	o := &flags.deploy.options
	o.Install, o.CreateNamespace, o.ServerSide = true, true, strconv.FormatBool(flags.serverSide)
	err = a.deploy(cmd, &flags.deploy, r, name, ref, (*kube.Client).PrepareUpgrade, executor{run: func(cmd *cobra.Command, spec operationSpec) error {
		return a.preview(cmd, spec, func(_ context.Context, op *kube.Operation) error {
			return a.writeRoles(cmd, &flags.run, op.Info().Namespace, op.Info().Release, nil, op)
		})
	}})
	return suggestSandbox(err)
}

// suggestSandbox adds to a refusal how to print the roles without reading the release.
func suggestSandbox(err error) error {
	if _, ok := errors.AsType[*kube.Refusal](err); ok {
		return fmt.Errorf("%w, or run rbac with --sandbox", err)
	}
	return err
}

// rbacStack prints the roles for all releases of a helmfile, by cluster: two contexts of one cluster would replace each
// other's roles.
func (a *app) rbacStack(cmd *cobra.Command, flags *stackFlags, r runOptions) error {
	r.common.SkipPreflight = true
	return suggestSandbox(a.previewStack(cmd, flags, r, func(stack *kube.Stack) error {
		ops, contexts := map[connect.ClusterID][]*kube.Operation{}, map[string]connect.ClusterID{}
		for _, rel := range stack.Releases() {
			if rel.Operation != nil {
				if ops[rel.Cluster] == nil {
					contexts[rel.Operation.Info().Context] = rel.Cluster
				}
				ops[rel.Cluster] = append(ops[rel.Cluster], rel.Operation)
			}
		}
		for _, kubeContext := range slices.Sorted(maps.Keys(contexts)) {
			if len(ops) > 1 {
				a.DisplayAs(cmd, report.ModeText).Print(fmt.Sprintf("---\n# For the cluster in context %s.\n", kubeContext))
			}
			if err := a.writeRoles(cmd, flags.run, a.Settings.Namespace(), stack.Info().Release, stack.StepPermissions(contexts[kubeContext]), ops[contexts[kubeContext]]...); err != nil {
				return err
			}
		}
		return nil
	}))
}

// writeRoles prints the roles for releases and with more permissions, and the warnings of their plans.
func (a *app) writeRoles(cmd *cobra.Command, r *runFlags, namespace, name string, more kube.Permissions, ops ...*kube.Operation) error {
	for _, op := range ops {
		a.Display(cmd).Warnings(op.Warnings())
	}
	return kube.WriteRoles(cmd.OutOrStdout(), kube.Roles{
		Account: r.cluster.account, Namespace: namespace, Name: name, InCluster: r.cluster.enabled, Approvals: r.provenApprovals, More: more,
	}, ops...)
}

// rbacCommandInPod returns the command that prints the permissions for a run in the cluster, in its pod: there, the chart or the
// helmfile has another name.
func rbacCommandInPod(cmd *cobra.Command) string {
	if args := cmd.Flags().Args(); len(args) > 0 {
		namespace, _ := cmd.Flags().GetString("namespace")
		return text.Program + " rbac " + command.ShellJoin([]string{args[0], "CHART", "-n", namespace}) + " --in-cluster"
	}
	return text.Program + " rbac -f HELMFILE --in-cluster"
}

// suggestRoles adds to a refusal of --approval-in-cluster how to print the missing permissions.
func suggestRoles(cmd *cobra.Command, namespace string, err error) error {
	if _, ok := errors.AsType[*kube.Refusal](err); ok {
		return fmt.Errorf("%w; to print all permissions that the run needs: %s", err, rbacCommand(cmd, namespace, "--approval-in-cluster"))
	}
	return err
}

// rbacCommand returns the command that prints the permissions for the same chart or helmfile, with -n for the namespace.
// For a helmfile, -n also moves its releases, so it is added only if the user has set it.
// flag is that of the run, such as --in-cluster.
func rbacCommand(cmd *cobra.Command, namespace, flag string) string {
	args := cmd.Flags().Args()
	namespaced := len(args) > 0
	switch deploys := cmd.Name() == "install" || cmd.Name() == "upgrade"; {
	case len(args) == 0:
		file, _ := cmd.Flags().GetString("file") // "" if the command has no --file
		args, namespaced = []string{"-f", cmp.Or(file, "HELMFILE")}, cmd.Flags().Changed("namespace")
	case deploys && len(args) == 1: // install --generate-name
		args = []string{"NAME", args[0]}
	case !deploys: // only rbac needs the chart
		args = []string{args[0], "CHART"}
	}
	if namespaced {
		args = append(args, "-n", namespace)
	}
	return text.Program + " rbac " + command.ShellJoin(args) + " " + flag
}
