package deploy

import (
	"github.com/spf13/cobra"

	"lockstep/kube"
	"lockstep/kube/incluster"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
)

const upgradeLong = `Upgrade a release, group by group: a group starts as soon as every group it waits for is ready.

The order is: pre-upgrade hooks, groups of objects, the deletion of objects that are no longer in the chart (in the
reverse of their old order), post-upgrade hooks.

Without new values, the values of the last revision are reused. --reuse-values merges new values into them,
--reset-values ignores them, and --reset-then-reuse-values merges them into the new chart's defaults.
--values-from-revision 3 takes those of revision 3 instead, as if they were in a first values file.

The screen, the checks and Ctrl-C work as in "lockstep install". With --rollback-on-failure, a failure rolls back to
the last good revision, in that revision's order.`

type upgradeFlags struct {
	run    runFlags
	deploy deployFlags
}

func addServerSide(cmd *cobra.Command, value *string) {
	command.AddChoice(cmd, value, "server-side", "", "use server-side apply; auto keeps the release's method: auto, true, false", "auto", "true", "false")
}

func (a *app) newUpgrade(exec executor) *cobra.Command {
	cmd, _ := a.newUpgradeWithFlags(exec)
	return cmd
}

func (a *app) newUpgradeWithFlags(exec executor) (*cobra.Command, *upgradeFlags) {
	flags := &upgradeFlags{}
	cmd := &cobra.Command{
		Use: "upgrade NAME CHART", GroupID: "deploy", Short: "upgrade a release, group by group", Long: upgradeLong,
		Example: `lockstep upgrade shop ./shop -n shop --set api.replicas=3
lockstep upgrade --install shop ./shop -n shop --create-namespace
lockstep upgrade shop ./shop --dry-run
lockstep upgrade shop ./shop --rollback-on-failure`,
		Args: command.Args(2, 2), ValidArgsFunction: a.CompleteRelease(input.CompleteChart(1, 1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, exec, args, func(r runOptions) error { return a.upgrade(cmd, flags, r, args[0], args[1], exec) })
		},
	}
	flags.run.add(cmd)
	flags.run.addWait(cmd)
	flags.run.addChart(cmd, exec)
	flags.run.addReplace(cmd)
	flags.run.addDeleteCRDs(cmd)
	flags.run.addWaitFor(cmd)
	flags.run.addRollback(cmd, "the upgrade", "roll back to the last good revision")
	flags.deploy.add(cmd, dryRunUsage)
	o := &flags.deploy.options
	addServerSide(cmd, &o.ServerSide)
	f := cmd.Flags()
	f.BoolVarP(&o.Install, "install", "i", false, "install if the release does not exist")
	f.BoolVar(&o.ReuseValues, "reuse-values", false, "merge given values into the last revision's")
	f.BoolVar(&o.ResetValues, "reset-values", false, "ignore the last revision's values")
	f.BoolVar(&o.ResetThenReuseValues, "reset-then-reuse-values", false, "merge the last revision's values, then the given ones, into the chart's defaults")
	f.IntVar(&flags.deploy.Base.Revision, input.BaseFlag, 0, "start from the values of this revision; given values override them")
	f.BoolVar(&o.CleanupOnFail, "cleanup-on-fail", false, "delete objects created by a failed upgrade")
	f.IntVar(&o.HistoryMax, "history-max", a.Settings.MaxHistory, "maximum revisions to keep; 0 keeps all")
	a.completeGroups(cmd, func(args []string) string { return args[len(args)-1] }, &flags.deploy)
	cmd.MarkFlagsMutuallyExclusive(input.BaseFlag, "reset-values")
	return cmd, flags
}

func (a *app) upgrade(cmd *cobra.Command, flags *upgradeFlags, r runOptions, name, ref string, exec executor) error {
	flags.deploy.Base.Release = name
	if o := &flags.deploy.options; flags.deploy.Base.Revision > 0 { // the revision may have no values
		o.ResetValues = !o.ReuseValues && !o.ResetThenReuseValues
	}
	if flags.run.cluster.enabled || exec.printManifests {
		return a.deployInCluster(cmd, flags.run.cluster, &flags.deploy, r, name, ref, exec)
	}
	// An upgrade needs the release from the cluster, even for --dry-run=client.
	return a.deploy(cmd, &flags.deploy, r, name, ref, (*kube.Client).PrepareUpgrade, exec)
}

const manifestsLong = `Print a Job that runs "upgrade --install" in the cluster, with its Secrets and Lease, as YAML for kubectl, Argo CD or
Flux. The Secrets contain the chart and all values in plain text: encrypt them before you commit them to Git. The Job is
not deleted automatically. Its name depends on the chart, the values and the flags: if you change any of them, the Job
gets a new name.

The namespace and the ServiceAccount must exist; "lockstep rbac" prints the account with its permissions. --approvals
prints the policy of "lockstep help approvals" instead of a Job. Nothing is written, and no cluster is needed.`

// newManifests returns the manifests command, which has the flags of upgrade.
func (a *app) newManifests() *cobra.Command {
	cmd := a.newUpgrade(executor{printManifests: true})
	cmd.Use, cmd.GroupID, cmd.Short, cmd.Long = "manifests NAME CHART", "release", "print the Job that would deploy a release in the cluster", manifestsLong
	cmd.Example = `lockstep manifests shop ./shop -n shop --service-account lockstep > job.yaml
lockstep manifests shop ./shop -n shop --service-account lockstep -f prod.yaml | kubectl apply -f -`
	_ = cmd.Flags().Set("install", "true") // defined by newUpgrade
	hideFlags(cmd, "install", "in-cluster", "output", "no-tui", "report", "notify-key-file", "dry-run", "on-hangup", "keep-for", "hide-secret", "show-secrets",
		"post-renderer", "post-renderer-args")
	cmd.Flags().Lookup("step").Usage = "start paused, before the first write; resume with lockstep attach or ctl"
	policy := cmd.Flags().Bool("approvals", false, "print the policy by which the API server protects approvals, with the role of those who may approve, instead of a Job")
	printJob, args := cmd.RunE, cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if *policy {
			return cobra.NoArgs(cmd, given)
		}
		return args(cmd, given)
	}
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if *policy {
			_, err := cmd.OutOrStdout().Write([]byte(incluster.ApprovalPolicy))
			return err
		}
		return printJob(cmd, given)
	}
	return cmd
}
