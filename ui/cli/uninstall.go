package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/engine"
	"lockstep/kube"
)

const uninstallLong = `Uninstalls releases: pre-delete hooks, then the groups in reverse order, then post-delete hooks. A group is deleted
only when all that waited for it is really gone, finalizers included.`

// uninstallFlags are those of uninstall.
type uninstallFlags struct {
	run                                 runFlags
	cascade                             choice
	dryRun, keepHistory, ignoreNotFound bool
	description                         string
}

func (a *app) newUninstall() *cobra.Command {
	flags := uninstallFlags{cascade: choice{allowed: []string{"background", "orphan", "foreground"}}}
	cmd := &cobra.Command{
		Use:        "uninstall NAME…",
		Aliases:    []string{"del", "delete", "un"},
		SuggestFor: []string{"remove", "rm"},
		GroupID:    "deploy",
		Short:      "uninstall releases, in reverse order",
		Long:       uninstallLong,
		Example: `lockstep uninstall shop -n shop
lockstep uninstall shop --keep-history`,
		Args: args(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.uninstall(cmd, &flags, args) },
	}
	flags.run.add(cmd)
	f := cmd.Flags()
	addChoice(cmd, &flags.cascade, "cascade", "", "how what the resources own is deleted")
	f.BoolVar(&flags.dryRun, "dry-run", false, "write nothing and say what would be done")
	f.BoolVar(&flags.keepHistory, "keep-history", false, "keep the release's record, marked uninstalled")
	f.BoolVar(&flags.ignoreNotFound, "ignore-not-found", false, "a release that is not there is no error")
	f.StringVar(&flags.description, "description", "", "description that the kept record gets")
	return cmd
}

// uninstall removes one release after the other, and goes on after one that
// fails, as Helm does not: the exit code is that of the first failure.
func (a *app) uninstall(cmd *cobra.Command, flags *uninstallFlags, names []string) error {
	m, err := flags.run.check(cmd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := a.uninstallOne(cmd, flags, m, name); err != nil {
			return err
		}
	}
	return nil
}

// errNothing ends a job that finds nothing to do.
var errNothing = errors.New("there is nothing to do")

func (a *app) uninstallOne(cmd *cobra.Command, flags *uninstallFlags, m mode, name string) error {
	j := job{flags: &flags.run, mode: m,
		prepare: func(ctx context.Context, c *kube.Client, namespace string) (*kube.Operation, error) {
			op, err := c.PrepareUninstall(ctx, kube.Uninstall{
				Common: flags.run.common(name, namespace, m), KeepHistory: flags.keepHistory, IgnoreNotFound: flags.ignoreNotFound,
				DeletionPropagation: flags.cascade.value, Description: flags.description,
			})
			if op == nil && err == nil {
				return nil, errNothing
			}
			return op, err
		},
		next: func(s *engine.State) []string {
			if s.Status == engine.Succeeded {
				return nil
			}
			return []string{shellWords(append([]string{"lockstep", "uninstall", s.Operation.Release}, a.where(s)...))}
		}}
	run := a.operate
	if flags.dryRun {
		run = a.dryRunPhases
	}
	err := run(cmd, j)
	if errors.Is(err, errNothing) {
		fmt.Fprintf(cmd.ErrOrStderr(), "release %s is not there\n", name)
		return nil
	}
	return err
}
