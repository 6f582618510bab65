package author

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/refs"
	"lockstep/kube/charts"
	"lockstep/kube/documents"
	"lockstep/kube/mask"
	"lockstep/kube/stack"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

const imagesLong = `List the container images of a chart, of a deployed release, or of all charts of a helmfile, one per line, with who uses each:
containers, init and ephemeral containers, image volumes, Jobs, CronJobs and hooks. Arguments, variables and custom resources
may name images too; those that lockstep finds there are marked as guesses.

A chart is a directory, an archive, a URL or REPOSITORY/CHART; a name without a slash that is not a file is a release. -f names a
values file, or without an argument the helmfile. Only a release needs a cluster.

To ask the registries whether they have the images, pass --check-images to plan or an operation.

-o json prints one object: images (image, guess, uses), and each use has release, namespace, object, hook, path and by (the
container or the volume).`

func (a *app) newImages() *cobra.Command {
	var flags input.RenderFlags
	var stack input.HelmfileFlags
	cmd := &cobra.Command{
		Use: "images {CHART | NAME CHART | RELEASE | -f HELMFILE}", GroupID: "look", Short: "list container images and who uses them", Long: imagesLong,
		Example: `lockstep images ./shop
lockstep images shop -n shop -o json | jq -r '.images[].image'
lockstep images -f helmfile.yaml`,
		Args: input.OrHelmfile(command.Args(1, 2)), ValidArgsFunction: input.CompleteChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			releases, err := a.findReleases(cmd, args, &flags, &stack)
			if err != nil {
				return err
			}
			list := report.Images{Images: []report.UsedImage{}}
			for _, rel := range releases {
				if err := addImages(&list, rel, len(args) == 0); err != nil {
					return err
				}
			}
			return a.Display(cmd).Show(list)
		},
	}
	flags.Add(cmd.Flags())
	stack.AddSelection(cmd)
	command.AddOutput(cmd)
	return cmd
}

// findReleases returns the release that the arguments name, or those that would be deployed of the chart or the helmfile.
func (a *app) findReleases(cmd *cobra.Command, args []string, flags *input.RenderFlags, stack *input.HelmfileFlags) ([]*rel1.Release, error) {
	switch {
	case len(args) == 0:
		return a.stackReleases(cmd, stack)
	case len(args) == 1 && !strings.Contains(args[0], "/") && !input.Exists(args[0]) && flags.Chart.RepoURL == "":
		rel, err := a.release(cmd.Context(), args[0])
		return []*rel1.Release{rel}, err
	}
	flags.Flat = true
	r, err := flags.Render(a.App, cmd, args)
	if err != nil {
		return nil, err
	}
	return []*rel1.Release{r.Release}, nil
}

// release reads the latest revision of a release.
func (a *app) release(ctx context.Context, name string) (*rel1.Release, error) {
	client, err := a.Connect()
	if err == nil {
		err = client.CheckReachable(ctx)
	}
	if err != nil {
		return nil, err
	}
	revisions, err := a.HistoryIn(ctx, a.Settings.Namespace(), name)
	if err != nil {
		return nil, fmt.Errorf("release %s in namespace %s: %w; write a chart in this directory as ./%[1]s", name, a.Settings.Namespace(), client.ExplainDenied(err))
	}
	return revisions[len(revisions)-1], nil
}

// stackReleases returns all releases of a helmfile.
func (a *app) stackReleases(cmd *cobra.Command, flags *input.HelmfileFlags) (releases []*rel1.Release, err error) {
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return nil, err
	}
	all, err := command.Cancelable(cmd.Context(), func(ctx context.Context) ([]stack.RenderedRelease, error) {
		return a.renderStack(ctx, file, &mask.Mask{})
	})
	for _, r := range all {
		releases = append(releases, r.Release)
	}
	return releases, err
}

// addImages adds the images in the manifest and the hooks of a release. named is set if the list has several releases.
func addImages(to *report.Images, rel *rel1.Release, named bool) error {
	var secrets mask.Mask
	secrets.AddRelease(rel)
	add := func(manifest string, hook bool) error {
		docs, _, err := charts.ParseManifestWith(&documents.Reader{}, manifest, rel.Chart.Name())
		if err != nil {
			return fmt.Errorf("read the manifest of release %s: %w", rel.Name, secrets.Error(err))
		}
		for n, r := range charts.Resources(docs, rel.Namespace, charts.OfflineScope(docs...)) {
			for _, i := range refs.Images(r.Object, docs[n].Object.Object) {
				use := report.ImageUse{Object: r.Object, Hook: hook, Path: i.Path, By: i.By}
				if named {
					use.Release, use.Namespace = rel.Name, rel.Namespace
				}
				to.Add(secrets.Text(i.Name), i.Guess, use)
			}
		}
		return nil
	}
	if err := add(rel.Manifest, false); err != nil {
		return err
	}
	for _, h := range rel.Hooks {
		if err := add(h.Manifest, true); err != nil {
			return err
		}
	}
	return nil
}
