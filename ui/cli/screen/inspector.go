// Package screen connects the board with clusters, runs and plans.
package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/board"
)

// inspector answers the screen's questions about objects and hides secret values.
type inspector struct {
	ChangeSource
	d    *kube.Diagnoser
	mask *kube.Mask
}

// NewInspector asks the cluster about objects, and changes about what a run does to them.
func NewInspector(changes ChangeSource, d *kube.Diagnoser, mask *kube.Mask) board.Inspector {
	return inspector{changes, d, mask}
}

// Changes is what an operation of this process does to objects.
func Changes(op *kube.Operation) ChangeSource { return ownRun{op} }

// Disconnected answers for a run elsewhere whose cluster cannot be asked.
func Disconnected(changes ChangeSource) board.Inspector { return distant{changes} }

// ChangeSource knows what a run does to objects: Changes for an operation of this
// process, *remote.Run for another process.
type ChangeSource interface {
	Change(context.Context, board.Item) (board.Change, error)
	Sent(context.Context, board.Item) (string, error)
}

// ownRun is an operation of this process.
type ownRun struct{ op *kube.Operation }

func (p ownRun) Change(ctx context.Context, it board.Item) (board.Change, error) {
	c, err := p.op.Change(ctx, it.Unit, it.Kind, it.Object)
	if err != nil {
		return board.Change{}, asAnswer(err)
	}
	return ChangeOf(c), nil
}

// ChangeOf is a change as the screen shows it.
func ChangeOf(c kube.Change) board.Change {
	out := board.Change{Action: board.Action(c.Action), Message: c.Message}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, board.Field{In: f.In, Lines: f.Lines})
	}
	return out
}

func (p ownRun) Sent(ctx context.Context, it board.Item) (string, error) {
	text, err := p.op.Sent(ctx, it.Unit, it.Kind, it.Object)
	return text, asAnswer(err)
}

// NoChanges is a ChangeSource without a run; the text says why.
type NoChanges string

func (n NoChanges) Change(context.Context, board.Item) (board.Change, error) {
	return board.Change{}, board.Nothing(n)
}

func (n NoChanges) Sent(context.Context, board.Item) (string, error) { return "", board.Nothing(n) }

// distant answers only from a run in another process.
type distant struct{ ChangeSource }

const notConnected = board.Nothing("this screen is not connected to the cluster")

func (distant) Events(context.Context, plan.Object) ([]string, error)        { return nil, notConnected }
func (distant) Pods(context.Context, plan.Object) ([]board.Pod, error)       { return nil, notConnected }
func (distant) Logs(context.Context, plan.Object, func(board.LogLine)) error { return notConnected }
func (distant) Live(context.Context, plan.Object) (string, error)            { return "", notConnected }

func (i inspector) Events(ctx context.Context, o plan.Object) ([]string, error) {
	events, err := i.d.Events(ctx, o)
	lines := make([]string, len(events))
	for n, e := range events {
		lines[n] = i.mask.Text(e.String())
	}
	return lines, asAnswer(err)
}

func (i inspector) Pods(ctx context.Context, o plan.Object) ([]board.Pod, error) {
	pods, err := i.d.Pods(ctx, o)
	out := make([]board.Pod, len(pods))
	for n, p := range pods {
		ready, of, restarts := p.Count()
		out[n] = board.Pod{
			Name: p.Name, Ready: fmt.Sprintf("%d/%d", ready, of), Restarts: strconv.Itoa(restarts), Created: p.Created, Node: p.Node,
			Phase: p.Phase, Why: i.mask.Text(p.Why),
		}
	}
	return out, asAnswer(err)
}

func (i inspector) Live(ctx context.Context, o plan.Object) (string, error) {
	text, err := i.d.Manifest(ctx, o)
	return i.mask.Text(text), asAnswer(err)
}

// asAnswer turns an error that explains why there is nothing to show into an answer.
func asAnswer(err error) error {
	if why, is := kube.NothingToShow(err); is {
		return board.Nothing(why)
	}
	return err
}

func (i inspector) Logs(ctx context.Context, o plan.Object, follow func(board.LogLine)) error {
	return asAnswer(i.d.FollowLogs(ctx, o, func(l kube.LogLine) {
		follow(board.LogLine{Source: board.LogSource{Pod: l.Pod, Container: l.Container, Try: l.Try}, Time: l.Time, Text: i.mask.Text(l.Text), Note: l.Note})
	}))
}

// Shell prepares a shell in a container of the object's pods.
func (i inspector) Shell(ctx context.Context, o plan.Object, pod, container string) (tea.ExecCommand, string, error) {
	s, err := i.d.Shell(ctx, o, pod, container)
	if err != nil {
		return nil, "", asAnswer(err)
	}
	where := "pod " + s.Pod + ", container " + s.Container
	return &shell{run: s, ctx: ctx}, where, nil
}

// shell is a tea.ExecCommand. It takes the process's own terminal, not the screen's
// guarded streams.
type shell struct {
	run *kube.Shell
	ctx context.Context
}

func (*shell) SetStdin(io.Reader)  {}
func (*shell) SetStdout(io.Writer) {}
func (*shell) SetStderr(io.Writer) {}

func (s *shell) Run() error { return s.run.Run(s.ctx, os.Stdin, os.Stdout) }
