package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board"
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
		Args:              args(1, 2),
		ValidArgsFunction: completeChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.render(a, cmd, args)
			if err != nil {
				return err
			}
			if tui {
				return lookAtPlan(a, cmd, board.Options{Title: "dag " + r.Tree.Path, Inspector: drawing{r}}, []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: r.plan.Groups}}, r.plan.Warnings)
			}
			style := a.style(os.Stdout)
			return report.Dag(cmd.OutOrStdout(), r.Tree.Path, r.plan, format.value, style)
		},
	}
	flags.add(cmd.Flags())
	addOrder(cmd, &flags.order)
	addChoice(cmd, &format, "output", "o", "format")
	cmd.Flags().BoolVar(&tui, "tui", false, "look at it on the screen")
	cmd.MarkFlagsMutuallyExclusive("tui", "output")
	return cmd
}

// planEvents is a plan as the record of a run that has not begun.
func planEvents(phases []event.Phase, warnings []plan.Warning) []event.Event {
	events := []event.Event{{Kind: event.KindPlan, Phases: phases}}
	for _, w := range warnings {
		events = append(events, event.OfWarning(w))
	}
	now := time.Now()
	for i := range events {
		events[i].Seq, events[i].Time = uint64(i+1), now
	}
	return events
}

// look shows something on the screen, which needs a terminal.
func look(a *app, cmd *cobra.Command, o board.Options, show func(context.Context, board.Options) error) error {
	if modeOf("text", false) != modeScreen {
		return errors.New("the screen needs a terminal (and CI and ACCESSIBLE unset, and TERM other than dumb)")
	}
	look, err := theme.FromEnv(os.Getenv)
	warnIf(a.display(cmd, report.ModeText), err)
	o.Theme = look
	return show(cmd.Context(), o)
}

// lookAtPlan shows a plan on the screen.
func lookAtPlan(a *app, cmd *cobra.Command, o board.Options, phases []event.Phase, warnings []plan.Warning) error {
	return look(a, cmd, o, func(ctx context.Context, o board.Options) error {
		return board.Show(ctx, planEvents(phases, warnings), o)
	})
}
