package event

import "time"

// Skip says why a group was not started, or did not run to its end. A group that is skipped or aborted has one.
type Skip struct {
	By SkipCause `json:"by"`
	// Group is the failed group, with SkippedByFailure; it is empty if the operation failed for another reason. Why is the
	// reason for the dependency on it, if that was inferred.
	Group string `json:"group,omitempty"`
	Why   string `json:"why,omitempty"`
	// Timeout is the timeout that expired, with SkippedByTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Unsent means that the group was admitted, but ended before its first request.
	Unsent bool `json:"unsent,omitempty"`
}

// SkipCause is what kept a group from starting, or interrupted it.
type SkipCause string

const (
	SkippedByFailure  SkipCause = "failure"  // a group failed, or the operation
	SkippedByAbort    SkipCause = "abort"    // a command or a signal (R43)
	SkippedByTimeout  SkipCause = "timeout"  // --timeout
	SkippedByEdit     SkipCause = "edit"     // an edited revision replaced this one (R46)
	SkippedByRollback SkipCause = "rollback" // a rollback started, although no group had failed
	SkippedAsDone     SkipCause = "done"     // the operation succeeded: there was nothing to do
)
