package author

import (
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
)

const dagLong = `Shows the groups of a chart and what each waits for. No cluster is needed, and nothing is deployed.

Groups of one layer do not wait for each other. A group starts as soon as all groups that it waits for are ready,
whatever else of their layer is still running. The name of a group is what --break-on takes: CHART:GROUP, where
CHART is the way to the subchart; resources that belong to no group are CHART:(unsequenced).

The name of the release, which templates may use, can come before CHART.

Text, dot and mermaid leave out what follows from other lines; json has every edge.`

func (a *app) newDag() *cobra.Command {
	var flags command.RenderFlags
	format := command.Choice{Allowed: report.DagFormats}
	tui := false
	cmd := &cobra.Command{
		Use:     "dag CHART",
		GroupID: "look",
		Short:   "show what waits for what",
		Long:    dagLong,
		Example: `lockstep dag ./shop
lockstep dag ./shop --tui
lockstep dag ./shop -o dot | dot -Tsvg > shop.svg
lockstep dag ./shop -o json | jq '.groups[] | {id, after}'`,
		Args:              command.Args(1, 2),
		ValidArgsFunction: command.CompleteChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.Render(a.App, cmd, args)
			if err != nil {
				return err
			}
			if tui {
				return screen.ShowPlan(a.App, cmd, board.Options{Title: "dag " + r.Tree.Path, Inspector: offlineChart{r}}, []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: r.Planned.Groups}}, r.Planned.Warnings)
			}
			style := a.Style(os.Stdout)
			return report.Dag(cmd.OutOrStdout(), r.Tree.Path, r.Planned, format.Value, style)
		},
	}
	flags.Add(cmd.Flags())
	command.AddOrder(cmd, &flags.Order)
	command.AddChoice(cmd, &format, "output", "o", "format")
	cmd.Flags().BoolVar(&tui, "tui", false, "look at it on the screen")
	cmd.MarkFlagsMutuallyExclusive("tui", "output")
	return cmd
}
