package releases

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli/output"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/likehelm"
)

func (a *app) newList() *cobra.Command {
	list := action.NewList(a.Helm)
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, GroupID: "release", Short: "list releases",
		Long: "List the releases of a namespace, like \"helm list\", including those deployed with Helm.",
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.list(cmd, list) },
	}
	f := cmd.Flags()
	f.BoolVarP(&list.AllNamespaces, "all-namespaces", "A", false, "list releases of all namespaces")
	f.BoolVarP(&list.Short, "short", "q", false, "print names only")
	f.BoolVar(&list.NoHeaders, "no-headers", false, "omit the table header")
	f.StringVar(&list.TimeFormat, "time-format", "", `Go time format, such as "2006-01-02 15:04:05Z0700"`)
	f.BoolVarP(&list.ByDate, "date", "d", false, "sort by date")
	f.BoolVarP(&list.SortReverse, "reverse", "r", false, "reverse the order")
	for _, status := range []struct {
		name string
		only *bool
	}{
		{"deployed", &list.Deployed}, {"failed", &list.Failed}, {"pending", &list.Pending},
		{"superseded", &list.Superseded}, {"uninstalled", &list.Uninstalled}, {"uninstalling", &list.Uninstalling},
	} {
		f.BoolVar(status.only, status.name, false, "list "+status.name+" releases (combinable; default all)")
	}
	f.IntVarP(&list.Limit, "max", "m", 256, "maximum number of releases")
	command.AddCount(f, &list.Offset, "offset", "", 0, "skip the first N releases")
	f.StringVarP(&list.Filter, "filter", "f", "", "list releases whose name matches a regular expression")
	f.StringVarP(&list.Selector, "selector", "l", "", "list releases with these labels: key=value,…")
	command.AddOutput(cmd, output.Formats()...)
	return cmd
}

func (a *app) list(cmd *cobra.Command, list *action.List) error {
	if _, err := regexp.Compile(list.Filter); err != nil {
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			err = fmt.Errorf("%s: `%s`", bad.Code, bad.Expr)
		}
		return fmt.Errorf("--filter %q is not a valid regular expression: %w", list.Filter, err)
	}
	if _, err := labels.Parse(list.Selector); err != nil {
		return fmt.Errorf("--selector %s: %w", list.Selector, err)
	}
	namespace := a.Settings.Namespace()
	if list.AllNamespaces {
		namespace = ""
	}
	return a.printLikeHelm(cmd, namespace, a.Display(cmd).Text(), func(out *bytes.Buffer) error {
		list.SetStateMask()
		found, err := list.Run()
		if err != nil {
			return err
		}
		releases, err := command.V1Releases(found)
		if err != nil {
			return err
		}
		return likehelm.List(out, helmFormat(cmd), releases, list)
	})
}

// hideInDescriptions hides the secret values of all revisions in their descriptions, which Helm may have written.
func hideInDescriptions(revisions []*rel1.Release) {
	var secrets mask.Mask
	for _, rel := range revisions {
		secrets.AddRelease(rel)
	}
	for _, rel := range revisions {
		rel.Info.Description = secrets.Text(rel.Info.Description)
	}
}

func (a *app) newHistory() *cobra.Command {
	newest, rollbacks := 0, false
	cmd := &cobra.Command{
		Use: "history NAME", Aliases: []string{"hist"}, GroupID: "release", Short: "list the revisions of a release",
		Long: "List the revisions of a release, like \"helm history\".",
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.printLikeHelm(cmd, a.Settings.Namespace(), a.Display(cmd).Text(), func(out *bytes.Buffer) error {
				revisions, err := a.History(args[0])
				if err != nil {
					return err
				}
				if len(revisions) == 0 { // Helm skips a record that it cannot decode
					_, err := a.Helm.Releases.Last(args[0])
					return err
				}
				hideInDescriptions(revisions)
				revisions = revisions[len(revisions)-max(min(newest, len(revisions)), 0):]
				return likehelm.History(out, helmFormat(cmd), revisions, rollbacks)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&newest, "max", 256, "maximum number of revisions")
	f.BoolVar(&rollbacks, "show-rollback-revision", false, "show the target revision of rollbacks (table only)")
	command.AddOutput(cmd, output.Formats()...)
	return cmd
}
