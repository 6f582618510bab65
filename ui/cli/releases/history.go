package releases

import (
	"bytes"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/cli/output"

	"lockstep/ui/cli/command"
	"lockstep/ui/likehelm"
)

func (a *app) newHistory() *cobra.Command {
	newest, rollbacks := 0, false
	cmd := &cobra.Command{
		Use:               "history NAME",
		Aliases:           []string{"hist"},
		GroupID:           "release",
		Short:             "list the revisions of a release",
		Long:              "List the revisions of a release, like \"helm history\".",
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.CompleteRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.printLikeHelm(cmd, a.Settings.Namespace(), a.Display(cmd).Text(), func(out *bytes.Buffer) error {
				revisions, err := a.History(args[0])
				if err != nil {
					return err
				}
				revisions = revisions[len(revisions)-max(0, min(newest, len(revisions))):]
				return likehelm.History(out, helmFormat(cmd), revisions, rollbacks)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&newest, "max", 256, "maximum number of revisions")
	f.BoolVar(&rollbacks, "show-rollback-revision", false, "show the target revision of rollbacks (table only)")
	command.AddOutput(cmd, output.Formats()...)
	return cmd
}
