package author

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/kube/charts"
	"lockstep/kube/chartvalues"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

const valuesDiffLong = `Show what a new version of a chart does to your values: those that no longer have an effect, defaults that change where you set
nothing, and values that are now required. Nothing is rendered, and only a release needs a cluster.

CHART is a directory, an archive, a URL, oci://… or REPOSITORY/CHART; add @VERSION for a version. Instead of the first, you can
name a release: then its stored chart and values are compared, but not the defaults of its subcharts, which Helm does not store.

A value has no effect if no template, default, schema or condition of the new version, its subcharts included, can refer to it.
Where lockstep cannot know that, as below a map that a template uses as a whole, it does not list the value.

-o json prints one object: old and new (the charts), and changes (kind, path, old, new, by); kind is unused, default or required.`

// newValues returns the command values, which only groups others.
func (a *app) newValues() *cobra.Command {
	cmd := &cobra.Command{Use: "values COMMAND", GroupID: "look", Short: "compare the values of two versions of a chart", Args: command.Args(0, 0)}
	cmd.AddCommand(a.newValuesDiff())
	return cmd
}

func (a *app) newValuesDiff() *cobra.Command {
	var in input.ChartInput
	cmd := &cobra.Command{
		Use: "diff {CHART | RELEASE} CHART", Short: "show what a new version of a chart does to your values", Long: valuesDiffLong,
		Example: `lockstep values diff ./shop-1.0.0.tgz ./shop -f values.yaml
lockstep values diff bitnami/redis@19.0.0 bitnami/redis@20.0.0 -f redis.yaml
lockstep values diff shop ./shop -n shop -o json | jq '.changes[] | select(.kind == "unused")'`,
		Args: command.Args(2, 2), ValidArgsFunction: input.CompleteChart(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.diffValues(cmd.Context(), &in, args[0], args[1])
			if err != nil {
				return err
			}
			return a.Display(cmd).Show(d)
		},
	}
	input.AddValueFlags(cmd.Flags(), &in.Values)
	in.Chart.Add(cmd.Flags())
	cmd.Flags().Lookup("version").Usage = "version of both charts, unless one has @VERSION"
	command.AddOutput(cmd)
	return cmd
}

// diffValues compares two charts, or a release with a chart.
func (a *app) diffValues(ctx context.Context, in *input.ChartInput, before, after string) (d report.ValuesDiff, err error) {
	mine, err := charts.Values(in.Values, a.Settings)
	if err != nil {
		return d, err
	}
	var old chartvalues.Version
	if isRelease(before) && in.Chart.RepoURL == "" {
		rel, err := a.release(ctx, before)
		if err != nil {
			return d, err
		}
		old = chartvalues.OfRelease(rel)
		if len(mine) == 0 {
			mine = rel.Config
		}
	} else if old, err = a.version(ctx, in.Chart, before); err != nil {
		return d, err
	}
	now, err := a.version(ctx, in.Chart, after)
	if err != nil {
		return d, err
	}
	d.Old, d.New = report.ChartVersion{Name: old.Chart.Name(), Version: old.Chart.Metadata.Version}, report.ChartVersion{Name: now.Chart.Name(), Version: now.Chart.Metadata.Version}
	d.Changes = []report.ValueChange{}
	changes, err := chartvalues.Compare(old, now, mine)
	for _, c := range changes {
		d.Changes = append(d.Changes, report.ValueChange{Kind: string(c.Kind), Path: c.Path, Old: c.Old, New: c.New, By: c.By})
	}
	return d, err
}

// isRelease reports whether a word can only be the name of a release.
func isRelease(name string) bool { return !strings.ContainsAny(name, "/@") && !input.Exists(name) }

// version loads a chart, with the version after an @.
func (a *app) version(ctx context.Context, flags input.ChartFlags, ref string) (chartvalues.Version, error) {
	at := strings.LastIndex(ref, "@")
	if _, err := os.Stat(ref); err != nil && at > strings.LastIndex(ref, "/") && !strings.HasPrefix(ref[at:], "@sha256:") {
		ref, flags.Version = ref[:at], ref[at+1:]
	}
	c, err := flags.Load(ctx, ref, a.Settings)
	if err != nil {
		return chartvalues.Version{}, err
	}
	h, err := c.Helm()
	return chartvalues.Version{Chart: h}, err
}
