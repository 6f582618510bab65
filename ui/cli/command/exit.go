package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

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
	ExitChanges        = 2                        // with --detailed-exitcode: there are changes, or drift
)

// detailedExitCode is the flag for the exit codes that Terraform, helm-diff and helmfile have: 0 no changes, 1 error, 2 changes.
const detailedExitCode = "detailed-exitcode"

// AddDetailedExitCode adds --detailed-exitcode to a command that compares. same says what it means if there is no difference. The
// command returns Changes.
func AddDetailedExitCode(cmd *cobra.Command, same string) {
	cmd.Flags().Bool(detailedExitCode, false, "exit with 0 if "+same+", 2 if not, and 1 on an error, as Terraform does")
}

// errChanges ends a command that has found changes.
var errChanges = Exit(ExitChanges, nil)

// Changes returns the result of a command that compared and found changes.
func Changes(cmd *cobra.Command) error {
	if detailed, _ := cmd.Flags().GetBool(detailedExitCode); detailed {
		return errChanges
	}
	return nil
}

// IsChanges reports whether err is from Changes.
func IsChanges(err error) bool { return errors.Is(err, errChanges) }

// ExitCodeOf returns the exit code for the error of a command line. args is without the name of the program.
func ExitCodeOf(root *cobra.Command, args []string, err error) int {
	code := ExitCode(err)
	if code == ExitNothingWritten && !IsChanges(err) && detailed(root, args) {
		return ExitFailed
	}
	return code
}

// detailed reports whether a command line asks for detailed exit codes, also if an earlier argument is invalid.
func detailed(root *cobra.Command, args []string) bool {
	cmd, _, _ := root.Find(args) // the root command if there is no such command
	f := cmd.Flags().Lookup(detailedExitCode)
	if f == nil || f.Changed {
		return f != nil && f.Value.String() == "true"
	}
	set, _ := strconv.ParseBool(os.Getenv(EnvironmentVariable(detailedExitCode))) // false on an error
	return set || slices.ContainsFunc(args, func(arg string) bool { return arg == "--"+detailedExitCode || arg == "--"+detailedExitCode+"=true" })
}

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
