package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// Bound says how long a command may take without the screen. Exactly one of Limit, Flag, Operation, Endless and Local is set.
type Bound struct {
	// Limit is a fixed limit.
	Limit time.Duration
	// Charts is set with Limit if the command loads charts, which may be in a registry.
	Charts bool
	// Flag is set if --timeout is the limit; 0 is none. Operation is set if it is that of the operation, which also knows
	// pauses and a rollback, and ends itself, and of each of its inputs (Load).
	Flag, Operation bool
	// Endless says when a command ends that has no limit. Its help has these words.
	Endless string
	// Local is set for commands that wait for nobody.
	Local bool
}

// Help returns a sentence for the help of the command, "" if its flags say it.
func (b Bound) Help() string {
	if b.Limit > 0 {
		server := "the API server"
		if b.Charts {
			server += " or a registry"
		}
		return fmt.Sprintf("If %s does not answer, lockstep gives up after %s.", server, shortDuration(b.Limit))
	}
	return ""
}

func shortDuration(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// BoundError is the error of a command that has reached its limit.
type BoundError struct {
	Limit time.Duration
	Flag  bool   // --timeout is the limit
	Why   string // what it waited for
}

func (e *BoundError) Error() string {
	text := fmt.Sprintf("gave up after %s", e.Limit)
	if e.Flag {
		text += " (--timeout)"
	}
	return text + ", waiting for " + e.Why
}

// boundGrace is how long a command that has reached its limit may take to say what it waited for.
const boundGrace = 2 * time.Second

// SetBound makes a command without the screen end at its limit. why says what it waits for.
//
// Rule R54: a command without a screen has a bound, and says what it waited for.
func SetBound(cmd *cobra.Command, b Bound, why string) {
	if text := b.Help(); text != "" && cmd.Long != "" {
		cmd.Long += "\n\n" + text
	}
	run := cmd.RunE
	if run == nil || b.Limit == 0 && !b.Flag && !b.Operation {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		limit := b.Limit
		if b.Flag || b.Operation {
			limit, _ = cmd.Flags().GetDuration("timeout") // TestEveryCommandHasABound checks the flag
		}
		if limit <= 0 || UseScreen(cmd) && cmd.Flag("no-tui") != nil {
			return run(cmd, args)
		}
		if b.Operation {
			cmd.SetContext(context.WithValue(cmd.Context(), loadLimitKey{}, limit))
			return run(cmd, args)
		}
		gaveUp := &BoundError{Limit: limit, Flag: b.Flag, Why: why}
		ctx, stop := context.WithTimeoutCause(cmd.Context(), limit, gaveUp)
		defer stop()
		cmd.SetContext(ctx)
		return endAtLimit(ctx, gaveUp, func() error { return run(cmd, args) })
	}
}

// endAtLimit returns the error of run. If run does not end although ctx has, it returns limit.
func endAtLimit(ctx context.Context, limit *BoundError, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(boundGrace):
	}
	if ctx.Err() == context.DeadlineExceeded {
		return limit
	}
	return <-done // a signal: the command ends in its own time
}

// loadLimitKey is the key of a limit in a context, see Load.
type loadLimitKey struct{}

// Load is like Cancelable for the inputs of an operation, such as its chart, each of which may take as long as the operation's
// --timeout. The other commands have a limit for everything. what names the input.
func Load[T any](ctx context.Context, what string, do func(context.Context) (T, error)) (T, error) {
	if limit, ok := ctx.Value(loadLimitKey{}).(time.Duration); ok {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, &BoundError{Limit: limit, Flag: true, Why: what})
		defer stop()
	}
	out, err := Cancelable(ctx, do)
	if err != nil && ctx.Err() != nil { // do may say that something was killed
		err = context.Cause(ctx)
	}
	return out, err
}

// Repairs are the flags of drift for repairs.
type Repairs struct {
	Timeout, ApprovalTimeout time.Duration
	Approve                  []string // groups
}
