package author

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
)

const templateLong = `Render a chart and print it in deployment order. This needs no cluster. NAME is optional.

With --dry-run=server the templates see the cluster: "lookup" finds its objects, and "Capabilities" has its versions. The
command then fails, as in Helm, if the cluster does not serve a kind, or if an object belongs to another release.

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
	var wait, dryRun string
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
			flags.Server = dryRun == command.DryRunServer
			if f := cmd.Flags(); flags.Server && (f.Changed("kube-version") || f.Changed("api-versions")) {
				a.Display(cmd).Warn("--kube-version and --api-versions have no effect with --dry-run=server: templates see those of the cluster")
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
	command.AddDryRun(cmd, &dryRun, "render for client (no cluster) or server: templates see the cluster, and its kinds and owners are checked",
		command.DryRunClient, command.DryRunServer)
	command.AddAlias(cmd, &dryRun, "validate", command.DryRunServer, "dry-run")
	cmd.MarkFlagsMutuallyExclusive("validate", "dry-run")
	f.BoolVar(&flags.Options.TakeOwnership, "take-ownership", false, "with --dry-run=server: accept objects that belong to another release")
	f.BoolVar(&flags.Options.DisableOpenAPIValidation, "disable-openapi-validation", false, "with --dry-run=server: do not validate fields; API servers since Kubernetes 1.25 do that only when they apply an object")
	addNoEffect(f)
	for _, name := range []string{"validate", "disable-openapi-validation"} {
		_ = f.MarkHidden(name) // fails only if the flag is not defined
	}
	return cmd
}

// addNoEffect adds the flags of "helm template" that do not change what it prints, so that the same command line works here.
func addNoEffect(f *pflag.FlagSet) {
	const usage = "no effect, as in Helm"
	names := []string{"render-subchart-notes", "hide-notes", "skip-crds", "create-namespace", "force-replace", "force", "force-conflicts",
		"replace", "rollback-on-failure", "atomic", "wait-for-jobs"}
	for _, name := range names {
		f.Bool(name, false, usage)
	}
	f.Bool("server-side", true, usage)
	f.String("description", "", usage)
	f.Duration("timeout", kube.DefaultTimeout, usage)
	f.StringToStringP("labels", "l", nil, usage)
	for _, name := range append(names, "server-side", "description", "timeout", "labels") {
		_ = f.MarkHidden(name) // fails only if the flag is not defined
	}
}
