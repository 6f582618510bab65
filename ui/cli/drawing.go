package cli

import (
	"context"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/board"
)

// drawing answers the screen's questions about a chart that is drawn without a
// cluster: what is rendered, and that all of it would be created.
type drawing struct{ chart *rendered }

const fromChartAlone = board.Nothing("there is no cluster: this is drawn from the chart alone")

func (drawing) Events(context.Context, plan.Object) ([]string, error)        { return nil, fromChartAlone }
func (drawing) Pods(context.Context, plan.Object) ([]board.Pod, error)       { return nil, fromChartAlone }
func (drawing) Logs(context.Context, plan.Object, func(board.LogLine)) error { return fromChartAlone }
func (drawing) Live(context.Context, plan.Object) (string, error)            { return "", fromChartAlone }
func (drawing) Change(context.Context, board.Item) (board.Change, error) {
	return board.Change{Action: "create", Message: "there is no cluster to compare it with"}, nil
}

// Sent is an object as it is rendered, with secret values hidden.
func (d drawing) Sent(_ context.Context, it board.Item) (string, error) {
	for n, r := range d.chart.Resources {
		if r.Object != it.Object {
			continue
		}
		u := d.chart.Docs[n].Object.DeepCopy()
		kube.MaskObject(u.Object)
		var known kube.Mask
		known.Release(d.chart.Release)
		text, err := kube.YAML(u.Object)
		return known.Text(text), err
	}
	return "", board.Nothing("it is not among the objects of the manifest")
}
