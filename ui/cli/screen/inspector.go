// Package screen opens the board for commands, and connects it to clusters, runs and plans with
// implementations of inspect.Cluster and inspect.ChangeSource. Only the packages of ui/cli import it.
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

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/mask"
)

// inspector reads objects from the cluster and hides secret values.
type inspector struct {
	inspect.ChangeSource
	diagnoser *diagnose.Diagnoser
	mask      *mask.Mask
	refresh   func(context.Context) error // called before anything is shown, so that mask knows all values
}

// NewInspector returns an inspector that reads objects from the cluster, and changes from a run.
func NewInspector(changes inspect.ChangeSource, d *diagnose.Diagnoser, mask *mask.Mask) inspect.Cluster {
	return inspector{changes, d, mask, func(context.Context) error { return nil }}
}

// maxRecordAge is how old the records may be from which an inspector knows what to hide.
const maxRecordAge = time.Second

// NewFollowingInspector is like NewInspector for a run in another process, which may create revisions with new secret
// values. It shows nothing while it cannot read the records of the release (S14).
func NewFollowingInspector(changes inspect.ChangeSource, d *diagnose.Diagnoser, view *kube.View) inspect.Cluster {
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
			return inspect.Unavailable("secret values cannot be hidden: " + err.Error())
		}
		read = began
		return nil
	}}
}

// Cluster is a connection to a cluster.
type Cluster interface {
	Signs(context.Context) (connect.Signs, error)
}

// Changes returns the changes of an operation in this process.
func Changes(op *kube.Operation, c Cluster) inspect.ChangeSource { return localRun{op, identified{c}} }

// StackChanges returns the ChangeSource of a stack in this process, which knows its cluster and no changes; nil if it has several
// clusters.
func StackChanges(clients []*kube.Client) inspect.ChangeSource {
	if len(clients) != 1 {
		return nil
	}
	return stackRun{"not available from this run", identified{clients[0]}}
}

// localRun is the ChangeSource of an operation in this process.
type localRun struct {
	*kube.Operation
	identified
}

type stackRun struct {
	NoChanges
	identified
}

// identified is a run whose cluster is known.
type identified struct{ cluster Cluster }

// Cluster returns what identifies the cluster of the run.
func (p identified) Cluster(ctx context.Context) (string, error) {
	signs, err := p.cluster.Signs(ctx)
	if err != nil {
		return "", err
	}
	text, err := signs.MarshalText()
	return string(text), err
}

// NoChanges is a ChangeSource without changes. Its text is the reason.
type NoChanges string

func (n NoChanges) Change(context.Context, inspect.Item) (inspect.Change, error) {
	return inspect.Change{}, inspect.Unavailable(n)
}

func (n NoChanges) Sent(context.Context, inspect.Item) (string, error) {
	return "", inspect.Unavailable(n)
}

// Disconnected is an inspect.Cluster without a cluster: it has only changes.
type Disconnected struct {
	inspect.ChangeSource
	Why inspect.Unavailable // why it has nothing else; "" for a default
}

func (d Disconnected) why() error {
	return cmp.Or(d.Why, "this screen is not connected to the cluster")
}

func (d Disconnected) Events(context.Context, plan.Object) ([]event.ClusterEvent, error) {
	return nil, d.why()
}
func (d Disconnected) Pods(context.Context, plan.Object) ([]inspect.Pod, error)       { return nil, d.why() }
func (d Disconnected) Logs(context.Context, plan.Object, func(inspect.LogLine)) error { return d.why() }
func (d Disconnected) Live(context.Context, plan.Object) (string, error)              { return "", d.why() }

func (i inspector) Events(ctx context.Context, o plan.Object) ([]event.ClusterEvent, error) {
	if err := i.refresh(ctx); err != nil {
		return nil, err
	}
	events, err := i.diagnoser.Events(ctx, o)
	for n := range events {
		e := &events[n]
		e.Object, e.Reason, e.Message = i.mask.Text(e.Object), i.mask.Text(e.Reason), i.mask.Text(e.Message)
	}
	return events, err
}

func (i inspector) Pods(ctx context.Context, o plan.Object) ([]inspect.Pod, error) {
	if err := i.refresh(ctx); err != nil {
		return nil, err
	}
	pods, err := i.diagnoser.Pods(ctx, o)
	out := make([]inspect.Pod, len(pods))
	for n, p := range pods {
		ready, of, restarts := p.Count()
		out[n] = inspect.Pod{
			Name: p.Name, Ready: fmt.Sprintf("%d/%d", ready, of), Restarts: strconv.Itoa(restarts), Created: p.Created, Node: p.Node,
			Phase: p.Phase, Why: i.mask.Text(p.Why),
		}
	}
	return out, err
}

func (i inspector) Live(ctx context.Context, o plan.Object) (string, error) {
	if err := i.refresh(ctx); err != nil {
		return "", err
	}
	text, err := i.diagnoser.Manifest(ctx, o)
	return i.mask.Text(text), err
}

func (i inspector) Logs(ctx context.Context, o plan.Object, follow func(inspect.LogLine)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := i.diagnoser.FollowLogs(ctx, o, func(l inspect.LogLine) {
		if err := i.refresh(ctx); err != nil {
			cancel(err)
			return
		}
		hide := i.mask.Output
		if l.Note {
			hide = i.mask.Text
		}
		l.Text = hide(l.Text)
		follow(l)
	})
	if hidden := inspect.Unavailable(""); errors.As(context.Cause(ctx), &hidden) {
		return hidden
	}
	return err
}

// Shell prepares a shell in a container of one of the object's pods.
func (i inspector) Shell(ctx context.Context, o plan.Object, pod, container string) (tea.ExecCommand, string, error) {
	s, err := i.diagnoser.Shell(ctx, o, pod, container)
	if err != nil {
		return nil, "", err
	}
	where := "pod " + s.Pod + ", container " + s.Container
	return &shell{run: s, ctx: ctx}, where, nil
}

// shell is a tea.ExecCommand that uses the terminal of the process, whatever streams it gets.
type shell struct {
	run *diagnose.Shell
	ctx context.Context
}

func (*shell) SetStdin(io.Reader)  {}
func (*shell) SetStdout(io.Writer) {}
func (*shell) SetStderr(io.Writer) {}

func (s *shell) Run() error { return s.run.Run(s.ctx, os.Stdin, os.Stdout) }
