package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/kube"
)

const uninstallLong = `Uninstalls releases: pre-delete hooks, then group by group in reverse order, then post-delete hooks. A group is
removed only when all that waited for it is really gone.

Several releases are uninstalled one after the other; the first that fails ends it.`

// uninstallFlags are those of uninstall.
type uninstallFlags struct {
	run            runFlags
	dryRun         bool
	keepHistory    bool
	ignoreNotFound bool
	cascade        choice
	description    string
}

func (a *app) newUninstall() *cobra.Command {
	var flags uninstallFlags
	cmd := &cobra.Command{
		Use:        "uninstall NAME [NAME...]",
		Aliases:    []string{"del", "delete", "un"},
		SuggestFor: []string{"remove", "rm"},
		GroupID:    "deploy",
		Short:      "remove a release, in reverse order",
		Long:       uninstallLong,
		Example: `lockstep uninstall shop -n shop
lockstep uninstall shop -n shop --keep-history`,
		Args:              args(1, -1),
		ValidArgsFunction: a.completeReleases,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.uninstall(cmd, &flags, args) },
	}
	flags.run.add(cmd)
	flags.run.addWait(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.dryRun, "dry-run", false, "write nothing and print what would be removed, in order")
	f.BoolVar(&flags.keepHistory, "keep-history", false, "keep the release's record, so that it can be rolled back to")
	f.BoolVar(&flags.ignoreNotFound, "ignore-not-found", false, "that there is no such release is success")
	f.StringVar(&flags.description, "description", "", "description that the release gets")
	flags.cascade = choice{allowed: []string{"background", "orphan", "foreground"}}
	addChoice(cmd, &flags.cascade, "cascade", "", "what becomes of what the objects own")
	return cmd
}

func (a *app) uninstall(cmd *cobra.Command, flags *uninstallFlags, names []string) error {
	m, err := flags.run.check(cmd)
	if err != nil {
		return err
	}
	for i, name := range names {
		err := a.operateOrPlan(cmd, flags.dryRun, a.uninstallJob(cmd, flags, m, name))
		if err != nil && i > 0 && exitCode(err) == exitNothing && !flags.dryRun && a.plan == nil {
			return &exitError{exitFailed, err} // something was written before
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) uninstallJob(cmd *cobra.Command, flags *uninstallFlags, m mode, name string) job {
	return job{flags: &flags.run, mode: m, next: a.afterUninstall,
		prepare: func(ctx context.Context, c *kube.Client, namespace string) (*kube.Operation, error) {
			op, err := c.PrepareUninstall(ctx, kube.Uninstall{
				Common: flags.run.common(name, namespace, m), KeepHistory: flags.keepHistory,
				IgnoreNotFound: flags.ignoreNotFound, DeletionPropagation: flags.cascade.value, Description: flags.description,
			})
			if op == nil && err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "release %s is not there in namespace %s; nothing to do\n", name, namespace)
			}
			return op, err
		}}
}
