package cli

import (
	"bufio"
	"context"
	"errors"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/diagnose"
	"lockstep/kube/mask"
	"lockstep/ui/board"
)

// inspector answers the screen's questions about objects, without secret values.
type inspector struct {
	d     *diagnose.Diagnoser
	mask  *mask.Mask
	ahead foresight
}

// foresight says what is done to objects. *kube.Operation is one.
type foresight interface {
	Change(ctx context.Context, u event.Unit, kind event.PhaseKind, o plan.Object) (kube.Change, error)
	Sent(ctx context.Context, u event.Unit, kind event.PhaseKind, o plan.Object) (string, error)
}

// nobody is who knows nothing of what is done, and says why.
type nobody string

func (n nobody) Change(context.Context, event.Unit, event.PhaseKind, plan.Object) (kube.Change, error) {
	return kube.Change{}, kube.NothingSent(n)
}

func (n nobody) Sent(context.Context, event.Unit, event.PhaseKind, plan.Object) (string, error) {
	return "", kube.NothingSent(n)
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

func (i inspector) Change(ctx context.Context, it board.Item) (board.Change, error) {
	c, err := i.ahead.Change(ctx, it.Unit, it.Kind, it.Object)
	if err != nil {
		return board.Change{}, toldBy(err)
	}
	out := board.Change{Action: board.Action(c.Action), Message: c.Message}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, board.Field(f))
	}
	return out, nil
}

func (i inspector) Sent(ctx context.Context, it board.Item) (string, error) {
	text, err := i.ahead.Sent(ctx, it.Unit, it.Kind, it.Object)
	return text, toldBy(err)
}

func (i inspector) Live(ctx context.Context, o plan.Object) (string, error) {
	text, err := i.d.Manifest(ctx, o)
	return i.mask.Text(text), toldBy(err)
}

// toldBy makes an error that says why there is nothing to show such an answer.
func toldBy(err error) error {
	if nothing := kube.NothingSent(""); errors.As(err, &nothing) {
		return board.Nothing(nothing)
	}
	if errors.Is(err, diagnose.ErrAbsent) {
		return board.Nothing("it is not in the cluster")
	}
	return err
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
