package cli

import (
	"context"

	"github.com/spf13/cobra"

	"lockstep/engine"
	"lockstep/kube"
)

const upgradeLong = `Upgrades a release to a chart: pre-upgrade hooks, then the groups of the new chart in order, then what is gone from
the chart is deleted in reverse of the old order, then post-upgrade hooks.

Everything that can be checked is checked before anything is written. With --rollback-on-failure a failed upgrade goes
back to the last good revision, in order.`

// upgradeFlags are those of upgrade.
type upgradeFlags struct {
	run        runFlags
	deploy     deployFlags
	install    bool
	serverSide choice

	reuse, reset, resetThenReuse bool
	cleanup                      bool
	historyMax                   int
}

func (a *app) newUpgrade() *cobra.Command {
	flags := upgradeFlags{serverSide: choice{allowed: []string{"auto", "true", "false"}}}
	cmd := &cobra.Command{
		Use:     "upgrade NAME CHART",
		GroupID: "deploy",
		Short:   "upgrade a release, group by group",
		Long:    upgradeLong,
		Example: `lockstep upgrade shop ./shop -n shop
lockstep upgrade --install shop ./shop -n shop --create-namespace
lockstep upgrade shop ./shop --reuse-values --set image.tag=1.1.0 --rollback-on-failure`,
		Args:              args(2, 2),
		ValidArgsFunction: completeChart(1, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.upgrade(cmd, &flags, args[0], args[1]) },
	}
	flags.run.add(cmd)
	flags.run.addRollbackFlag(cmd, "go back to the last good revision")
	flags.deploy.add(cmd)
	f := cmd.Flags()
	f.BoolVarP(&flags.install, "install", "i", false, "install if there is no release of the name")
	addChoice(cmd, &flags.serverSide, "server-side", "", "apply on the server; auto is as the release was applied")
	f.BoolVar(&flags.reuse, "reuse-values", false, "keep the last revision's values, and change those that are given")
	f.BoolVar(&flags.reset, "reset-values", false, "start from the chart's values")
	f.BoolVar(&flags.resetThenReuse, "reset-then-reuse-values", false, "start from the chart's values, then the last revision's, then those that are given")
	f.BoolVar(&flags.cleanup, "cleanup-on-fail", false, "delete what a failed upgrade has created")
	f.IntVar(&flags.historyMax, "history-max", a.settings.MaxHistory, "revisions to keep, 0 for all")
	return cmd
}

func (a *app) upgrade(cmd *cobra.Command, flags *upgradeFlags, name, ref string) error {
	m, err := flags.run.check(cmd)
	if err != nil {
		return err
	}
	dry, err := flags.deploy.dryRunMode()
	if err != nil {
		return err
	}
	what, err := flags.deploy.rendering(ref, a.settings)
	if err != nil {
		return err
	}
	reg, err := flags.deploy.chart.registry(a.settings)
	if err != nil {
		return err
	}
	j := job{flags: &flags.run, mode: m, registry: reg,
		prepare: func(ctx context.Context, c *kube.Client, namespace string) (*kube.Operation, error) {
			return c.PrepareUpgrade(ctx, flags.what(name, namespace, m, what))
		},
		next: func(s *engine.State) []string { return a.afterUpgrade(s, ref, &flags.deploy) }}
	if dry != "none" { // what an upgrade would do depends on the release, so the cluster is asked for client, too
		return a.dryRunServer(cmd, j, what, &flags.deploy)
	}
	return a.operate(cmd, j)
}

func (u *upgradeFlags) what(name, namespace string, m mode, what kube.Rendering) kube.Upgrade {
	return kube.Upgrade{
		Common: u.run.common(name, namespace, m), Rendering: what,
		Install: u.install, CreateNamespace: u.deploy.createNamespace || u.run.sandbox, ServerSide: u.serverSide.value,
		ReuseValues: u.reuse, ResetValues: u.reset, ResetThenReuseValues: u.resetThenReuse,
		CleanupOnFail: u.cleanup, HistoryMax: u.historyMax,
	}
}

// afterUpgrade says what to type after an upgrade that has not gone through.
func (a *app) afterUpgrade(s *engine.State, ref string, d *deployFlags) []string {
	if s.Status == engine.Succeeded {
		return nil
	}
	where := a.where(s)
	again := shellWords(append([]string{"lockstep", "upgrade", s.Operation.Release, ref}, where...)) + sameValues(d)
	if s.Operation.PreviousRevision == 0 || rolledBack(s) {
		return []string{again}
	}
	back := append([]string{"lockstep", "rollback", s.Operation.Release, itoa(s.Operation.PreviousRevision)}, where...)
	return []string{again, shellWords(back)}
}

// where are the flags that lead to the release of an operation.
func (a *app) where(s *engine.State) []string {
	where := []string{"-n", s.Operation.Namespace}
	if a.settings.KubeContext != "" {
		where = append(where, "--kube-context", a.settings.KubeContext)
	}
	return where
}
