package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/ui/report"
)

// The exit codes of the program.
const (
	ExitDone           = 0
	ExitFailed         = event.ExitFailed         // the operation failed; the release is failed or rolled back
	ExitNothingWritten = event.ExitNothingWritten // failed before anything was written
	ExitAborted        = event.ExitAborted        // aborted by key or signal
	ExitChanges        = 4                        // plan: there are changes
)

// exitError ends the program with a code. Any other error means ExitNothingWritten, because commands
// check everything before they write.
type exitError struct {
	code int
	err  error // nil if there is nothing to print
}

// Exit returns an error that ends the program with code. err is printed unless it is nil.
func Exit(code int, err error) error { return &exitError{code, err} }

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ExitCode returns the exit code for an error of a command.
func ExitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if err == nil {
		return ExitDone
	}
	return ExitNothingWritten
}

// ErrorToShow returns the error to print, or nil.
func ErrorToShow(err error) error {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.err
	}
	return err
}

// OperationError returns the error of a command whose operation has ended. It has no text if the terminal
// already shows the outcome: after a screen, or after a summary if stderr is a terminal too. If only
// stderr is redirected, its text is the result, otherwise also the reason.
func OperationError(cmd *cobra.Command, s *event.State, err error, onScreen bool) error {
	if s.Status == event.Succeeded {
		return nil
	}
	summaryShown := s.Message != "" && OutputFormat(cmd) == report.ModeText && IsTerminal(os.Stdout)
	switch {
	case onScreen && s.Status != "", summaryShown && IsTerminal(os.Stderr):
		err = nil
	case summaryShown:
		err = errors.New(phrase.Result(s))
	case s.Message != "":
		err = errors.New(phrase.Reason(s))
	}
	return Exit(cmp.Or(s.Exit, ExitFailed), err)
}
