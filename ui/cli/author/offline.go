package author

import (
	"context"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/kube/charts"
	"lockstep/kube/mask"
	"lockstep/ui/board"
	"lockstep/ui/cli/input"
	"lockstep/ui/cli/screen"
)

// showChart shows the plan of a chart on the screen, without a cluster.
func (a *app) showChart(cmd *cobra.Command, r *input.Rendered) error {
	phases := []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: r.Planned.Groups}}
	o := board.Options{Title: cmd.Name() + " " + r.Tree.Path, Inspector: offlineInspector(r)}
	return screen.ShowPlan(a.App, cmd, o, nil, phases, r.Planned.Warnings)
}

const errOffline = inspect.Unavailable("no cluster: this view shows only the chart")

func offlineInspector(r *input.Rendered) inspect.Cluster {
	return screen.Disconnected{ChangeSource: offlineChart{r}, Why: errOffline}
}

// offlineChart has the changes of a chart without a cluster: every object would be created.
type offlineChart struct{ chart *input.Rendered }

func (offlineChart) Change(context.Context, inspect.Item) (inspect.Change, error) {
	return inspect.Change{Action: inspect.Create, Message: "no cluster to compare with"}, nil
}

// Sent returns the rendered object with secret values hidden.
func (o offlineChart) Sent(_ context.Context, it inspect.Item) (string, error) {
	for n, r := range o.chart.Resources {
		if r.Object != it.Object {
			continue
		}
		u := o.chart.Docs[n].Object.DeepCopy()
		mask.Object(u.Object, nil)
		var known mask.Mask
		known.AddRelease(o.chart.Release)
		text, err := charts.YAML(u.Object)
		return known.Text(text), err
	}
	return "", inspect.Unavailable("not in the manifest")
}
