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

// show runs an operation on the screen or as lines until it ends. It reports whether the user
// restarted it.
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
	var boardEditor board.Editor
	var remoteEditor remote.Editor
	if op.Editable() == nil {
		ed := editor{op, j.dir, j.saved}
		boardEditor, remoteEditor = ed, ed
	}
	changes := screen.Changes(op)
	server, err := serve(op, changes, remoteEditor, j.controlFlag)
	if err != nil {
		return false, err
	}
	defer closeServer(server)
	if in := client.Requests(cmd.Context()); in != nil {
		go remote.ServeRequests(cmd.Context(), in, cmd.OutOrStdout(), op.Command, changes, remoteEditor)
	}
	if server != nil {
		opts.Steer = runs.CtlCommand(op.Info())
	}
	guard := &unattended{op: op, timeout: j.common.Timeout, rollback: j.rollbackOnSignal, attached: func() int { return attachedClients(server) }}
	signals := command.SignalPolicy{Rollback: j.rollbackOnSignal, Hangup: j.hangup, Outcome: cmp.Or(j.outcome, "the release will be marked failed"), Unattended: guard.start}
	var notices report.Notices
	if j.mode != command.ModeScreen {
		notices = d
	}
	if err := a.Signals.Bind(op, signals, notices); err != nil {
		return false, err
	}
	defer a.Signals.Unbind()
	var state *event.State
	if j.mode == command.ModeScreen {
		o := board.Options{First: first, AtQuit: a.Signals.AtQuit, Kubectl: client.KubectlFlags(), Editor: boardEditor, Next: func(s *event.State) []string { return nextLines(s, opts) }}
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
		state, err = a.onScreen(cmd, client, op, o, opts, func() { closeServer(server) }, record, a.Signals, guard)
	} else {
		state, err = run(op, record, d.Operation(opts), a.Signals, guard)
	}
	command.WarnIf(d, j.outcomes.End(report.NewOutcome(state, next(state))))
	return restarted.Load(), command.OperationError(state, err, j.mode)
}

// run runs an operation and passes its events to the consumers.
func run(op command.Operation, consumers ...report.Consumer) (*event.State, error) {
	over := make(chan error, 1)
	go func() {
		defer op.Feed().Close()
		over <- op.Run()
	}()
	state := report.Follow(op.Feed(), consumers...)
	return state, <-over
}

// onScreen runs an operation on the screen and prints its summary. It calls over when the
// operation ends, which may be before the screen closes.
func (a *app) onScreen(cmd *cobra.Command, client *kube.Client, op *kube.Operation, o board.Options, opts report.Options, over func(), consumers ...report.Consumer) (*event.State, error) {
	o.Inspector = screen.NewInspector(screen.Changes(op), client.Diagnoser(), op.Mask())
	later, wait := screen.ViewAfterRun(client, op.Info().Release, op.Info().Namespace)
	o.Later = later
	return a.runOnScreen(cmd, op, o, opts, over, wait, consumers...)
}

// runOnScreen runs op on the screen and prints its summary. It calls over when op ends, and
// closed when the screen closes.
func (a *app) runOnScreen(cmd *cobra.Command, op command.Operation, o board.Options, opts report.Options, over, closed func(), consumers ...report.Consumer) (*event.State, error) {
	d := a.Display(cmd, report.ModeText)
	themeOpts, themeErr := theme.FromEnv(os.Getenv)
	restore := a.Logs.ToFile(d)
	defer restore()
	var state *event.State
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state, runErr = run(op, consumers...)
		a.Signals.Unbind()
		over()
	}()
	screen.DiscardInput()
	o.Source, o.Command, o.Theme = op.Feed().Reader(), op.Command, themeOpts
	err := board.Run(cmd.Context(), o)
	closed()
	switch {
	case errors.Is(err, board.ErrTerminalGone):
		a.Signals.Hangup()
		command.DropTerminal()
	case err != nil && !errors.Is(err, command.ErrInterrupted):
		op.Command(event.Command{Name: event.Abort, Reason: err.Error()})
	}
	<-ended
	report.Summary(cmd.OutOrStdout(), state, a.SummaryOptions(opts))
	command.WarnIf(d, themeErr)
	return state, runErr
}

// nextLines returns the commands that the screen suggests, including a replay.
func nextLines(s *event.State, opts report.Options) []string {
	lines := opts.Next(s)
	if name := opts.Record(); name != "" {
		lines = append(lines, "lockstep replay "+name)
	}
	return lines
}

// firstRun reports whether no run has been recorded yet.
func firstRun() bool {
	dir, err := report.RunDir()
	if err != nil {
		return false
	}
	_, err = os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// newRecord starts the record of a run. If that fails, it prints a warning.
func newRecord(notices report.Notices) *report.RunLog {
	dir, err := report.RunDir()
	if err != nil {
		dir = "" // NewRunLog prints the warning
	}
	return report.NewRunLog(dir, notices.Warn)
}

// serve opens the socket of an operation (R47). changes and editor may be nil. If that fails, the
// operation runs without a socket, unless controlFlag makes it wait for another terminal.
func serve(op command.Operation, changes screen.ChangeSource, editor remote.Editor, controlFlag string) (s *remote.Server, err error) {
	dir, err := runs.LiveDir()
	if err == nil {
		s, err = remote.Serve(dir, op.Feed(), op.Command, changes, editor)
	}
	if err == nil || controlFlag == "" {
		return s, nil
	}
	return nil, fmt.Errorf("%s needs the screen or a socket to control the run from another terminal: %w", controlFlag, err)
}

// attachedClients returns the number of attached clients. s may be nil.
func attachedClients(s *remote.Server) int {
	if s == nil {
		return 0
	}
	return s.Clients()
}

// closeServer closes a server, which may be nil.
func closeServer(s *remote.Server) {
	if s != nil {
		s.Close()
	}
}
