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
func (a *app) suggestNeeds(cmd *cobra.Command, flags *command.HelmfileFlags, write bool) error {
	if err := checkTextOrJSON(cmd, "needs are printed as"); err != nil {
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
func (a *app) impliedNeeds(ctx context.Context, file *kube.Helmfile) ([]kube.StackNeed, error) {
	loader, err := command.NewStackLoader(a.App, file, a.Settings, nil, false)
	if err != nil {
		return nil, err
	}
	var all []kube.RenderedStackRelease
	for _, rel := range file.Releases {
		input, err := loader.Load(ctx, rel)
		var r *kube.Rendered
		if err == nil {
			r, err = kube.RenderChart(ctx, input.Chart, input.Values, command.RenderOptions(input, rel.Name, rel.Namespace))
		}
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
