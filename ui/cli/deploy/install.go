package deploy

import (
	"context"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// completeGroups completes --break-on with the groups of the chart that the
// arguments name.
func (a *app) completeGroups(cmd *cobra.Command, chart func(args []string) string, d *deployFlags) {
	complete := func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		render := command.RenderFlags{Chart: d.chart, Values: d.values, Post: d.post, Order: d.order}
		r, err := render.RenderAs(cmd.Context(), a.App, command.DefaultRelease, chart(args))
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var ids []string
		for _, g := range r.Planned.Groups {
			ids = append(ids, text.Line(g.ID)+"\t"+report.Count(len(g.Objects), "object"))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
	_ = cmd.RegisterFlagCompletionFunc("break-on", complete) // it is there
}

const installLong = `Installs a chart: crds/, then pre-install hooks, then group by group as the chart asks, then post-install hooks.
A group starts as soon as what it waits for is ready, whatever else is running.

In a terminal this is a screen, on which you can look into every resource, pause, step, retry and abort.
Elsewhere it is a line for each thing that happens, or with -o json an event per line ("lockstep help events").

Everything that can be checked is checked before anything is written; until then one Ctrl-C is enough to leave. Later
Ctrl-C ends the installation in order: what is in flight is finished and the release is marked failed, or uninstalled
again with --rollback-on-failure or --on-interrupt=rollback. Once more stops it at once. During a rollback the first
Ctrl-C only says so, and the next one stops it. When the terminal goes away, the installation goes on without it, or is
aborted, as --on-hangup says; one that is paused or held on a failure waits as long as --timeout for somebody to join it.

After a failure, or where it was killed, the same command goes on where it ended.

CHART is what Helm takes: a directory, a packaged chart, repo/name, a URL, oci://…, or a name with --repo.`

// deployFlags are what install and upgrade share.
type deployFlags struct {
	chart  command.ChartFlags
	values values.Options
	post   command.PostFlags
	order  command.Choice
	dryRun string

	hideSecret, showSecrets, createNamespace, skipCRDs, takeOwnership bool
	forceConflicts, forceReplace, skipSchema, skipValidation          bool
	enableDNS, subNotes, hideNotes                                    bool
	description                                                       string
	labels                                                            map[string]string
}

func (d *deployFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	command.AddValueFlags(f, &d.values)
	d.chart.Add(f)
	d.post.Add(f)
	command.AddOrder(cmd, &d.order)
	addDryRun(cmd, &d.dryRun)
	f.BoolVar(&d.hideSecret, "hide-secret", false, "leave Secrets out of what --dry-run prints")
	f.BoolVar(&d.showSecrets, "show-secrets", false, "show secret values in what --dry-run prints; otherwise they are hidden")
	f.BoolVar(&d.createNamespace, "create-namespace", false, "create the release's namespace if it is not there")
	f.BoolVar(&d.skipCRDs, "skip-crds", false, "do not install crds/")
	f.BoolVar(&d.takeOwnership, "take-ownership", false, "take over existing resources that are no release's or another's")
	f.BoolVar(&d.forceConflicts, "force-conflicts", false, "take fields over from their owners in server-side apply")
	f.BoolVar(&d.forceReplace, "force-replace", false, "replace resources in place of changing them")
	f.BoolVar(&d.forceReplace, "force", false, "another name of --force-replace")
	_ = f.MarkHidden("force") // it is there
	f.BoolVar(&d.skipSchema, "skip-schema-validation", false, "do not check values against the chart's schema")
	f.BoolVar(&d.skipValidation, "disable-openapi-validation", false, "do not check resources against Kubernetes' schema")
	f.BoolVar(&d.enableDNS, "enable-dns", false, "let templates look names up in DNS")
	f.BoolVar(&d.subNotes, "render-subchart-notes", false, "show the notes of subcharts, too")
	f.BoolVar(&d.hideNotes, "hide-notes", false, "do not show notes")
	f.StringVar(&d.description, "description", "", "description that the release gets")
	f.StringToStringVarP(&d.labels, "labels", "l", nil, "labels that the release's record gets: key=value,…")
	cmd.MarkFlagsMutuallyExclusive("force-replace", "force-conflicts")
	cmd.MarkFlagsMutuallyExclusive("force", "force-conflicts")
	cmd.MarkFlagsMutuallyExclusive("hide-secret", "show-secrets")
}

// rendering loads chart and values.
func (d *deployFlags) rendering(ctx context.Context, a *app, ref string, settings *helmcli.EnvSettings) (kube.Rendering, error) {
	c, err := d.chart.Load(ctx, ref, settings)
	if err != nil {
		return kube.Rendering{}, err
	}
	vals, err := command.Cancelable(ctx, func(context.Context) (map[string]any, error) { return kube.MergeValues(d.values, settings) })
	if err != nil {
		return kube.Rendering{}, err
	}
	a.HideValues(c, vals)
	post, err := d.post.Renderer(settings)
	if err != nil {
		return kube.Rendering{}, err
	}
	limits, err := command.RenderLimits()
	if err != nil {
		return kube.Rendering{}, err
	}
	return kube.Rendering{
		Chart: c, Values: vals, Order: d.order.Value, SkipCRDs: d.skipCRDs, TakeOwnership: d.takeOwnership,
		ForceConflicts: d.forceConflicts, ForceReplace: d.forceReplace,
		DisableOpenAPIValidation: d.skipValidation, SkipSchemaValidation: d.skipSchema, EnableDNS: d.enableDNS,
		SubNotes: d.subNotes, HideNotes: d.hideNotes, Description: d.description, Labels: d.labels, PostRenderer: post,
		Limits: limits,
	}, nil
}

// prepare prepares the deployment of what has been loaded.
type prepare = func(context.Context, *kube.Client, kube.Common, kube.Rendering) (*kube.Operation, error)

// deploy loads what is to be deployed and does with it what is asked for: a dry
// run on the server, or do.
func (a *app) deploy(cmd *cobra.Command, d *deployFlags, r running, name, ref, dry string, prepare prepare, do execute) error {
	again := d.chart // without progress: the screen says so itself
	folder := folderOf(ref, func(ctx context.Context) (*kube.Chart, error) { return again.Load(ctx, ref, a.Settings) })
	steps := &progress{say: a.Display(cmd, r.mode.Report())}
	d.chart.Progress = steps.doing
	what, err := d.rendering(cmd.Context(), a, ref, a.Settings)
	steps.end()
	if err != nil {
		return err
	}
	what.Limits.Time = r.common.Timeout
	reg, err := d.chart.Registry(a.Settings)
	if err != nil {
		return err
	}
	j := job{
		running: r, release: name, registry: reg, folder: folder,
		next: func(s *event.State, m *kube.Mask) []string {
			return proposer{a, cmd, m}.afterDeploy(s, ref, r.sandbox)
		},
		prepare: func(ctx context.Context, c *kube.Client, common kube.Common) (*kube.Operation, error) {
			return prepare(ctx, c, common, what)
		},
	}
	if r.sandbox {
		j.reload = func(ctx context.Context, values map[string]any) error {
			quiet := *d // the screen is there
			quiet.chart.Progress = nil
			folder.loads()
			fresh, err := quiet.rendering(ctx, a, ref, a.Settings)
			if err == nil {
				fresh.Limits, fresh.Values = what.Limits, values
				what = fresh
			}
			return err
		}
	}
	if dry != "none" {
		return a.dryRunServer(cmd, j, what.Chart, d)
	}
	return do.job(cmd, j)
}

// installFlags are those of install.
type installFlags struct {
	run        runFlags
	deploy     deployFlags
	name       command.NameFlags
	serverSide bool
	replace    bool
}

func (a *app) newInstall(do execute) *cobra.Command {
	var flags installFlags
	cmd := &cobra.Command{
		Use:     "install NAME CHART",
		GroupID: "deploy",
		Short:   "install a chart, group by group",
		Long:    installLong,
		Example: `lockstep install shop ./shop -n shop --create-namespace
lockstep install shop ./shop --step                     # from the first group on, one at a time
lockstep install shop ./shop --break-on shop/db:schema  # stop before the migration
lockstep install shop ./shop --sandbox                  # on a cluster that is gone afterwards
lockstep install shop oci://example.com/charts/shop --version 1.2.3 -f prod.yaml`,
		Args: command.Args(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
			at := 1
			if flags.name.Generate {
				at = 0
			}
			return command.CompleteChart(at, at)(cmd, args, s)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, do, args, func() error { return a.install(cmd, &flags, args, do) })
		},
	}
	flags.run.add(cmd)
	flags.run.addWait(cmd)
	flags.run.addReadiness(cmd)
	flags.run.addSandbox(cmd)
	flags.run.addRollbackFlag(cmd, "uninstall what was installed")
	flags.deploy.add(cmd)
	flags.name.Add(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&flags.serverSide, "server-side", true, "apply on the server instead of the client")
	f.BoolVar(&flags.replace, "replace", false, "use the name of a release that was uninstalled with its history kept")
	a.completeGroups(cmd, func(args []string) string {
		_, ref, _ := flags.name.NameAndChart(args)
		return ref
	}, &flags.deploy)
	return cmd
}

func (a *app) install(cmd *cobra.Command, flags *installFlags, args []string, do execute) error {
	r, err := flags.run.parse(cmd)
	if err != nil {
		return err
	}
	dry, err := dryRunMode(flags.deploy.dryRun)
	if err != nil {
		return err
	}
	name, ref, err := flags.name.NameAndChart(args)
	if err != nil {
		return err
	}
	if dry == "client" {
		return flags.dryRun(cmd, a, r.mode, name, ref)
	}
	prepare := func(ctx context.Context, c *kube.Client, common kube.Common, what kube.Rendering) (*kube.Operation, error) {
		return c.PrepareInstall(ctx, kube.Install{
			Common: common, Rendering: what,
			CreateNamespace: flags.deploy.createNamespace || r.sandbox,
			ClientSide:      !flags.serverSide, Replace: flags.replace,
		})
	}
	return a.deploy(cmd, &flags.deploy, r, name, ref, dry, prepare, do)
}
