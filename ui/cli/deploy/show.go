package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/screen"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// show runs an operation and shows it, on the screen or as lines, until it is over. It
// reports whether the user asked to restart it.
func (a *app) show(cmd *cobra.Command, client *kube.Client, op *kube.Operation, j job) (restart bool, err error) {
	var restarted atomic.Bool
	d := a.Display(cmd, j.mode.Report())
	a.Logs.Hide(op.Mask().Text)
	first := firstRun()
	record := newRecord(d)
	record.KeepManifests(op.Manifests)
	defer record.Close()
	next := func(s *event.State) []string { return j.next(s, op.Mask()) }
	opts := report.Options{Next: next, Record: record.Name}
	var editing board.Editor
	var editedElsewhere remote.Editor
	if op.Editable() == nil {
		ed := editor{op, j.folder, j.saved}
		editing, editedElsewhere = ed, ed
	}
	served, err := serve(op, j, editedElsewhere)
	if err != nil {
		return false, err
	}
	defer unserve(served)
	if in := client.Orders(cmd.Context()); in != nil {
		go remote.ServeOrders(cmd.Context(), in, cmd.OutOrStdout(), op.Command, screen.Changes(op), editedElsewhere)
	}
	if served != nil {
		opts.Steer = runs.CtlCommand(op.Info())
	}
	alone := &unattended{op: op, timeout: j.common.Timeout, rollback: j.interrupt, joined: func() int { return joined(served) }}
	signals := command.OnSignal{Rollback: j.interrupt, Hangup: j.hangup, Outcome: cmp.Or(j.outcome, "the release will be marked failed"), Unattended: alone.start}
	var say report.Notices
	if j.mode != command.ModeScreen {
		say = d
	}
	if err := a.Signals.Steer(op, signals, say); err != nil {
		return false, err
	}
	defer a.Signals.Finished()
	var state *event.State
	if j.mode == command.ModeScreen {
		o := board.Options{First: first, AtQuit: a.Signals.AtQuit, Kubectl: client.KubectlFlags(), Editor: editing, Next: func(s *event.State) []string { return nextLines(s, opts) }}
		if j.reload != nil {
			o.Restart = func(ctx context.Context) error {
				values, err := op.Values(false)
				if err == nil {
					err = j.reload(ctx, values)
				}
				if err == nil {
					restarted.Store(true)
				}
				return err
			}
		}
		state, err = a.onScreen(cmd, client, op, o, opts, func() { unserve(served) }, record, a.Signals, alone)
	} else {
		state, err = run(op, record, d.Operation(opts), a.Signals, alone)
	}
	command.WarnIf(d, j.outcomes.End(report.NewOutcome(state, next(state))))
	return restarted.Load(), command.Ending(state, err, j.mode)
}

// run runs an operation and passes its events to the consumers. The error is why it
// failed.
func run(op command.Operation, consumers ...report.Consumer) (*event.State, error) {
	over := make(chan error, 1)
	go func() {
		defer op.Feed().Close()
		over <- op.Run()
	}()
	state := report.Follow(op.Feed(), consumers...)
	return state, <-over
}

// onScreen shows an operation on the screen, and its summary afterwards. It calls over
// when the operation ends, which may be before the screen closes.
func (a *app) onScreen(cmd *cobra.Command, client *kube.Client, op *kube.Operation, o board.Options, opts report.Options, over func(), consumers ...report.Consumer) (*event.State, error) {
	d := a.Display(cmd, report.ModeText)
	look, lookErr := theme.FromEnv(os.Getenv)
	restore := a.Logs.ToFile(d)
	defer restore()
	var state *event.State
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state, runErr = run(op, consumers...)
		a.Signals.Finished()
		over()
	}()
	screen.DiscardInput()
	o.Source, o.Command, o.Theme = op.Feed().Reader(), op.Command, look
	o.Inspector = screen.NewInspector(screen.Changes(op), client.Diagnoser(), op.Mask())
	later, wait := screen.Later(client, op.Info().Release, op.Info().Namespace)
	o.Later = later
	err := board.Run(cmd.Context(), o)
	wait()
	switch {
	case errors.Is(err, board.ErrTerminalGone):
		a.Signals.Hangup()
		command.DropTerminal()
	case err != nil && !errors.Is(err, command.ErrInterrupted):
		op.Command(event.Command{Name: event.Abort, Reason: err.Error()})
	}
	<-ended
	report.Summary(cmd.OutOrStdout(), state, a.SummaryOptions(opts))
	command.WarnIf(d, lookErr)
	return state, runErr
}

// nextLines are the commands that the screen proposes, including a replay.
func nextLines(s *event.State, opts report.Options) []string {
	lines := opts.Next(s)
	if name := opts.Record(); name != "" {
		lines = append(lines, "lockstep replay "+name)
	}
	return lines
}

// firstRun reports whether there is no record of any run yet.
func firstRun() bool {
	dir, err := report.RunDir()
	if err != nil {
		return false
	}
	_, err = os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// newRecord keeps the record of a run if possible.
func newRecord(say report.Notices) *report.RunLog {
	dir, err := report.RunDir()
	if err != nil {
		dir = "" // the record's own error says the same
	}
	return report.NewRunLog(dir, say.Warn)
}

// serve lets other processes watch and control an operation (R47). If that fails, the
// operation runs without, unless it may wait for them.
func serve(op *kube.Operation, j job, editor remote.Editor) (s *remote.Server, err error) {
	dir, err := runs.LiveDir()
	if err == nil {
		s, err = remote.Serve(dir, op.Feed(), op.Command, screen.Changes(op), editor)
	}
	if err == nil || j.steering == "" {
		return s, nil
	}
	return nil, fmt.Errorf("%s needs the screen or a socket to control the run from another terminal: %w", j.steering, err)
}

// joined reports how many clients are attached; s may be nil.
func joined(s *remote.Server) int {
	if s == nil {
		return 0
	}
	return s.Clients()
}

// unserve ends serve; s may be nil.
func unserve(s *remote.Server) {
	if s != nil {
		s.Close()
	}
}
