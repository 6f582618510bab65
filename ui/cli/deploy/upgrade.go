package deploy

import (
	"context"

	"github.com/spf13/cobra"

	"lockstep/kube"
	"lockstep/ui/cli/command"
)

const upgradeLong = `Upgrades a release to a chart: pre-upgrade hooks, then group by group as the chart asks, then what is gone from the
chart is removed in reverse of the old order, then post-upgrade hooks.

Values of the last release are kept unless new ones are given; --reuse-values adds new ones to them, --reset-values
starts from the chart's, --reset-then-reuse-values lays the old ones over the new chart's defaults.

The screen, what is checked before anything is written and what Ctrl-C does are as for "lockstep install". With
--rollback-on-failure a failure leads back to the last good revision, in its order.`

// upgradeFlags are those of upgrade.
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

// addServerSide adds --server-side as upgrade and rollback have it.
func addServerSide(cmd *cobra.Command, c *command.Choice) {
	*c = command.Choice{Allowed: []string{"auto", "true", "false"}}
	command.AddChoice(cmd, c, "server-side", "", "apply on the server instead of the client; auto is as the release was applied before")
}

func (a *app) newUpgrade(do execute) *cobra.Command {
	var flags upgradeFlags
	cmd := &cobra.Command{
		Use:     "upgrade NAME CHART",
		GroupID: "deploy",
		Short:   "upgrade a release, group by group",
		Long:    upgradeLong,
		Example: `lockstep upgrade shop ./shop -n shop --set api.replicas=3
lockstep upgrade --install shop ./shop -n shop --create-namespace
lockstep upgrade shop ./shop --rollback-on-failure
lockstep upgrade shop ./shop --dry-run   # what would be deployed, and what removed`,
		Args:              command.Args(2, 2),
		ValidArgsFunction: a.CompleteRelease(command.CompleteChart(1, 1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, do, args, func() error { return a.upgrade(cmd, &flags, args[0], args[1], do) })
		},
	}
	flags.run.add(cmd)
	flags.run.addWait(cmd)
	flags.run.addReadiness(cmd)
	flags.run.addRollbackFlag(cmd, "go back to the last good revision")
	flags.deploy.add(cmd)
	addServerSide(cmd, &flags.serverSide)
	f := cmd.Flags()
	f.BoolVarP(&flags.install, "install", "i", false, "install the chart where there is no release of the name")
	f.BoolVar(&flags.reuseValues, "reuse-values", false, "add the values given to those of the last release")
	f.BoolVar(&flags.resetValues, "reset-values", false, "forget the values of the last release")
	f.BoolVar(&flags.resetThenReuse, "reset-then-reuse-values", false, "take the chart's values, over them those of the last release, over them those given")
	f.BoolVar(&flags.crds, "upgrade-crds", false, "apply crds/ of the chart first, unless a stored version would be lost; Helm never does")
	f.BoolVar(&flags.cleanup, "cleanup-on-fail", false, "delete the objects that a failed upgrade has created")
	f.IntVar(&flags.history, "history-max", a.Settings.MaxHistory, "keep at most so many revisions; 0 for all")
	a.completeGroups(cmd, func(args []string) string { return args[len(args)-1] }, &flags.deploy)
	return cmd
}

func (a *app) upgrade(cmd *cobra.Command, flags *upgradeFlags, name, ref string, do execute) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	dry, err := dryRunMode(flags.deploy.dryRun)
	if err != nil {
		return err
	}
	prepare := func(ctx context.Context, c *kube.Client, common kube.Common, what kube.Rendering) (*kube.Operation, error) {
		return c.PrepareUpgrade(ctx, kube.Upgrade{
			Common: common, Rendering: what,
			Install: flags.install, CreateNamespace: flags.deploy.createNamespace, ServerSide: flags.serverSide.Value,
			ReuseValues: flags.reuseValues, ResetValues: flags.resetValues, ResetThenReuseValues: flags.resetThenReuse,
			UpgradeCRDs: flags.crds, CleanupOnFail: flags.cleanup, HistoryMax: flags.history,
		})
	}
	// The release is in the cluster: there is no dry run without one.
	return a.deploy(cmd, &flags.deploy, r, name, ref, dry, prepare, do)
}
