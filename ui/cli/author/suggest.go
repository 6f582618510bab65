package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/annotate"
	"lockstep/kube/charts"
	"lockstep/kube/helmfile"
	"lockstep/kube/mask"
	"lockstep/kube/stack"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

const suggestLong = `Show the order that a chart implies, and why: which objects reference or call others, and therefore must wait for them.
This needs no cluster and deploys nothing. --write adds the order to the chart's files.

Every dependency in the drawing has a reason. --why=all prints all reasons for dependencies between groups.

Existing groups are kept, and inferred edges are added to them. "lockstep help inferred" explains how lockstep finds
edges.

--write adds annotations that Helm also accepts to templates and Chart.yaml, and changes nothing else. If a
group is rendered only under a condition, other groups wait for it under the same condition. It writes all or nothing: it
first renders the chart with the new lines in memory, with your values and with each boolean value flipped, and checks
that the order is always the suggested one. If not, it exits with code 2 and lists each place that it cannot edit, why,
and the lines to add by hand. It cannot edit annotations in braces, a place in a template that renders objects of several
groups, packaged charts, or symbolic links. With --partial it skips those groups instead, and all
groups that wait for them.

If templates use the release name, pass NAME before CHART.`

type suggestFlags struct {
	input.RenderFlags
	stack               input.HelmfileFlags
	why, spelling       string
	tui, write, partial bool
}

func (a *app) newSuggest() *cobra.Command {
	flags := suggestFlags{RenderFlags: input.RenderFlags{Flat: true}}
	cmd := &cobra.Command{
		Use: "suggest {CHART | NAME CHART | -f HELMFILE}", GroupID: "look", Short: "show the order that a chart implies, and why", Long: suggestLong,
		Example: `lockstep suggest ./shop
lockstep suggest ./shop --tui
lockstep suggest ./shop --write        # to the chart's files
lockstep suggest -f helmfile.yaml      # needs between releases`,
		Args: input.OrHelmfile(command.Args(1, 2)), ValidArgsFunction: input.CompleteChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return a.suggestNeeds(cmd, &flags.stack, flags.write)
			case cmd.Flags().Changed("spelling") && !flags.write:
				return errors.New("--spelling needs --write")
			case flags.partial && !flags.write:
				return errors.New("--partial needs --write")
			}
			return a.suggest(cmd, &flags, args)
		},
	}
	flags.Add(cmd.Flags())
	flags.stack.AddSelection(cmd)
	command.AddOutput(cmd, report.DagFormats...)
	f := cmd.Flags()
	f.BoolVar(&flags.tui, "tui", false, "open the screen")
	f.BoolVar(&flags.write, "write", false, "write the order to the files of the chart, or the needs to the helmfile")
	f.BoolVar(&flags.partial, "partial", false, "with --write: if some groups cannot be written, write the others")
	command.AddChoice(cmd, &flags.why, "why", "", "reasons to list: calls, or all (references too)", "calls", "all")
	command.AddChoice(cmd, &flags.spelling, "spelling", "", "keys that --write adds: with one slash (helm) or two (hip, as in HIP-0025)", "helm", "hip")
	cmd.MarkFlagsMutuallyExclusive("tui", "output")
	cmd.MarkFlagsMutuallyExclusive("tui", "write")
	return cmd
}

// suggest shows the order that a chart implies, or writes it to the chart's files.
func (a *app) suggest(cmd *cobra.Command, flags *suggestFlags, args []string) error {
	r, err := flags.Render(a.App, cmd, args)
	if err != nil {
		return err
	}
	declared, err := r.Plan()
	if err != nil {
		return err
	}
	suggested, order, err := input.PlanInferred(r.Rendered)
	if err != nil {
		return r.Secrets.Error(err)
	}
	suggested.Hide(r.Secrets)
	a.Display(cmd).Warnings(slices.DeleteFunc(slices.Clone(suggested.AllWarnings), func(w plan.Warning) bool {
		printed := func(p plan.Warning) bool { return p.Message == w.Message } // by Render
		return slices.ContainsFunc(r.AllWarnings, printed)
	}))
	if flags.write {
		return a.writeOrder(cmd, flags, r, suggested)
	}
	for i := range order.Edges {
		why := &order.Edges[i].Reason
		why.Text, why.Value = r.Secrets.Text(why.Text), r.Secrets.Text(why.Value)
	}
	if flags.tui {
		return a.showChart(cmd, suggested)
	}
	out := report.Suggested{Plan: suggested.Planned, Order: order, NotInferred: order.NotInferred(declared), All: flags.why == "all"}
	return report.Suggestion(cmd.OutOrStdout(), r.Tree.Path, out, cmd.Flag("output").Value.String(), a.Style(os.Stdout))
}

