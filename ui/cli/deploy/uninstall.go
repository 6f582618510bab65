package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
)

const uninstallLong = `Uninstall releases: pre-delete hooks, then group by group in reverse order, then post-delete hooks. A group is deleted
only after every group that waited for it is gone.

Several releases are uninstalled one after another. lockstep checks all of them before it uninstalls the first. After a
failure, the remaining ones are not touched.`

type uninstallFlags struct {
	kube.Uninstall
	run    runFlags
	dryRun bool
}

func (a *app) newUninstall(exec executor) *cobra.Command {
	var flags uninstallFlags
	cmd := &cobra.Command{
		Use: "uninstall NAME…", Aliases: []string{"del", "delete", "un"}, SuggestFor: []string{"remove", "rm"},
		GroupID: "deploy", Short: "uninstall releases, in reverse order", Long: uninstallLong,
		Example: `lockstep uninstall shop -n shop
lockstep uninstall shop -n shop --keep-history`,
		Args: command.Args(1, -1), ValidArgsFunction: a.CompleteReleases,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, exec, args, func(r runOptions) error { return a.uninstall(cmd, &flags, r, args, exec) })
		},
	}
	flags.run.add(cmd)
	flags.run.addWait(cmd)
	flags.run.addPlan(cmd, exec)
	flags.run.addDeleteCRDs(cmd)
	f := cmd.Flags()
	f.DurationVar(&flags.run.common.ReadinessTimeout, "readiness-timeout", 0, "time for each object to be deleted (0: up to --timeout)")
	f.BoolVar(&flags.dryRun, "dry-run", false, "print which objects would be removed, in order, without writing anything")
	f.BoolVar(&flags.KeepHistory, "keep-history", false, "keep the release's history, so that you can roll back later")
	f.BoolVar(&flags.IgnoreNotFound, "ignore-not-found", false, "succeed if the release does not exist")
	f.StringVar(&flags.Description, "description", "", "description of the release")
	command.AddChoice(cmd, &flags.DeletionPropagation, "cascade", "", "what happens to dependents: background, orphan, foreground", "background", "orphan", "foreground")
	return cmd
}

func (a *app) uninstall(cmd *cobra.Command, flags *uninstallFlags, r runOptions, names []string, exec executor) error {
	if flags.dryRun {
		exec = a.dryRunLines()
	}
	if r.savedPlan != nil && len(names) > 1 {
		return errors.New("--plan covers one release; uninstall them one at a time")
	}
	if flags.run.cluster.enabled {
		if len(names) > 1 {
			return errors.New("--in-cluster covers one release; uninstall them one at a time")
		}
		return a.runAsJob(cmd, flags.run.cluster, r, packedRun{release: names[0], args: names})
	}
	var changes error // set if plan found changes
	for i := range names {
		err := exec.run(cmd, a.uninstallSpec(cmd, flags, r, names[i:], i == 0))
		unchanged := command.ExitCode(err) == command.ExitNothingWritten && !command.IsChanges(err)
		remaining := names[i:]
		if !unchanged {
			remaining = names[i+1:]
		}
		switch {
		case command.IsChanges(err):
			changes = err
		case a.Signals.Interrupted() && len(remaining) > 0 && (err == nil || unchanged && i > 0):
			return command.Exit(command.ExitAborted, fmt.Errorf("interrupted; not uninstalled: %s", strings.Join(remaining, ", ")))
		case unchanged && i > 0 && exec.writes: // earlier releases were uninstalled
			return command.Exit(command.ExitFailed, err)
		case err != nil:
			return err
		}
	}
	return changes
}

// checkUninstalls returns an error if any of several releases cannot be uninstalled. It names all
// those that do not exist.
func checkUninstalls(ctx context.Context, c *kube.Client, opts kube.Uninstall, names []string) error {
	var missing []string
	for i, name := range names {
		if slices.Contains(names[:i], name) && !opts.IgnoreNotFound {
			return command.UsageError(fmt.Sprintf("release %s is given twice", name))
		}
		opts.Release = name
		switch _, err := c.PrepareUninstall(ctx, opts); {
		case errors.Is(err, driver.ErrReleaseNotFound):
			missing = append(missing, name)
		case err != nil:
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	what := "release "
	if len(missing) > 1 {
		what = "releases "
	}
	return fmt.Errorf("%s not found in namespace %s, so nothing was uninstalled; list releases with: "+text.Program+" list -A",
		what+strings.Join(missing, ", "), opts.Namespace)
}

// uninstallSpec returns the uninstall of the first of names. If checkAll is set, preparing it checks
// the others too.
func (a *app) uninstallSpec(cmd *cobra.Command, flags *uninstallFlags, r runOptions, names []string, checkAll bool) operationSpec {
	name, others := names[0], names[1:]
	return operationSpec{
		runOptions: r, release: name,
		next: func(s *event.State, m *mask.Mask) []string { return suggester{a, cmd, m}.afterUninstall(s, others) },
		prepare: func(ctx context.Context, c *kube.Client, common kube.Common) (*kube.Operation, error) {
			opts := flags.Uninstall
			opts.Common = common
			if checkAll && len(others) > 0 {
				if err := checkUninstalls(ctx, c, opts, names); err != nil {
					return nil, err
				}
			}
			op, err := c.PrepareUninstall(ctx, opts)
			if op == nil && err == nil {
				a.Display(cmd).Note(fmt.Sprintf("release %s is not installed in namespace %s; nothing to do", name, common.Namespace))
			}
			return op, err
		},
	}
}
