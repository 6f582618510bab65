package phrase

import (
	"testing"

	"lockstep/engine/event"
)

func TestOrigin(t *testing.T) {
	for _, c := range []struct {
		origin                  event.Origin
		short, sentence, whence string
	}{
		{event.Origin{Command: event.Abort}, "", "aborted by you", " on its screen"},
		{event.Origin{Command: event.Abort, By: "another terminal"}, "", "aborted by another terminal", " by another terminal"},
		{event.Origin{Command: event.Abort, Via: "lockstep ctl", By: "ann on box"}, "by lockstep ctl", "aborted by lockstep ctl", " by lockstep ctl (ann on box)"},
		{event.Origin{Command: event.Abort, Via: "SIGTERM", Cancelled: 1}, "by SIGTERM", "aborted by SIGTERM; 1 request cancelled", " by SIGTERM"},
		{event.Origin{Command: event.Stop, Via: "ctrl-c", Cancelled: 2}, "by ctrl-c", "aborted by ctrl-c; 2 requests cancelled by stop", " by ctrl-c"},
		{event.Origin{Command: event.Stop, Via: "ctrl-c", Why: "restarted"}, "restarted", "aborted: restarted", ": restarted"},
	} {
		if got := Origin(c.origin); got != c.short {
			t.Errorf("%+v: %q, want %q", c.origin, got, c.short)
		}
		if got := Aborted(c.origin); got != c.sentence {
			t.Errorf("%+v: %q, want %q", c.origin, got, c.sentence)
		}
		if got := Whence(c.origin); got != c.whence {
			t.Errorf("%+v: %q, want %q", c.origin, got, c.whence)
		}
	}
}
