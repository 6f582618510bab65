package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// show runs an operation and shows it, on the screen or as lines. It returns
// when the operation is over, and reports whether it is to be started anew.
func (a *app) show(cmd *cobra.Command, client *kube.Client, op *kube.Operation, j job) (again bool, err error) {
	var anew atomic.Bool
	d := a.display(cmd, j.mode.lines())
	a.logs.hide(op.Mask().Text)
	record := newRecord(d)
	record.KeepManifests(op.Manifests)
	defer record.Close()
	next := func(s *event.State) []string { return j.next(s, op.Mask()) }
	opts := report.Options{Next: next, Record: record.Name}
	served, err := serveRun(op, j)
	if err != nil {
		return false, err
	}
	defer unserve(served)
	if served != nil {
		opts.Steer = steerWith(op.Info())
	}
	alone := &deserted{op: op, patience: j.common.Timeout, rollback: j.interrupt, joined: func() int { return joined(served) }}
	signals := order{rollback: j.interrupt, hangup: j.hangup, outcome: cmp.Or(j.outcome, "the release will be marked failed"), deserted: alone.begin}
	var say report.Notices
	if j.mode != modeScreen {
		say = d
	}
	if err := a.in.steer(op, signals, say); err != nil {
		return false, err
	}
	defer a.in.finished()
	var state *event.State
	if j.mode == modeScreen {
		o := board.Options{AtQuit: a.in.atQuit, Kubectl: client.KubectlFlags(), Next: func(s *event.State) []string { return nextLines(s, opts) }}
		if op.Editable() == nil {
			o.Editor = editor{op, j.folder}
		}
		if j.anew != nil {
			o.Anew = func(ctx context.Context) error {
				values, err := op.Values(false)
				if err == nil {
					err = j.anew(ctx, values)
				}
				if err == nil {
					anew.Store(true)
				}
				return err
			}
		}
		state, err = a.onScreen(cmd, client, op, o, opts, func() { unserve(served) }, record, a.in, alone)
	} else {
		state, err = run(op, record, d.Operation(opts), a.in, alone)
	}
	warnIf(d, j.outcomes.End(report.NewOutcome(state, next(state))))
	return anew.Load(), ending(state, err, j.mode)
}

// run runs an operation to its end while the consumers get its events. The
// error is why it failed.
func run(op operation, consumers ...report.Consumer) (*event.State, error) {
	over := make(chan error, 1)
	go func() {
		defer op.Feed().Close()
		over <- op.Run()
	}()
	state := report.Follow(op.Feed(), consumers...)
	return state, <-over
}

// onScreen shows an operation on the screen, and its summary afterwards. Over is
// called when the operation is over, while the screen may still be there.
func (a *app) onScreen(cmd *cobra.Command, client *kube.Client, op *kube.Operation, o board.Options, opts report.Options, over func(), consumers ...report.Consumer) (*event.State, error) {
	d := a.display(cmd, report.ModeText)
	look, lookErr := theme.FromEnv(os.Getenv)
	restore := a.logs.toFile(d)
	defer restore()
	var state *event.State
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state, runErr = run(op, consumers...)
		a.in.finished()
		over()
	}()
	dropTyped()
	o.Source, o.Command, o.Theme = op.Feed().Reader(), op.Command, look
	o.Inspector = newInspector(changesOf(op), client.Diagnoser(), op.Mask())
	err := board.Run(cmd.Context(), o)
	switch {
	case errors.Is(err, board.ErrTerminalGone):
		a.in.hangup()
		dropTerminal()
	case err != nil && !errors.Is(err, errInterrupted):
		op.Command(event.Command{Name: event.Abort, Reason: err.Error()})
	}
	<-ended
	report.Summary(cmd.OutOrStdout(), state, a.afterScreen(opts))
	warnIf(d, lookErr)
	return state, runErr
}

// nextLines are what the screen says to type next: how to look at the run again, too.
func nextLines(s *event.State, opts report.Options) []string {
	lines := opts.Next(s)
	if name := opts.Record(); name != "" {
		lines = append(lines, "lockstep replay "+name)
	}
	return lines
}

// warnIf tells of something that went wrong and does not matter much.
func warnIf(say report.Notices, err error) {
	if err != nil {
		say.Warn(err.Error())
	}
}

// newRecord keeps the record of a run where that is possible.
func newRecord(say report.Notices) *report.RunLog {
	dir, err := report.RunDir()
	if err != nil {
		dir = "" // the record's own error says the same
	}
	return report.NewRunLog(dir, say.Warn)
}

// serveRun lets other processes watch and steer an operation (R47). Where that
// cannot be, the operation goes on without, unless it may wait for them.
func serveRun(op *kube.Operation, j job) (s *remote.Server, err error) {
	dir, err := liveDir()
	if err == nil {
		s, err = remote.Serve(dir, op.Feed(), op.Command, changesOf(op))
	}
	if err == nil || j.steering == "" {
		return s, nil
	}
	return nil, fmt.Errorf("%s needs the screen, or a way to steer the run from elsewhere, and there is none: %w", j.steering, err)
}

// joined reports how many watch a run from elsewhere; s may be nil.
func joined(s *remote.Server) int {
	if s == nil {
		return 0
	}
	return s.Clients()
}

// unserve ends what serveRun has begun.
func unserve(s *remote.Server) {
	if s != nil {
		s.Close()
	}
}
