package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/text"
	"lockstep/ui/report"
)

// completion completes an argument.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeRelease completes the name of a release as the first argument, and
// leaves the others to next, which may be nil.
func (a *app) completeRelease(next completion) completion {
	return func(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return a.completeReleases(cmd, args, s)
		case next != nil:
			return next(cmd, args, s)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeReleases completes the names of releases that are not among args.
func (a *app) completeReleases(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if err := a.readyHelm(a.settings.Namespace()); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list := action.NewList(a.helm)
	list.All, list.Limit = true, 0
	list.SetStateMask()
	found, err := list.Run()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, x := range found {
		if rel, ok := x.(*rel1.Release); ok && !slices.Contains(args, rel.Name) {
			names = append(names, fmt.Sprintf("%s\t%s-%s, %s", rel.Name, rel.Chart.Name(), rel.Chart.Metadata.Version, rel.Info.Status))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeRevisions completes a revision of the release that is the one
// argument, the newest first.
func (a *app) completeRevisions(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if err := a.readyHelm(a.settings.Namespace()); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found, err := a.history(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var revisions []string
	for _, rel := range slices.Backward(found) {
		revisions = append(revisions, fmt.Sprintf("%d\t%s-%s, %s", rel.Version, rel.Chart.Name(), rel.Chart.Metadata.Version, rel.Info.Status))
	}
	return revisions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeGroups completes --break-on with the groups of the chart that the
// arguments name.
func (a *app) completeGroups(cmd *cobra.Command, chart func(args []string) string, d *deployFlags) {
	complete := func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		render := renderFlags{chart: d.chart, values: d.values, post: d.post, order: d.order}
		r, err := render.renderAs(cmd.Context(), a, defaultRelease, chart(args))
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var ids []string
		for _, g := range r.plan.Groups {
			ids = append(ids, text.Line(g.ID)+"\t"+report.Count(len(g.Objects), "object"))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
	_ = cmd.RegisterFlagCompletionFunc("break-on", complete) // it is there
}
