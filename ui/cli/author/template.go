package author

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

const templateLong = `Renders a chart and prints it in the order in which it would be deployed. No cluster is needed.

Around each group there is a line before and one after it:

  ## START resource-group: shop/db schema
  …
  ## END resource-group: shop/db schema

Between them is what "helm template" prints. These lines are comments, so that kubectl apply -f - takes the output;
kubectl does not wait for anything, though. Documents without kind, which Helm prints and no cluster takes, come behind
the groups. NAME may be left out.

To a file or a pipe the output goes as the templates have made it, byte for byte. On a terminal, control sequences and
characters that hide text or turn its direction are left out.`

func (a *app) newTemplate() *cobra.Command {
	var flags command.RenderFlags
	var print kube.PrintOptions
	inRelease := false
	wait := command.WaitChoice()
	cmd := &cobra.Command{
		Use:     "template NAME CHART",
		GroupID: "look",
		Short:   "print a chart in deployment order",
		Long:    templateLong,
		Example: `lockstep template shop ./shop
lockstep template shop ./shop --show-only templates/ingress.yaml`,
		Args:              command.Args(1, 2),
		ValidArgsFunction: command.CompleteChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.Kindless, flags.Flat = true, wait.Value != string(kube.WaitOrdered)
			if flags.Flat && flags.Order.Value == kube.OrderInferred {
				return fmt.Errorf("--order=inferred requires --wait=ordered, not --wait=%s", wait.Value)
			}
			r, err := flags.Render(a.App, cmd, args)
			if err != nil {
				return err
			}
			if print.OutputDir != "" && inRelease {
				print.OutputDir = filepath.Join(print.OutputDir, r.Release.Name)
			}
			return r.Print(a.Display(cmd, report.ModeText).Data(), r.Planned, print)
		},
	}
	f := cmd.Flags()
	flags.Add(f)
	command.AddOrder(cmd, &flags.Order)
	command.AddWait(cmd, &wait, "whose order to print; with anything but ordered it is Helm's, without lines around groups")
	f.BoolVar(&print.IncludeCRDs, "include-crds", false, "print the content of crds/ as well")
	f.BoolVar(&print.NoHooks, "no-hooks", false, "leave hooks out")
	f.BoolVar(&print.SkipTests, "skip-tests", false, "leave test hooks out")
	f.StringArrayVarP(&print.ShowOnly, "show-only", "s", nil, "print only what comes from these templates (repeatable)")
	f.StringVar(&print.OutputDir, "output-dir", "", "write a file per template to this directory, instead of printing")
	f.BoolVar(&inRelease, "release-name", false, "with --output-dir: in a directory of the release's name")
	for _, name := range []string{"render-subchart-notes", "hide-notes", "skip-crds", "create-namespace", "disable-openapi-validation"} {
		f.Bool(name, false, "has no effect, as in Helm")
		_ = f.MarkHidden(name) // it is there
	}
	return cmd
}
