package deploy

import (
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/cli/command"
)

const rollbackLong = `Rolls a release back to an earlier revision, in that revision's order; what that revision does not have is removed in
reverse of the present order. A revision that was not deployed in order, by Helm for instance, is rolled back to at once.

Without REVISION, or with 0, it goes back to the last one before the present one that was deployed; where the last
operation was a rollback that failed or was cut off, it goes on with that. "lockstep history NAME" shows which there are.`

// rollbackFlags are those of rollback.
type rollbackFlags struct {
	run          runFlags
	dryRun       string
	serverSide   command.Choice
	force        bool
	forceReplace bool
	cleanup      bool
	history      int
	description  string
}

func (a *app) newRollback(do execute) *cobra.Command {
	var flags rollbackFlags
	cmd := &cobra.Command{
		Use:     "rollback NAME [REVISION]",
		GroupID: "deploy",
		Short:   "go back to an earlier revision, group by group",
		Long:    rollbackLong,
		Example: `lockstep rollback shop -n shop
lockstep rollback shop 3 -n shop --dry-run`,
		Args:              command.Args(1, 2),
		ValidArgsFunction: a.CompleteRelease(a.CompleteRevisions),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, do, args, func() error { return a.rollback(cmd, &flags, args, do) })
		},
	}
	flags.run.add(cmd)
	flags.run.addWait(cmd)
	flags.run.addReadiness(cmd)
	addServerSide(cmd, &flags.serverSide)
	addDryRun(cmd, &flags.dryRun)
	f := cmd.Flags()
	f.BoolVar(&flags.force, "force-conflicts", false, "take fields over from their owners in server-side apply")
	f.BoolVar(&flags.forceReplace, "force-replace", false, "replace resources in place of changing them")
	f.BoolVar(&flags.forceReplace, "force", false, "another name of --force-replace")
	_ = f.MarkHidden("force") // it is there
	f.BoolVar(&flags.cleanup, "cleanup-on-fail", false, "delete the objects that a failed rollback has created")
	f.IntVar(&flags.history, "history-max", a.Settings.MaxHistory, "keep at most so many revisions; 0 for all")
	f.StringVar(&flags.description, "description", "", "description that the new revision gets")
	cmd.MarkFlagsMutuallyExclusive("force-replace", "force-conflicts")
	cmd.MarkFlagsMutuallyExclusive("force", "force-conflicts")
	return cmd
}

func (a *app) rollback(cmd *cobra.Command, flags *rollbackFlags, args []string, do execute) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	dry, err := dryRunMode(flags.dryRun)
	if err != nil {
		return err
	}
	revision := 0
	if len(args) > 1 {
		if revision, err = strconv.Atoi(args[1]); err != nil || revision < 0 {
			return fmt.Errorf("revision %q is not a number; lockstep history %s shows which there are", args[1], args[0])
		}
	}
	if n := utf8.RuneCountInString(flags.description); n > action.MaxDescriptionLength {
		return fmt.Errorf("--description has %d characters; at most %d fit", n, action.MaxDescriptionLength)
	}
	if dry != "none" {
		do = a.dryRunLines()
	}
	return do.job(cmd, job{running: r, release: args[0],
		next: func(s *event.State, m *kube.Mask) []string { return proposer{a, cmd, m}.afterRollback(s) },
		prepare: func(ctx context.Context, c *kube.Client, common kube.Common) (*kube.Operation, error) {
			return c.PrepareRollback(ctx, kube.Rollback{
				Common: common, Revision: revision, ServerSide: flags.serverSide.Value,
				ForceConflicts: flags.force, ForceReplace: flags.forceReplace,
				CleanupOnFail: flags.cleanup, HistoryMax: flags.history, Description: flags.description,
			})
		}})
}
