package cli

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
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
	cfg := action.NewConfiguration()
	if err := cfg.Init(a.settings.RESTClientGetter(), a.settings.Namespace(), os.Getenv("HELM_DRIVER")); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list := action.NewList(cfg)
	list.All, list.Limit = true, 0
	list.SetStateMask()
	found, err := list.Run()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, x := range found {
		if rel, ok := x.(*rel1.Release); ok && !slices.Contains(args, rel.Name) {
			names = append(names, fmt.Sprintf("%s\t%s-%s, %s", rel.Name, rel.Chart.Metadata.Name, rel.Chart.Metadata.Version, rel.Info.Status))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
