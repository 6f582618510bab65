package deploy

import (
	"context"

	"github.com/spf13/cobra"

	"lockstep/kube"
	"lockstep/ui/cli/command"
)

const upgradeLong = `Upgrade a release: run pre-upgrade hooks, apply group by group in the chart's order, delete resources that are no longer
in the chart (in the reverse of their old order), and run post-upgrade hooks.

Without new values, the values of the last revision are reused. --reuse-values merges new values into them,
--reset-values ignores them, and --reset-then-reuse-values merges them into the new chart's defaults.

The screen, the checks and Ctrl-C work as in "lockstep install". With --rollback-on-failure, a failure rolls back to
the last good revision, in that revision's order.`

// upgradeFlags are the flags of upgrade.
type upgradeFlags struct {
	run        runFlags
	deploy     deployFlags
	serverSide command.Choice
	install    bool
	history    int
	cleanup    bool
	crds       bool

	reuseValues, resetValues, resetThenReuse bool
}

// addServerSide adds --server-side of upgrade and rollback.
func addServerSide(cmd *cobra.Command, c *command.Choice) {
	*c = command.Choice{Allowed: []string{"auto", "true", "false"}}
	command.AddChoice(cmd, c, "server-side", "", "use server-side apply; auto keeps the release's method")
}

func (a *app) newUpgrade(do executor) *cobra.Command {
	var flags upgradeFlags
	cmd := &cobra.Command{
		Use:     "upgrade NAME CHART",
		GroupID: "deploy",
		Short:   "upgrade a release, group by group",
		Long:    upgradeLong,
		Example: `lockstep upgrade shop ./shop -n shop --set api.replicas=3
lockstep upgrade --install shop ./shop -n shop --create-namespace
lockstep upgrade shop ./shop --rollback-on-failure
lockstep upgrade shop ./shop --dry-run`,
		Args:              command.Args(2, 2),
		ValidArgsFunction: a.CompleteRelease(command.CompleteChart(1, 1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, do, args, func() error { return a.upgrade(cmd, &flags, args[0], args[1], do) })
		},
	}
	flags.run.add(cmd)
	flags.run.addWait(cmd)
	flags.run.addReadiness(cmd)
	flags.run.addRollbackFlag(cmd, "the upgrade", "roll back to the last good revision")
	flags.deploy.add(cmd)
	addServerSide(cmd, &flags.serverSide)
	f := cmd.Flags()
	f.BoolVarP(&flags.install, "install", "i", false, "install if the release does not exist")
	f.BoolVar(&flags.reuseValues, "reuse-values", false, "merge given values into the last revision's")
	f.BoolVar(&flags.resetValues, "reset-values", false, "ignore the last revision's values")
	f.BoolVar(&flags.resetThenReuse, "reset-then-reuse-values", false, "merge the last revision's values, then the given ones, into the chart's defaults")
	f.BoolVar(&flags.crds, "upgrade-crds", false, "apply crds/ first, unless a stored version would be lost")
	f.BoolVar(&flags.cleanup, "cleanup-on-fail", false, "delete objects created by a failed upgrade")
	f.IntVar(&flags.history, "history-max", a.Settings.MaxHistory, "maximum revisions to keep; 0 keeps all")
	a.completeGroups(cmd, func(args []string) string { return args[len(args)-1] }, &flags.deploy)
	return cmd
}

func (a *app) upgrade(cmd *cobra.Command, flags *upgradeFlags, name, ref string, do executor) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	dry, err := dryRunMode(flags.deploy.dryRun)
	if err != nil {
		return err
	}
	if flags.run.cluster.enabled || do.manifests {
		return a.deployInCluster(cmd, &flags.run, &flags.deploy, r, name, ref, do)
	}
	prepare := func(ctx context.Context, c *kube.Client, common kube.Common, rendering kube.Rendering) (*kube.Operation, error) {
		return c.PrepareUpgrade(ctx, kube.Upgrade{
			Common: common, Rendering: rendering,
			Install: flags.install, CreateNamespace: flags.deploy.createNamespace, ServerSide: flags.serverSide.Value,
			ReuseValues: flags.reuseValues, ResetValues: flags.resetValues, ResetThenReuseValues: flags.resetThenReuse,
			UpgradeCRDs: flags.crds, CleanupOnFail: flags.cleanup, HistoryMax: flags.history,
		})
	}
	// An upgrade needs the release from the cluster, even for --dry-run=client.
	return a.deploy(cmd, &flags.deploy, r, name, ref, dry, prepare, do)
}
