package author

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/screen"
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
	flags := command.RenderFlags{Flat: true}
	format := command.Choice{Allowed: report.DagFormats}
	spelling := command.Choice{Allowed: []string{"helm", "hip"}}
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
		Args:              command.Args(1, 2),
		ValidArgsFunction: command.CompleteChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.Render(a.App, cmd, args)
			if err != nil {
				return err
			}
			written, err := r.Plan()
			if err != nil {
				return err
			}
			ordered, order := r.Ordered()
			if err := order.Check(); err != nil {
				return r.Secrets.Error(err)
			}
			if cmd.Flags().Changed("spelling") && !write {
				return errors.New("--spelling needs --write")
			}
			if write {
				return a.writeOrder(cmd, r, ordered, format.Value, kube.AnnotationSpelling(spelling.Value))
			}
			suggested, err := command.PlanRendered(ordered)
			if err != nil {
				return err
			}
			suggested.Planned.Warnings = append(order.Warnings(), suggested.Planned.Warnings...)
			suggested.Hide(r.Secrets)
			for i := range order.Edges {
				why := &order.Edges[i].Reason
				why.Text, why.Value = r.Secrets.Text(why.Text), r.Secrets.Text(why.Value)
			}
			if tui {
				return screen.ShowPlan(a.App, cmd, board.Options{Title: "suggest " + r.Tree.Path, Inspector: offlineChart{suggested}},
					[]event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: suggested.Planned.Groups}}, suggested.Planned.Warnings)
			}
			return report.Suggestion(cmd.OutOrStdout(), r.Tree.Path, report.Suggested{Plan: suggested.Planned, Order: order, NotInferred: order.Untold(written)}, format.Value, a.Style(os.Stdout))
		},
	}
	flags.Add(cmd.Flags())
	command.AddChoice(cmd, &format, "output", "o", "format")
	cmd.Flags().BoolVar(&tui, "tui", false, "look at it on the screen")
	cmd.Flags().BoolVar(&write, "write", false, "write the order into the files of the chart, a directory")
	command.AddChoice(cmd, &spelling, "spelling", "", "keys that --write writes: one slash, so that Helm 4.3 can install the chart, or two, as in HIP-0025")
	cmd.MarkFlagsMutuallyExclusive("tui", "output")
	cmd.MarkFlagsMutuallyExclusive("tui", "write")
	return cmd
}

// writeOrder writes an order into the files of the chart that was rendered, and
// says what is left.
func (a *app) writeOrder(cmd *cobra.Command, r *command.Rendered, ordered *kube.Rendered, format string, spelling kube.AnnotationSpelling) error {
	mode := report.ModeText
	switch format {
	case "json":
		mode = report.ModeJSON
	case "text":
	default:
		return fmt.Errorf("--write says what it has written as text or json: leave -o %s out", format)
	}
	found, err := kube.PrepareAnnotations(cmd.Context(), kube.AnnotatedChart{Dir: r.Chart.Path(), Values: r.GivenValues, Options: r.Options, Rendered: r.Rendered, Spelling: spelling},
		kube.AnnotatedOrder{Tree: ordered.Tree, Resources: ordered.Resources})
	if err != nil {
		return err
	}
	if err := found.Write(); err != nil {
		return err
	}
	written := report.Written{Chart: r.Chart.Path(), Files: []report.WrittenFile{}, Left: []report.ManualEdit{}}
	for _, f := range found.Files {
		written.Files = append(written.Files, report.WrittenFile{Name: f.Name, Lines: f.Lines})
	}
	for _, l := range found.Left {
		written.Left = append(written.Left, report.ManualEdit(l))
	}
	if err := a.Display(cmd, mode).Show(written); err != nil || len(found.Left) == 0 {
		return err
	}
	err = fmt.Errorf("%s in the order of %s cannot be written safely and is to be put in by hand; until then its order is another one",
		report.Count(len(found.Left), "place"), r.Chart.Name())
	if len(found.Files) > 0 {
		return command.Exit(command.ExitFailed, err)
	}
	return err
}
