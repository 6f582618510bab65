package author

import (
	"context"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
)

// offlineChart is the screen's inspector for a chart without a cluster: every object would be
// created.
type offlineChart struct{ chart *command.Rendered }

const errOffline = board.Nothing("no cluster: this view shows only the chart")

func (offlineChart) Events(context.Context, plan.Object) ([]string, error)        { return nil, errOffline }
func (offlineChart) Pods(context.Context, plan.Object) ([]board.Pod, error)       { return nil, errOffline }
func (offlineChart) Logs(context.Context, plan.Object, func(board.LogLine)) error { return errOffline }
func (offlineChart) Live(context.Context, plan.Object) (string, error)            { return "", errOffline }
func (offlineChart) Change(context.Context, board.Item) (board.Change, error) {
	return board.Change{Action: "create", Message: "no cluster to compare with"}, nil
}

// Sent returns the rendered object with secret values hidden.
func (d offlineChart) Sent(_ context.Context, it board.Item) (string, error) {
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
	return "", board.Nothing("it is not in the manifest")
}
