package deploy

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/incluster"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
)

// completeGroups completes --break-on with the groups of a chart. chart returns its reference, given
// the arguments of the command.
func (a *app) completeGroups(cmd *cobra.Command, chart func(args []string) string, d *deployFlags) {
	complete := func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		render := input.RenderFlags{ChartInput: d.ChartInput}
		r, err := render.RenderAs(cmd.Context(), a.App, input.DefaultRelease, chart(args))
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return command.CompleteGroups(r.Planned.Groups)
	}
	_ = cmd.RegisterFlagCompletionFunc("break-on", complete) // fails only if the flag is not defined
}

const installLong = `Install a chart, group by group: a group starts as soon as every group it waits for is ready.

The order is: crds/, pre-install hooks, groups of objects, post-install hooks. If the chart declares no groups,
--order=inferred finds the order that its objects imply.

In a terminal, a screen shows every object and lets you pause, step, retry and abort. Without a terminal, lockstep
prints a line per event, or with -o json a JSON object per event ("lockstep help events").

Before the first write, lockstep checks fields, permissions, references, quotas and webhooks, and asks the API server
whether it accepts the changes of existing objects ("lockstep plan" also asks about new ones); until then Ctrl-C simply quits. After that, Ctrl-C on the
screen asks whether to keep the objects or roll back. Without the screen, the first Ctrl-C aborts: requests in flight
finish and the release is marked failed, or uninstalled with --rollback-on-failure or --on-interrupt=rollback. A second
Ctrl-C stops at once. During an automatic rollback the first Ctrl-C only warns and the second stops the rollback. If the
terminal closes, --on-hangup decides whether the install continues or aborts; to leave it running without closing the
terminal, press a, then d. On the screen, a paused or held install waits indefinitely; without it, up to --timeout for
someone to attach or to use lockstep ctl.

After a failure or a kill, run the same command again: lockstep applies every group again, but groups that are unchanged
and ready pass at once.

CHART is anything Helm accepts: a directory, a packaged chart, repo/name, a URL, oci://…, or a name with --repo.`

// listChartGroups says how to list the groups of a chart without the cluster: hooks are not among them.
func listChartGroups(ref string) string {
	return "list the chart's groups with: " + command.ShellJoin([]string{text.Program, "dag", ref})
}

// deployFlags are the flags shared by install and upgrade.
type deployFlags struct {
	input.ChartInput
	options kube.Deploy // without what ChartInput loads

	dryRun                  string
	hideSecret, showSecrets bool // in the output of --dry-run
}

func (d *deployFlags) add(cmd *cobra.Command, dryRunUsage string) {
	f := cmd.Flags()
	d.Add(f)
	command.AddOrder(cmd, &d.Options.Order)
	command.AddDryRun(cmd, &d.dryRun, dryRunUsage, dryRunValues...)
	f.BoolVar(&d.hideSecret, "hide-secret", false, "omit Secrets from --dry-run output")
	f.BoolVar(&d.showSecrets, "show-secrets", false, "show secret values in --dry-run output")
	f.BoolVar(&d.options.CreateNamespace, "create-namespace", false, "create the namespace if it does not exist")
	addCRDs(cmd, &d.Options.CRDs)
	f.BoolVar(&d.Options.TakeOwnership, "take-ownership", false, "take over existing objects, even from another release")
	addForce(cmd, &d.Options.ForceConflicts, &d.Options.ForceReplace)
	f.BoolVar(&d.Options.DisableOpenAPIValidation, "disable-openapi-validation", false, "accepted for compatibility with Helm; the API server validates every object")
	f.BoolVar(&d.Options.SubNotes, "render-subchart-notes", false, "also show the notes of subcharts")
	f.BoolVar(&d.Options.HideNotes, "hide-notes", false, "hide notes")
	f.StringVar(&d.Options.Description, "description", "", "description of the release")
	f.StringToStringVarP(&d.Options.Labels, "labels", "l", nil, "labels to put on the stored release: key=value,…")
	cmd.MarkFlagsMutuallyExclusive("hide-secret", "show-secrets")
}

// addCRDs adds --crds and its older names.
func addCRDs(cmd *cobra.Command, crds *string) {
	const usage = "apply the chart's crds/: create: in an install only, as Helm does; upgrade: in an upgrade too, and update all existing CRDs; skip: never"
	command.AddChoice(cmd, crds, "crds", "", usage, kube.CRDsCreate, kube.CRDsUpgrade, kube.CRDsSkip)
	command.AddAlias(cmd, crds, "skip-crds", kube.CRDsSkip, "crds")
	command.AddAlias(cmd, crds, "upgrade-crds", kube.CRDsUpgrade, "crds")
	cmd.MarkFlagsMutuallyExclusive("crds", "skip-crds", "upgrade-crds")
}

// addForce adds the flags for taking over fields of other managers and for replacing objects.
func addForce(cmd *cobra.Command, conflicts, replace *bool) {
	f := cmd.Flags()
	f.BoolVar(conflicts, "force-conflicts", false, "take over fields owned by other managers")
	f.BoolVar(replace, "force-replace", false, "replace objects instead of patching them")
	f.BoolVar(replace, "force", false, "alias of --force-replace")
	_ = f.MarkHidden("force") // fails only if the flag is not defined
	cmd.MarkFlagsMutuallyExclusive("force-replace", "force-conflicts")
	cmd.MarkFlagsMutuallyExclusive("force", "force-conflicts")
}

// load loads the chart and the values. step, which may be nil, is called before each slow step.
func (d *deployFlags) load(ctx context.Context, a *app, ref string, step func(string)) (kube.ChartOptions, error) {
	chart := d.ChartInput
	chart.Chart.Progress = step
	return chart.Load(ctx, a.App, ref)
}

