// Package phrase makes the sentences that people read from the facts of events: the engine fills Event.Message with them, and
// the screen, the log and the reports ask for the part that they need. Any package may import it; it imports only event
// and the packages below it.
package phrase

import (
	"lockstep/engine/event"
	"lockstep/engine/text"
)

// SkipMessage returns the message of a group with this status, skipped or aborted.
func SkipMessage(status event.Status, s event.Skip) string {
	switch {
	case s.Unsent:
		return "no request was sent: " + SkipReason(s)
	case status == event.Skipped:
		return "not started: " + SkipReason(s)
	case s.By == event.SkippedByAbort:
		return "aborted"
	}
	return "interrupted: " + SkipReason(s)
}

// SkipReason says what kept a group from starting, or interrupted it: "shop:db failed".
func SkipReason(s event.Skip) string {
	switch s.By {
	case event.SkippedByAbort:
		return "the run was aborted"
	case event.SkippedByTimeout:
		return "the operation timed out after " + text.Duration(s.Timeout) + " (--timeout)"
	case event.SkippedByEdit:
		return "replaced by an edited revision"
	case event.SkippedByRollback:
		return "rolling back"
	case event.SkippedAsDone:
		return "nothing to do"
	}
	switch {
	case s.Group == "":
		return "the operation failed"
	case s.Why != "":
		return s.Group + " failed; " + s.Why
	}
	return s.Group + " failed"
}

// Unfinished returns why a group was skipped, is held at a breakpoint, or was aborted, without repeating its status. It
// returns "" for a group that an abort interrupted.
func Unfinished(g *event.GroupState) string {
	switch {
	case g.Skip == nil:
		return g.Message
	case g.Status == event.Aborted && g.Skip.By == event.SkippedByAbort && !g.Skip.Unsent:
		return ""
	case g.Skip.Unsent:
		return g.Message
	}
	return SkipReason(*g.Skip)
}
