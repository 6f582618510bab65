package cli

import (
	"os"

	"github.com/spf13/cobra"

	"lockstep/ui/report"
)

const dagLong = `Shows the groups of a chart and what each waits for. No cluster is needed, and nothing is deployed.

Groups of one layer do not wait for each other. A group starts as soon as all groups that it waits for are ready,
whatever else of their layer is still running. The name of a group is what --break-on takes: CHART:GROUP, where
CHART is the way to the subchart; resources that belong to no group are CHART:(unsequenced).

The name of the release, which templates may use, can come before CHART.

Text, dot and mermaid leave out what follows from other lines; json has every edge.`

func (a *app) newDag() *cobra.Command {
	var flags renderFlags
	format := choice{allowed: report.DagFormats}
	cmd := &cobra.Command{
		Use:     "dag CHART",
		GroupID: "look",
		Short:   "show what waits for what",
		Long:    dagLong,
		Example: `lockstep dag ./shop
lockstep dag ./shop -o dot | dot -Tsvg > shop.svg
lockstep dag ./shop -o json | jq '.groups[] | {id, after}'`,
		Args:              args(1, 2),
		ValidArgsFunction: completeChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.render(a, cmd, args)
			if err != nil {
				return err
			}
			style := streamStyle(os.Stdout, a.settings.ColorMode)
			return report.Dag(cmd.OutOrStdout(), r.Tree.Path, r.plan, format.value, style)
		},
	}
	flags.add(cmd.Flags())
	addChoice(cmd, &format, "output", "o", "format")
	return cmd
}