// writeOrder writes an order to the files of a chart (R69a), and lists the edits to make by hand.
func (a *app) writeOrder(cmd *cobra.Command, flags *suggestFlags, r, ordered *input.Rendered) error {
	if err := checkTextOrJSON(cmd, "--write prints"); err != nil {
		return err
	}
	steps := &command.Progress{Notices: a.Display(cmd).Notices}
	chart := annotate.Source{
		Dir: r.Input.Chart.Path(), Values: r.Input.Values, Options: r.Options, Rendered: r.Rendered,
		Spelling: annotate.Spelling(flags.spelling), Partial: flags.partial, OnStep: steps.Start,
	}
	edits, err := annotate.Prepare(cmd.Context(), chart, annotate.Order{Tree: ordered.Tree, Resources: ordered.Resources})
	steps.End()
	if err != nil {
		return err
	}
	if err := edits.Write(); err != nil {
		return err
	}
	shown := report.ChartEdits{Chart: chart.Dir, Files: []report.EditedFile{}, Manual: []report.ManualEdit{}, Restarts: edits.Restarts}
	waits := func(g *plan.Group) bool { return len(g.After) > 0 }
	shown.NoOrder = !slices.ContainsFunc(ordered.Planned.Groups, waits)
	for _, f := range edits.Files {
		shown.Files = append(shown.Files, report.EditedFile{Name: f.Name, Lines: f.Lines})
	}
	for _, m := range edits.Manual {
		shown.Manual = append(shown.Manual, report.ManualEdit(m))
	}
	if err := a.Display(cmd).Show(shown); err != nil || len(edits.Manual) == 0 || len(edits.Files) > 0 {
		return err
	}
	next := "; --partial writes the rest"
	if flags.partial {
		next = ""
	}
	return fmt.Errorf("%s of chart %s cannot be written, so nothing was written%s", text.Count(len(edits.Manual), "part"), r.Input.Chart.Name(), next)
}

// checkTextOrJSON returns an error if -o selects another format. printed is the start of its text.
func checkTextOrJSON(cmd *cobra.Command, printed string) error {
	if format := cmd.Flag("output").Value.String(); format != "text" && format != "json" {
		return fmt.Errorf("%s text or json, not -o %s", printed, format)
	}
	return nil
}

// suggestNeeds prints the needs that the releases of a helmfile imply. If write is set, it adds them to
// the file.
func (a *app) suggestNeeds(cmd *cobra.Command, flags *input.HelmfileFlags, write bool) error {
	if err := checkTextOrJSON(cmd, "needs are printed as"); err != nil {
		return err
	}
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	needs, err := command.Cancelable(cmd.Context(), func(ctx context.Context) ([]stack.Need, error) { return a.impliedNeeds(ctx, file) })
	if err != nil {
		return err
	}
	d, found := a.Display(cmd), report.Needs{}
	missing := map[string][]string{}
	for _, n := range needs {
		found = append(found, report.Need(n))
		missing[n.Release] = append(missing[n.Release], n.Needs)
	}
	if err := d.Show(found); err != nil || !write || len(needs) == 0 {
		return err
	}
	files, err := file.AddNeeds(missing)
	if err != nil {
		return err
	}
	d.Note("added to " + strings.Join(files, ", "))
	return nil
}

// impliedNeeds renders all releases, without a cluster, and returns the needs that they imply.
func (a *app) impliedNeeds(ctx context.Context, file *helmfile.File) ([]stack.Need, error) {
	var secrets mask.Mask // of all releases, because the reasons quote several
	all, err := a.renderStack(ctx, file, &secrets)
	if err != nil {
		return nil, err
	}
	needs := stack.SuggestNeeds(all)
	for i := range needs {
		needs[i].Why = secrets.Text(needs[i].Why)
	}
	return needs, nil
}

// renderStack renders all releases of a helmfile, without a cluster, and adds their secrets.
func (a *app) renderStack(ctx context.Context, file *helmfile.File, secrets *mask.Mask) (all []stack.RenderedRelease, err error) {
	loader, err := input.NewStackLoader(a.App, file, a.Settings, input.StackLoaderOptions{})
	if err != nil {
		return nil, err
	}
	for _, rel := range file.Releases {
		if !rel.Installed {
			continue // it has no values, and needs nothing (S12)
		}
		chart, err := loader.Load(ctx, rel)
		var r *charts.Rendered
		if err == nil {
			secrets.AddPaths(rel.Namespace, rel.Name, chart.Values, chart.SecretPaths)
			r, err = charts.Render(ctx, chart.Chart, chart.Values, input.RenderOptions(chart, rel.Name, cmp.Or(rel.Namespace, a.Settings.Namespace())))
		}
		if err != nil {
			return nil, helmfile.Locate(rel.At, rel.ID(), secrets.Error(err))
		}
		r.AddSecrets(secrets)
		secrets.AddNames(rel.ID(), rel.Name, rel.Namespace)
		all = append(all, stack.RenderedRelease{ID: rel.ID(), Needs: slices.Concat(rel.Needs, rel.After), Rendered: r})
	}
	if len(all) == 0 {
		return nil, stack.NoReleases(file)
	}
	return all, nil
}
