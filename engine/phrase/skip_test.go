package phrase

import (
	"testing"
	"time"

	"lockstep/engine/event"
)

func TestSkip(t *testing.T) {
	for _, c := range []struct {
		status           event.Status
		skip             event.Skip
		message, reduced string
	}{
		{event.Skipped, event.Skip{By: event.SkippedByFailure, Group: "shop:db"}, "not started: shop:db failed", "shop:db failed"},
		{event.Skipped, event.Skip{By: event.SkippedByFailure, Group: "shop:db", Why: "api uses Secret/db"}, "not started: shop:db failed; api uses Secret/db", "shop:db failed; api uses Secret/db"},
		{event.Skipped, event.Skip{By: event.SkippedByFailure}, "not started: the operation failed", "the operation failed"},
		{event.Skipped, event.Skip{By: event.SkippedByFailure, Unsent: true}, "no request was sent: the operation failed", "no request was sent: the operation failed"},
		{event.Skipped, event.Skip{By: event.SkippedByTimeout, Timeout: time.Minute}, "not started: the operation timed out after 1m (--timeout)", "the operation timed out after 1m (--timeout)"},
		{event.Skipped, event.Skip{By: event.SkippedByAbort}, "not started: the run was aborted", "the run was aborted"},
		{event.Skipped, event.Skip{By: event.SkippedByEdit}, "not started: replaced by an edited revision", "replaced by an edited revision"},
		{event.Skipped, event.Skip{By: event.SkippedByRollback}, "not started: rolling back", "rolling back"},
		{event.Skipped, event.Skip{By: event.SkippedAsDone}, "not started: nothing to do", "nothing to do"},
		{event.Aborted, event.Skip{By: event.SkippedByAbort}, "aborted", ""},
		{event.Aborted, event.Skip{By: event.SkippedByAbort, Unsent: true}, "no request was sent: the run was aborted", "no request was sent: the run was aborted"},
		{event.Aborted, event.Skip{By: event.SkippedByFailure, Group: "shop:db"}, "interrupted: shop:db failed", "shop:db failed"},
	} {
		message := SkipMessage(c.status, c.skip)
		if message != c.message {
			t.Errorf("%+v: message %q, want %q", c.skip, message, c.message)
		}
		if got := Unfinished(&event.GroupState{Status: c.status, Message: message, Skip: &c.skip}); got != c.reduced {
			t.Errorf("%+v: unfinished because of %q, want %q", c.skip, got, c.reduced)
		}
	}
}
