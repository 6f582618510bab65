// Package screen opens the board for commands, and connects it to clusters, runs and plans with
// implementations of board.Inspector and ChangeSource. Only the packages of ui/cli import it.
package screen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/board"
	inspectors "lockstep/ui/board/inspector"
)

// inspector reads objects from the cluster and hides secret values.
type inspector struct {
	ChangeSource
	diagnoser *kube.Diagnoser
	mask      *kube.Mask
	refresh   func(context.Context) error // called before anything is shown, so that mask knows all values
}

// NewInspector returns an inspector that reads objects from the cluster, and changes from a run.
func NewInspector(changes ChangeSource, d *kube.Diagnoser, mask *kube.Mask) board.Inspector {
	return inspector{changes, d, mask, func(context.Context) error { return nil }}
}

// maxRecordAge is how old the records may be from which an inspector knows what to hide.
const maxRecordAge = time.Second

// NewFollowingInspector is like NewInspector for a run in another process, which may create revisions with new secret
// values. It shows nothing while it cannot read the records of the release (S14).
func NewFollowingInspector(changes ChangeSource, d *kube.Diagnoser, view *kube.View) board.Inspector {
	var mu sync.Mutex
	var read time.Time
	return inspector{changes, d, view.Mask(), func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		began := time.Now()
		if began.Sub(read) < maxRecordAge {
			return nil
		}
		if err := view.Refresh(ctx); err != nil {
			return board.Unavailable("secret values cannot be hidden: " + err.Error())
		}
		read = began
		return nil
	}}
}

// Cluster is a connection to a cluster.
type Cluster interface {
	Signs(context.Context) (kube.ClusterSigns, error)
}

// Changes returns the changes of an operation in this process.
func Changes(op *kube.Operation, c Cluster) ChangeSource { return localRun{op, c} }

// ChangeSource returns what a run changes in objects. Changes makes one for an operation in this
// process; *remote.Run is one for a run in another process.
type ChangeSource = inspectors.ChangeSource

// localRun is the ChangeSource of an operation in this process.
type localRun struct {
	op      *kube.Operation
	cluster Cluster
}

// Cluster returns what identifies the cluster of the run.
func (p localRun) Cluster(ctx context.Context) (string, error) {
	signs, err := p.cluster.Signs(ctx)
	if err != nil {
		return "", err
	}
	text, err := signs.MarshalText()
	return string(text), err
}

func (p localRun) Change(ctx context.Context, it board.Item) (board.Change, error) {
	c, err := p.op.Change(ctx, it.Unit, it.Kind, it.Object)
	if err != nil {
		return board.Change{}, boardError(err)
	}
	return BoardChange(c), nil
}

// BoardChange converts a change for the board.
func BoardChange(c kube.Change) board.Change {
	out := board.Change{Action: board.Action(c.Action), Message: c.Message}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, board.Field(f))
	}
	return out
}

func (p localRun) Sent(ctx context.Context, it board.Item) (string, error) {
	text, err := p.op.Sent(ctx, it.Unit, it.Kind, it.Object)
	return text, boardError(err)
}

// NoChanges is a ChangeSource without changes. Its text is the reason.
type NoChanges string

func (n NoChanges) Change(context.Context, board.Item) (board.Change, error) {
	return board.Change{}, board.Unavailable(n)
}

func (n NoChanges) Sent(context.Context, board.Item) (string, error) { return "", board.Unavailable(n) }

// Disconnected is a board.Inspector without a cluster: it has only changes.
type Disconnected struct {
	ChangeSource
	Why board.Unavailable // why it has nothing else; "" for a default
}

func (d Disconnected) why() error {
	return cmp.Or(d.Why, "this screen is not connected to the cluster")
}

func (d Disconnected) Events(context.Context, plan.Object) ([]string, error)        { return nil, d.why() }
func (d Disconnected) Pods(context.Context, plan.Object) ([]board.Pod, error)       { return nil, d.why() }
func (d Disconnected) Logs(context.Context, plan.Object, func(board.LogLine)) error { return d.why() }
func (d Disconnected) Live(context.Context, plan.Object) (string, error)            { return "", d.why() }

func (i inspector) Events(ctx context.Context, o plan.Object) ([]string, error) {
	if err := i.refresh(ctx); err != nil {
		return nil, err
	}
	events, err := i.diagnoser.Events(ctx, o)
	lines := make([]string, len(events))
	for n, e := range events {
		lines[n] = i.mask.Text(e.String())
	}
	return lines, boardError(err)
}

func (i inspector) Pods(ctx context.Context, o plan.Object) ([]board.Pod, error) {
	if err := i.refresh(ctx); err != nil {
		return nil, err
	}
	pods, err := i.diagnoser.Pods(ctx, o)
	out := make([]board.Pod, len(pods))
	for n, p := range pods {
		ready, of, restarts := p.Count()
		out[n] = board.Pod{
			Name: p.Name, Ready: fmt.Sprintf("%d/%d", ready, of), Restarts: strconv.Itoa(restarts), Created: p.Created, Node: p.Node,
			Phase: p.Phase, Why: i.mask.Text(p.Why),
		}
	}
	return out, boardError(err)
}

func (i inspector) Live(ctx context.Context, o plan.Object) (string, error) {
	if err := i.refresh(ctx); err != nil {
		return "", err
	}
	text, err := i.diagnoser.Manifest(ctx, o)
	return i.mask.Text(text), boardError(err)
}

// boardError returns board.Unavailable if err only says why there is nothing to show, or else err.
func boardError(err error) error {
	if why, is := kube.NothingToShow(err); is {
		return board.Unavailable(why)
	}
	return err
}

func (i inspector) Logs(ctx context.Context, o plan.Object, follow func(board.LogLine)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := i.diagnoser.FollowLogs(ctx, o, func(l kube.LogLine) {
		if err := i.refresh(ctx); err != nil {
			cancel(err)
			return
		}
		hide := i.mask.Output
		if l.Note {
			hide = i.mask.Text
		}
		follow(board.LogLine{Source: board.LogSource{Pod: l.Pod, Container: l.Container, Instance: l.Instance}, Time: l.Time, Text: hide(l.Text), Note: l.Note})
	})
	if hidden := board.Unavailable(""); errors.As(context.Cause(ctx), &hidden) {
		return hidden
	}
	return boardError(err)
}

// Shell prepares a shell in a container of one of the object's pods.
func (i inspector) Shell(ctx context.Context, o plan.Object, pod, container string) (tea.ExecCommand, string, error) {
	s, err := i.diagnoser.Shell(ctx, o, pod, container)
	if err != nil {
		return nil, "", boardError(err)
	}
	where := "pod " + s.Pod + ", container " + s.Container
	return &shell{run: s, ctx: ctx}, where, nil
}

// shell is a tea.ExecCommand that uses the terminal of the process, whatever streams it gets.
type shell struct {
	run *kube.Shell
	ctx context.Context
}

func (*shell) SetStdin(io.Reader)  {}
func (*shell) SetStdout(io.Writer) {}
func (*shell) SetStderr(io.Writer) {}

func (s *shell) Run() error { return s.run.Run(s.ctx, os.Stdin, os.Stdout) }
