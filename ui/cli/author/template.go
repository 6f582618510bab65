package author

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
)

const templateLong = `Render a chart and print it in deployment order. This needs no cluster. NAME is optional.

Comment lines mark the start and end of each group except (unsequenced):

  ## START resource-group: shop/db schema
  …
  ## END resource-group: shop/db schema

The rest is the output of "helm template", so "kubectl apply -f -" accepts all of it, although kubectl does not wait
between groups. Documents without a kind, which Helm prints but no cluster accepts, follow the groups.

Output to a file or a pipe is exactly what the templates rendered. On a terminal, control sequences and characters that
hide or reverse text are removed.`

func (a *app) newTemplate() *cobra.Command {
	var flags input.RenderFlags
	var opts charts.PrintOptions
	var inRelease bool
	var wait string
	cmd := &cobra.Command{
		Use: "template {CHART | NAME CHART}", GroupID: "look", Short: "print a chart in deployment order", Long: templateLong,
		Example: `lockstep template shop ./shop
lockstep template shop ./shop --show-only templates/ingress.yaml`,
		Args: command.Args(1, 2), ValidArgsFunction: input.CompleteChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.Kindless, flags.Flat = true, wait != string(kube.WaitOrdered)
			if flags.Flat && flags.Options.Order != kube.OrderDeclared {
				return fmt.Errorf("--order=%s needs --wait=ordered, not --wait=%s", flags.Options.Order, wait)
			}
			r, err := flags.Render(a.App, cmd, args)
			if err != nil {
				return err
			}
			if opts.OutputDir != "" && inRelease {
				opts.OutputDir = filepath.Join(opts.OutputDir, r.Release.Name)
			}
			return r.Print(a.Display(cmd).Data(), r.Planned, opts)
		},
	}
	f := cmd.Flags()
	flags.Add(f)
	command.AddOrder(cmd, &flags.Options.Order)
	command.AddWait(cmd, &wait, "wait strategy to print for: ordered, or watcher, hookOnly or legacy for Helm's order without group comments")
	f.BoolVar(&opts.IncludeCRDs, "include-crds", false, "also print crds/")
	f.BoolVar(&opts.NoHooks, "no-hooks", false, "omit hooks")
	f.BoolVar(&opts.SkipTests, "skip-tests", false, "omit test hooks")
	f.StringArrayVarP(&opts.ShowOnly, "show-only", "s", nil, "print only these templates (repeatable)")
	f.StringVar(&opts.OutputDir, "output-dir", "", "write a file per template to this directory instead")
	f.BoolVar(&inRelease, "release-name", false, "with --output-dir: use a subdirectory named after the release")
	for _, name := range []string{"render-subchart-notes", "hide-notes", "skip-crds", "create-namespace", "disable-openapi-validation"} {
		f.Bool(name, false, "no effect, as in Helm")
		_ = f.MarkHidden(name) // fails only if the flag is not defined
	}
	return cmd
}
