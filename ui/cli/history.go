package cli

import (
	"bytes"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"lockstep/ui/likehelm"
)

func (a *app) newHistory() *cobra.Command {
	newest, rollbacks := 0, false
	cmd := &cobra.Command{
		Use:               "history NAME",
		Aliases:           []string{"hist"},
		GroupID:           "release",
		Short:             "list the revisions of a release",
		Long:              "Lists the revisions of a release, as \"helm history\" does.",
		Args:              args(1, 1),
		ValidArgsFunction: a.completeRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.printLikeHelm(cmd, a.settings.Namespace(), a.helmDisplay(cmd).Text(), func(out *bytes.Buffer) error {
				revisions, err := a.history(args[0])
				if err != nil {
					return err
				}
				revisions = revisions[len(revisions)-max(0, min(newest, len(revisions))):]
				return likehelm.History(out, helmFormat(cmd), revisions, rollbacks)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&newest, "max", 256, "list at most so many revisions")
	f.BoolVar(&rollbacks, "show-rollback-revision", false, "show to which revision a rollback went, in a table")
	addHelmOutput(cmd)
	return cmd
}

// history are the revisions of a release, the oldest first.
func (a *app) history(name string) ([]*rel1.Release, error) {
	found, err := action.NewHistory(a.helm).Run(name)
	if err != nil {
		return nil, err
	}
	revisions, err := readable(found)
	releaseutil.SortByRevision(revisions)
	return revisions, err
}
