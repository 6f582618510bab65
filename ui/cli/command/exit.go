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

// exitError ends the program with a code other than exitNothing, which is what
// every other error means: commands check everything before they write.
type exitError struct {
	code int
	// err is nil where nothing went wrong, or the screen's summary has told it.
	err error
}

// Exit is an error that ends the program with a code; err may be nil.
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

// ErrorToShow is what there is to say about an error, nil where that is nothing.
func ErrorToShow(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return e.err
	}
	return err
}

// Ending is what a command ends with whose operation is over. On the screen the
// summary has told why it has failed.
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
