package cli

import (
	"errors"
	"fmt"
)

// The exit codes of the program.
const (
	exitDone    = 0
	exitFailed  = 1 // the operation failed; the release is failed or rolled back
	exitNothing = 2 // nothing was written
	exitAborted = 3 // aborted by key or signal
	exitChanges = 4 // plan: there are changes
)

// exitError ends the program with a code other than exitNothing, which is what
// every other error means: commands check everything before they write.
type exitError struct {
	code int
	// err is nil where nothing went wrong, or the screen's summary has told it.
	err error
}

// exitWith is an error that ends the program with a code; err may be nil.
func exitWith(code int, err error) error { return &exitError{code, err} }

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitCode is the exit code that an error of a command means.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &e):
		return e.code
	}
	return exitNothing
}

// toSay is what there is to say about an error, nil where that is nothing.
func toSay(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return e.err
	}
	return err
}
