package author

import (
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/stack"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

const dagLong = `Show the groups of a chart and what each waits for. This needs no cluster and deploys nothing.

Groups in one layer do not wait for each other. A group starts as soon as all groups it waits for are ready, even if
others of their layer are still running. Use a group's name with --break-on: CHART:GROUP, where CHART is the path
to the subchart. Objects without a group are CHART:(unsequenced); in a shell, type CHART:~.

Text, dot and mermaid omit edges that follow from other edges; json has all of them.

If templates use the release name, pass NAME before CHART. Without CHART, dag shows the releases of a helmfile: the one
given with -f, or the one in the current directory.`

func (a *app) newDag() *cobra.Command {
	var flags input.RenderFlags
	var stack input.HelmfileFlags
	tui, tests := false, false
	cmd := &cobra.Command{
		Use: "dag {CHART | NAME CHART | -f HELMFILE}", GroupID: "look", Short: "show the groups of a chart and their order", Long: dagLong,
		Example: `lockstep dag ./shop
lockstep dag ./shop --tui
lockstep dag ./shop -o dot | dot -Tsvg > shop.svg
lockstep dag ./shop -o json | jq '.groups[] | {id, after}'
lockstep dag -f helmfile.yaml`,
		Args: input.OrHelmfile(command.Args(1, 2)), ValidArgsFunction: input.CompleteChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.stackDag(cmd, &stack)
			}
			r, err := flags.Render(a.App, cmd, args)
			if err != nil {
				return err
			}
			unordered := flags.Options.Order != kube.OrderInferred && plan.Unordered(r.Planned.Groups)
			if tests {
				charts.AddTests(r.Planned, r.Release)
			}
			if tui {
				return a.showChart(cmd, r)
			}
			if err := a.printDag(cmd, r.Tree.Path, r.Planned); err != nil {
				return err
			}
			if unordered {
				a.Display(cmd).Note("\n" + input.NoOrder(args[len(args)-1]))
			}
			return nil
		},
	}
	flags.Add(cmd.Flags())
	stack.AddSelection(cmd)
	command.AddOrder(cmd, &flags.Options.Order)
	command.AddOutput(cmd, report.DagFormats...)
	cmd.Flags().BoolVar(&tui, "tui", false, "open the screen")
	cmd.Flags().BoolVar(&tests, "test", false, "also show the tests, which install --test runs after all groups")
	cmd.MarkFlagsMutuallyExclusive("tui", "output")
	return cmd
}

func (a *app) printDag(cmd *cobra.Command, title string, p *plan.Plan) error {
	return report.Dag(cmd.OutOrStdout(), title, p, cmd.Flag("output").Value.String(), a.Style(os.Stdout))
}

// stackDag prints the releases of a helmfile and the releases that each waits for.
func (a *app) stackDag(cmd *cobra.Command, flags *input.HelmfileFlags) error {
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	groups, err := stack.Order(file)
	if err != nil {
		return err
	}
	return a.printDag(cmd, file.Path, &plan.Plan{Groups: groups})
}
