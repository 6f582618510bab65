package author

import (
	"context"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
)

// offlineChart answers the screen's questions about a chart that is drawn without a
// cluster: what is rendered, and that all of it would be created.
type offlineChart struct{ chart *command.Rendered }

const errOffline = board.Nothing("there is no cluster: this is drawn from the chart alone")

func (offlineChart) Events(context.Context, plan.Object) ([]string, error)        { return nil, errOffline }
func (offlineChart) Pods(context.Context, plan.Object) ([]board.Pod, error)       { return nil, errOffline }
func (offlineChart) Logs(context.Context, plan.Object, func(board.LogLine)) error { return errOffline }
func (offlineChart) Live(context.Context, plan.Object) (string, error)            { return "", errOffline }
func (offlineChart) Change(context.Context, board.Item) (board.Change, error) {
	return board.Change{Action: "create", Message: "there is no cluster to compare it with"}, nil
}

// Sent is an object as it is rendered, with secret values hidden.
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
	return "", board.Nothing("it is not among the objects of the manifest")
}
