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
	ExitNothing = 2 // nothing was written
	ExitAborted = 3 // aborted by key or signal
	ExitChanges = 4 // plan: there are changes
)

// exitError ends the program with a code. Any other error means ExitNothing because
// commands check everything before they write.
type exitError struct {
	code int
	// err is nil if nothing went wrong, or if the screen's summary has shown it.
	err error
}

// Exit is an error that ends the program with code. err is nil if there is nothing to
// print.
func Exit(code int, err error) error { return &exitError{code, err} }

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ExitCode is the exit code that an error of a command means.
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

// ErrorToShow is the error to print, or nil.
func ErrorToShow(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return e.err
	}
	return err
}

// Ending is the error of a command whose operation is over. After a screen, the
// summary has already shown why it failed.
func Ending(s *event.State, err error, m Mode) error {
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
