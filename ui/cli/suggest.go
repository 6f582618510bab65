package cli

import (
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/ui/board"
	"lockstep/ui/report"
)

const suggestLong = `Shows the order that a chart implies, whether or not its author has written one down: what its objects name, call and
are read by, with the reason of each edge. No cluster is needed, and nothing is deployed.

What annotations say of groups stands; the rest is added to it. "lockstep help inferred" says what is read.

With --write the order is written into the files of the chart, as annotations that Helm takes as well: lines are added
to templates and to Chart.yaml, and nothing else is changed. What is rendered under a condition is named under that
condition. The chart is rendered with the lines in memory first, and has to give the suggested plan; all files are
written then, or none. What cannot be written safely is said, with what to put where, and the exit code is 1: objects
whose annotations a helper makes, or which one place of a template makes for several groups, packed charts, links.

The name of the release, which templates may use, can come before CHART.`

func (a *app) newSuggest() *cobra.Command {
	flags := renderFlags{flat: true}
	format := choice{allowed: report.DagFormats}
	tui, write := false, false
	cmd := &cobra.Command{
		Use:     "suggest CHART",
		GroupID: "look",
		Short:   "show the order that a chart implies, and why",
		Long:    suggestLong,
		Example: `lockstep suggest ./wordpress
lockstep suggest ./wordpress --tui
lockstep suggest ./wordpress --write   # into the files of the chart
lockstep suggest ./wordpress -o json | jq -r '.edges[] | select(.strength == "serving") | .reason'`,
		Args:              args(1, 2),
		ValidArgsFunction: completeChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.render(a, cmd, args)
			if err != nil {
				return err
			}
			written, err := r.Plan()
			if err != nil {
				return err
			}
			ordered, order := r.Ordered()
			if err := order.Check(); err != nil {
				return r.secrets.Error(err)
			}
			if write {
				return a.writeOrder(cmd, r, ordered, format.value)
			}
			suggested, err := planned(ordered)
			if err != nil {
				return err
			}
			suggested.plan.Warnings = append(order.Warnings(), suggested.plan.Warnings...)
			suggested.hide(r.secrets)
			for i := range order.Edges {
				why := &order.Edges[i].Reason
				why.Text, why.Value = r.secrets.Text(why.Text), r.secrets.Text(why.Value)
			}
			if tui {
				return lookAtPlan(a, cmd, board.Options{Title: "suggest " + r.Tree.Path, Inspector: drawing{suggested}},
					[]event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: suggested.plan.Groups}}, suggested.plan.Warnings)
			}
			return report.Suggestion(cmd.OutOrStdout(), r.Tree.Path, report.Suggested{Plan: suggested.plan, Order: order, NotInferred: order.Untold(written)}, format.value, a.style(os.Stdout))
		},
	}
	flags.add(cmd.Flags())
	addChoice(cmd, &format, "output", "o", "format")
	cmd.Flags().BoolVar(&tui, "tui", false, "look at it on the screen")
	cmd.Flags().BoolVar(&write, "write", false, "write the order into the files of the chart, a directory")
	cmd.MarkFlagsMutuallyExclusive("tui", "output")
	cmd.MarkFlagsMutuallyExclusive("tui", "write")
	return cmd
}
