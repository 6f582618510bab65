package command

import (
	"errors"
	"fmt"

	"lockstep/engine/event"
)

// The exit codes of the program.
const (
	ExitDone    = 0
	ExitFailed  = 1 // the operation failed; the release is failed or rolled back
	ExitNothing = 2 // failed before anything was written
	ExitAborted = 3 // aborted by key or signal
	ExitChanges = 4 // plan: there are changes
)

// exitError ends the program with a code. Any other error means ExitNothing, because commands
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
	var e *exitError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &e):
		return e.code
	}
	return ExitNothing
}

// ErrorToShow returns the error to print, or nil.
func ErrorToShow(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return e.err
	}
	return err
}

// OperationError returns the error of a command whose operation has ended. In ModeScreen it
// has no text, because the summary has shown the reason.
func OperationError(s *event.State, err error, m Mode) error {
	if s.Status == event.Succeeded {
		return nil
	}
	code := s.Exit
	if code == ExitDone {
		code = ExitFailed
	}
	switch {
	case m == ModeScreen && s.Status != "":
		err = nil
	case s.Message != "":
		err = errors.New(s.Reason())
	}
	return Exit(code, err)
}
