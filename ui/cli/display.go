package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/report"
)

// display runs an operation and shows it, on the screen or as lines. It returns
// when the operation is over.
func (a *app) display(cmd *cobra.Command, in *interrupts, client *kube.Client, op *kube.Operation, j job) error {
	record := newRecord(cmd.ErrOrStderr())
	defer record.Close()
	opts := report.Options{Next: j.next, Record: record.Name}
	var say io.Writer // on the screen a signal shows by its effect
	if j.mode != modeScreen {
		say = cmd.ErrOrStderr()
	}
	fate := j.fate
	if fate == "" {
		fate = "the release will be marked failed"
	}
	if err := in.steer(op, order{j.flags.rollback, fate}, say); err != nil {
		return err
	}
	if j.mode == modeScreen {
		return a.onScreen(cmd, in, client, op, record, opts)
	}
	state, err := run(op, record, a.printer(cmd, string(j.mode), opts))
	return outcome(state, err, j.mode)
}

// run runs an operation to its end while the consumers get its events. The
// error is why it failed.
func run(op operation, consumers ...report.Consumer) (*event.State, error) {
	ended := make(chan error, 1)
	go func() {
		defer op.Feed().Close()
		ended <- op.Run()
	}()
	state := report.Follow(op.Feed(), consumers...)
	return state, <-ended
}

// onScreen shows an operation on the screen, and its summary afterwards.
func (a *app) onScreen(cmd *cobra.Command, in *interrupts, client *kube.Client, op *kube.Operation, record *report.RunLog, opts report.Options) error {
	look, lookErr := theme.FromEnv(os.Getenv)
	restore := a.logs.toFile()
	defer restore()
	ctx, leave := context.WithCancelCause(context.Background())
	defer leave(nil)
	var state *event.State
	var runErr error
	over := make(chan struct{})
	go func() {
		defer close(over)
		state, runErr = run(op, record)
		if in.came() { // nobody may be there to leave the screen
			leave(errInterrupted)
		}
	}()
	dropTyped()
	err := board.Run(ctx, board.Options{
		Source: op.Feed().Reader(), Command: op.Command, Inspector: inspector{client.Diagnoser()}, Theme: look,
	})
	if err != nil && !errors.Is(err, errInterrupted) {
		op.Command(event.Command{Name: event.Abort, Reason: err.Error()})
	}
	<-over
	opts.Style = streamStyle(os.Stdout, a.settings.ColorMode)
	report.Summary(cmd.OutOrStdout(), state, opts)
	if lookErr != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", lookErr)
	}
	return outcome(state, runErr, modeScreen)
}

// newRecord keeps the record of a run where that is possible.
func newRecord(warnings io.Writer) *report.RunLog {
	warn := func(s string) { fmt.Fprintln(warnings, "warning:", s) }
	dir, err := report.RunDir()
	if err != nil {
		dir = "" // the record's own error says the same
	}
	return report.NewRunLog(dir, warn)
}
