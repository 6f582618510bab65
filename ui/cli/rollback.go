package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/engine"
	"lockstep/kube"
)

const rollbackLong = `Rolls a release back to an earlier revision, or without REVISION to the one before the last. If that revision was
deployed in order, it is brought back in its order; what it does not have is deleted in reverse of the present one's.`

// rollbackFlags are those of rollback.
type rollbackFlags struct {
	run        runFlags
	serverSide choice
	dryRun     bool

	forceConflicts, forceReplace, cleanup bool
	historyMax                            int
	description                           string
}

func (a *app) newRollback() *cobra.Command {
	flags := rollbackFlags{serverSide: choice{allowed: []string{"auto", "true", "false"}}}
	cmd := &cobra.Command{
		Use:     "rollback NAME [REVISION]",
		GroupID: "deploy",
		Short:   "bring an earlier revision back, group by group",
		Long:    rollbackLong,
		Example: `lockstep rollback shop -n shop
lockstep rollback shop 3`,
		Args: args(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.rollback(cmd, &flags, args) },
	}
	flags.run.add(cmd)
	f := cmd.Flags()
	addChoice(cmd, &flags.serverSide, "server-side", "", "apply on the server; auto is as the revision was applied")
	f.BoolVar(&flags.dryRun, "dry-run", false, "write nothing and say what would be done")
	f.BoolVar(&flags.forceConflicts, "force-conflicts", false, "take fields over from their owners in server-side apply")
	f.BoolVar(&flags.forceReplace, "force-replace", false, "replace resources in place of changing them")
	f.BoolVar(&flags.cleanup, "cleanup-on-fail", false, "delete what a failed rollback has created")
	f.IntVar(&flags.historyMax, "history-max", a.settings.MaxHistory, "revisions to keep, 0 for all")
	f.StringVar(&flags.description, "description", "", "description that the new revision gets")
	cmd.MarkFlagsMutuallyExclusive("force-replace", "force-conflicts")
	return cmd
}

func (a *app) rollback(cmd *cobra.Command, flags *rollbackFlags, args []string) error {
	m, err := flags.run.check(cmd)
	if err != nil {
		return err
	}
	revision := 0
	if len(args) > 1 {
		if revision, err = strconv.Atoi(args[1]); err != nil || revision < 0 {
			return fmt.Errorf("revision %q is not a number; lockstep history %s shows which there are", args[1], args[0])
		}
	}
	j := job{flags: &flags.run, mode: m,
		prepare: func(ctx context.Context, c *kube.Client, namespace string) (*kube.Operation, error) {
			return c.PrepareRollback(ctx, kube.Rollback{
				Common: flags.run.common(args[0], namespace, m), Revision: revision, ServerSide: flags.serverSide.value,
				ForceConflicts: flags.forceConflicts, ForceReplace: flags.forceReplace, CleanupOnFail: flags.cleanup,
				HistoryMax: flags.historyMax, Description: flags.description,
			})
		},
		next: func(s *engine.State) []string { return a.seeHistory(s) }}
	if flags.dryRun {
		return a.dryRunPhases(cmd, j)
	}
	return a.operate(cmd, j)
}

// seeHistory says what to type after an operation that has not gone through.
func (a *app) seeHistory(s *engine.State) []string {
	if s.Status == engine.Succeeded {
		return nil
	}
	return []string{shellWords(append([]string{"lockstep", "history", s.Operation.Release}, a.where(s)...))}
}

func itoa(n int) string { return strconv.Itoa(n) }
