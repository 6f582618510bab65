package cli

import (
	"bufio"
	"context"

	"lockstep/engine/plan"
	"lockstep/kube/diagnose"
	"lockstep/kube/mask"
)

// inspector answers the screen's questions about objects, without secret values.
type inspector struct {
	d    *diagnose.Diagnoser
	mask *mask.Mask
}

func (i inspector) Events(ctx context.Context, o plan.Object) ([]string, error) {
	events, err := i.d.Events(ctx, o)
	lines := make([]string, len(events))
	for n, e := range events {
		lines[n] = i.mask.Text(e.String())
	}
	return lines, err
}

func (i inspector) Pods(ctx context.Context, o plan.Object) ([]string, error) {
	pods, err := i.d.Pods(ctx, o)
	lines := make([]string, len(pods))
	for n, p := range pods {
		lines[n] = i.mask.Text(p.String())
	}
	return lines, err
}

func (i inspector) Manifest(ctx context.Context, o plan.Object) (string, error) {
	text, err := i.d.Manifest(ctx, o)
	return i.mask.Text(text), err
}

// Logs follows the logs of the pod with the most trouble.
func (i inspector) Logs(ctx context.Context, o plan.Object, follow func(string)) error {
	pods, err := i.d.Pods(ctx, o)
	if err != nil || len(pods) == 0 {
		return err
	}
	logs, err := i.d.Logs(ctx, pods[0], "", true)
	if err != nil {
		return err
	}
	defer logs.Close()
	lines := bufio.NewScanner(logs)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		follow(i.mask.Text(lines.Text()))
	}
	if ctx.Err() != nil {
		return nil
	}
	return lines.Err()
}