// loadWithProgress loads the chart and the values, and prints the slow steps.
func (d *deployFlags) loadWithProgress(cmd *cobra.Command, a *app, ref string) (kube.ChartOptions, error) {
	steps := &command.Progress{Notices: a.Display(cmd).Notices}
	defer steps.End()
	return d.load(cmd.Context(), a, ref, steps.Start)
}

// prepareFunc prepares an install or an upgrade.
type prepareFunc func(*kube.Client, context.Context, kube.Deploy) (*kube.Operation, error)

// with returns the function for operationSpec.prepare that passes d to prepare.
func (prepare prepareFunc) with(d kube.Deploy) func(context.Context, *kube.Client, kube.Common) (*kube.Operation, error) {
	return func(ctx context.Context, c *kube.Client, common kube.Common) (*kube.Operation, error) {
		d.Common = common
		return prepare(c, ctx, d)
	}
}

// deploy loads the chart and passes the operation to exec, or to dryRunServer with --dry-run.
func (a *app) deploy(cmd *cobra.Command, d *deployFlags, r runOptions, name, ref string, prepare prepareFunc, exec executor) error {
	d.Chart.Quiet = a.Quiet
	dir := newChartDir(ref, func(ctx context.Context) (*charts.Chart, error) { return d.Chart.Load(ctx, ref, a.Settings) })
	opts := d.options
	var notLoaded error
	opts.ChartOptions, notLoaded = d.loadWithProgress(cmd, a, ref)
	reg, err := d.Chart.Registry(a.Settings)
	opts.NotLoaded, opts.Limits.Time = cmp.Or(notLoaded, err), r.timeout()
	if opts.NotLoaded != nil && incluster.JobName() == "" { // in a Job it may have to end what an earlier pod began (S13)
		return opts.NotLoaded
	}
	saved := &savedValues{}
	spec := operationSpec{
		runOptions: r, release: name, registry: reg, dir: dir, saved: saved,
		next: func(s *event.State, m *mask.Mask) []string {
			return suggester{a, cmd, m}.afterDeploy(s, ref, saved.flagsAgain(), r.sandbox)
		},
		prepare: prepare.with(opts), listGroups: listChartGroups(ref),
	}
	if opts.Order != kube.OrderInferred && r.common.WaitStrategy() == kube.WaitOrdered {
		spec.unorderedNote = input.NoOrder(ref)
	}
	if r.sandbox {
		spec.reload = func(ctx context.Context, values map[string]any) (operationSpec, error) {
			dir.markLoaded()
			var err error
			reloaded, restarted := opts, spec
			reloaded.ChartOptions, err = d.load(ctx, a, ref, nil) // no progress messages while the screen is open
			reloaded.Limits, reloaded.Values = opts.Limits, values
			restarted.prepare = prepare.with(reloaded)
			return restarted, err
		}
	}
	if d.dryRun != command.DryRunNone {
		return a.dryRunServer(cmd, spec, opts.Chart, d)
	}
	return exec.run(cmd, spec)
}

type installFlags struct {
	run        runFlags
	deploy     deployFlags
	name       input.NameFlags
	serverSide bool
}

func (a *app) newInstall(exec executor) *cobra.Command {
	var flags installFlags
	cmd := &cobra.Command{
		Use: "install NAME CHART", GroupID: "deploy", Short: "install a chart, group by group", Long: installLong,
		Example: `lockstep install shop ./shop -n shop --create-namespace
lockstep install shop ./shop --order=inferred           # in the order that lockstep suggest shows
lockstep install shop ./shop --sandbox                  # on a throwaway cluster
lockstep install shop ./shop --break-on shop/db:schema  # pause before the migration
lockstep install shop ./shop --step                     # one group at a time
lockstep install shop oci://example.com/charts/shop --version 1.2.3 -f prod.yaml`,
		Args: command.Args(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
			chartArg := 1
			if flags.name.Generate {
				chartArg = 0
			}
			return input.CompleteChart(chartArg, chartArg)(cmd, args, s)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, exec, args, func(r runOptions) error { return a.install(cmd, &flags, r, args, exec) })
		},
	}
	flags.run.add(cmd)
	flags.run.addWait(cmd)
	flags.run.addChart(cmd, exec)
	flags.run.addWaitFor(cmd)
	flags.run.addSandbox(cmd)
	flags.run.addRollback(cmd, "the install", "uninstall the release")
	flags.deploy.add(cmd, installDryRunUsage)
	flags.name.Add(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&flags.serverSide, "server-side", true, "use server-side apply")
	f.BoolVar(&flags.deploy.options.Replace, "replace", false, "reuse the name of an uninstalled release whose history was kept")
	a.completeGroups(cmd, func(args []string) string {
		_, ref, _ := flags.name.NameAndChart(args)
		return ref
	}, &flags.deploy)
	return cmd
}

func (a *app) install(cmd *cobra.Command, flags *installFlags, r runOptions, args []string, exec executor) error {
	name, ref, err := flags.name.NameAndChart(args)
	if err != nil {
		return err
	}
	if flags.deploy.dryRun == command.DryRunClient {
		return flags.dryRun(cmd, a, name, ref)
	}
	if flags.run.cluster.enabled {
		return a.deployInCluster(cmd, flags.run.cluster, &flags.deploy, r, name, ref, exec)
	}
	o := &flags.deploy.options
	o.CreateNamespace, o.ServerSide = o.CreateNamespace || r.sandbox, strconv.FormatBool(flags.serverSide)
	return a.deploy(cmd, &flags.deploy, r, name, ref, (*kube.Client).PrepareInstall, exec)
}
