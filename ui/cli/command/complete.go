package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// Completion completes an argument of a command.
type Completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// CompleteRelease completes the first argument with the names of releases, and the others with next.
// A nil next completes nothing.
func (a *App) CompleteRelease(next Completion) Completion {
	return func(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return a.CompleteReleases(cmd, args, s)
		case next != nil:
			return next(cmd, args, s)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteReleases completes with the names of releases that are not in args.
func (a *App) CompleteReleases(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	releases, err := a.Releases(cmd.Context(), a.Settings.Namespace())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	slices.SortFunc(releases, func(a, b *rel1.Release) int { return text.CompareNatural(a.Name, b.Name) })
	var names []string
	for _, rel := range releases {
		if !slices.Contains(args, rel.Name) {
			names = append(names, rel.Name+"\t"+describeRevision(rel))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func describeRevision(rel *rel1.Release) string {
	return fmt.Sprintf("%s-%s, %s", rel.Chart.Name(), rel.Chart.Metadata.Version, rel.Info.Status)
}

// CompleteRevisions completes the second argument with the revisions of the release in the
// first, newest first.
func (a *App) CompleteRevisions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := a.HistoryIn(cmd.Context(), a.Settings.Namespace(), args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var revisions []string
	for _, rel := range slices.Backward(found) {
		revisions = append(revisions, fmt.Sprintf("%d\t%s", rel.Version, describeRevision(rel)))
	}
	return revisions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// CompleteGroups completes with the ID of each group, in the spelling that needs no quotes in a shell.
func CompleteGroups(groups []*plan.Group) (words []string, _ cobra.ShellCompDirective) {
	for i, g := range groups {
		if !slices.ContainsFunc(groups[:i], func(earlier *plan.Group) bool { return earlier.ID == g.ID }) {
			words = append(words, text.Line(plan.ShellID(g.ID))+"\t"+text.Count(len(g.Objects), "object"))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
