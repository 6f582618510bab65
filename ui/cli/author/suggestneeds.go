package author

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// suggestNeeds prints the needs that the releases of a helmfile imply. With write it adds them to the file.
func (a *app) suggestNeeds(cmd *cobra.Command, flags *command.HelmfileFlags, format string, write bool) (err error) {
	if format != "text" && format != "json" {
		return fmt.Errorf("needs are printed as text or json, not -o %s", format)
	}
	if flags.File, err = command.HelmfileArgument(cmd); err != nil {
		return err
	}
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	needs, err := command.Cancelable(cmd.Context(), func(ctx context.Context) ([]kube.StackNeed, error) { return a.impliedNeeds(ctx, file) })
	if err != nil {
		return err
	}
	mode := report.ModeText
	if format == "json" {
		mode = report.ModeJSON
	}
	d := a.Display(cmd, mode)
	if err := d.Show(report.Needs(reportNeeds(needs))); err != nil || !write || len(needs) == 0 {
		return err
	}
	missing := map[string][]string{}
	for _, n := range needs {
		missing[n.Release] = append(missing[n.Release], n.Needs)
	}
	files, err := file.AddNeeds(missing)
	if err != nil {
		return err
	}
	d.Note("added to " + strings.Join(files, ", "))
	return nil
}

func reportNeeds(needs []kube.StackNeed) (out []report.Need) {
	for _, n := range needs {
		out = append(out, report.Need(n))
	}
	return out
}

// impliedNeeds renders all releases, without a cluster, and returns the needs that they imply.
func (a *app) impliedNeeds(ctx context.Context, file *kube.Helmfile) ([]kube.StackNeed, error) {
	loader, err := command.NewStackLoader(a.App, file, a.Settings, nil, false)
	if err != nil {
		return nil, err
	}
	var all []kube.RenderedStackRelease
	for _, rel := range file.Releases {
		what, err := loader.Load(ctx, rel)
		if err != nil {
			return nil, fmt.Errorf("%s: release %s: %w", rel.At, rel.ID(), err)
		}
		r, err := kube.RenderChart(ctx, what.Chart, what.Values, kube.RenderOptions{
			Release: rel.Name, Namespace: rel.Namespace, SkipSchemaValidation: what.SkipSchemaValidation, EnableDNS: what.EnableDNS,
			PostRenderer: what.PostRenderer, Limits: what.Limits,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: release %s: %w", rel.At, rel.ID(), err)
		}
		all = append(all, kube.RenderedStackRelease{ID: rel.ID(), Needs: slices.Concat(rel.Needs, rel.After), Rendered: r})
	}
	if len(all) == 0 {
		return nil, errors.New("no release is selected")
	}
	needs := kube.SuggestNeeds(all)
	for i := range needs {
		for _, r := range all {
			needs[i].Why = r.Mask().Text(needs[i].Why)
		}
	}
	return needs, nil
}
