package phrase

import (
	"testing"

	"lockstep/engine/event"
)

func TestOrigin(t *testing.T) {
	for _, c := range []struct {
		origin          event.Origin
		short, sentence string
	}{
		{event.Origin{Command: event.Abort}, "", "aborted by you"},
		{event.Origin{Command: event.Abort, By: "another terminal"}, "", "aborted by another terminal"},
		{event.Origin{Command: event.Abort, Via: "SIGTERM", Cancelled: 1}, "by SIGTERM", "aborted by SIGTERM; 1 request cancelled"},
		{event.Origin{Command: event.Stop, Via: "ctrl-c", Cancelled: 2}, "by ctrl-c", "aborted by ctrl-c; 2 requests cancelled by stop"},
		{event.Origin{Command: event.Stop, Via: "ctrl-c", Why: "restarted"}, "restarted", "aborted: restarted"},
	} {
		if got := Origin(c.origin); got != c.short {
			t.Errorf("%+v: %q, want %q", c.origin, got, c.short)
		}
		if got := Aborted(c.origin); got != c.sentence {
			t.Errorf("%+v: %q, want %q", c.origin, got, c.sentence)
		}
	}
}
