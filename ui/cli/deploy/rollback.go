package deploy

import (
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
)

const rollbackLong = `Roll back a release to an earlier revision, in that revision's order. Objects that this revision does not have are
removed in the reverse of the current order. Without REVISION, or with 0, the last deployed revision before the current
one is used, or the previous revision if none was deployed.

If the last operation was a rollback that failed or was killed, a rollback without REVISION resumes it. A revision that
was not deployed in order, for example by Helm, is applied all at once. "lockstep history NAME" lists the revisions.

Ctrl-C aborts the rollback and marks the release failed; on the screen it asks first. To continue, run the same command
again.`

type rollbackFlags struct {
	kube.Rollback
	run    runFlags
	dryRun string
}

func (a *app) newRollback(exec executor) *cobra.Command {
	var flags rollbackFlags
	cmd := &cobra.Command{
		Use: "rollback NAME [REVISION]", GroupID: "deploy", Short: "roll back to an earlier revision, group by group",
		Long: rollbackLong,
		Example: `lockstep rollback shop -n shop
lockstep rollback shop 3 -n shop --dry-run`,
		Args: command.Args(1, 2), ValidArgsFunction: a.CompleteRelease(a.CompleteRevisions),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, exec, args, func(r runOptions) error { return a.rollback(cmd, &flags, r, args, exec) })
		},
	}
	flags.run.add(cmd)
	flags.run.addCheckImages(cmd)
	flags.run.addWait(cmd)
	flags.run.addReadiness(cmd)
	flags.run.addReplace(cmd)
	flags.run.addPlan(cmd, exec)
	flags.run.addDeleteCRDs(cmd)
	flags.run.addPastNoReturn(cmd)
	addServerSide(cmd, &flags.ServerSide)
	command.AddDryRun(cmd, &flags.dryRun, dryRunUsage, dryRunValues...)
	f := cmd.Flags()
	addForce(cmd, &flags.ForceConflicts, &flags.ForceReplace)
	f.BoolVar(&flags.TakeOwnership, "take-ownership", false, "take over existing objects, even from another release")
	f.BoolVar(&flags.CleanupOnFail, "cleanup-on-fail", false, "delete objects created by a failed rollback")
	f.IntVar(&flags.HistoryMax, "history-max", a.Settings.MaxHistory, "maximum revisions to keep; 0 keeps all")
	f.StringVar(&flags.Description, "description", "", "description of the new revision")
	return cmd
}

func (a *app) rollback(cmd *cobra.Command, flags *rollbackFlags, r runOptions, args []string, exec executor) error {
	if len(args) > 1 {
		var err error
		if flags.Revision, err = strconv.Atoi(args[1]); err != nil || flags.Revision < 0 {
			return fmt.Errorf("invalid revision %q: must be a whole number; list revisions with: "+text.Program+" history %s -n %s", args[1], args[0], a.Settings.Namespace())
		}
	}
	if n := utf8.RuneCountInString(flags.Description); n > action.MaxDescriptionLength {
		return fmt.Errorf("--description has %d characters; the maximum is %d", n, action.MaxDescriptionLength)
	}
	if flags.dryRun != command.DryRunNone {
		exec = a.dryRunLines()
	}
	if flags.run.cluster.enabled {
		return a.runAsJob(cmd, flags.run.cluster, r, packedRun{release: args[0], args: args})
	}
	return exec.run(cmd, operationSpec{
		runOptions: r, release: args[0],
		next: func(s *event.State, m *mask.Mask) []string { return suggester{a, cmd, m}.afterRollback(s) },
		prepare: func(ctx context.Context, c *kube.Client, common kube.Common) (*kube.Operation, error) {
			opts := flags.Rollback
			opts.Common = common
			return c.PrepareRollback(ctx, opts)
		},
	})
}
