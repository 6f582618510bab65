package board

import (
	"context"
	"errors"
	"testing"

	"lockstep/engine/event"
)

// TestRestart quits the screen for another run: at once if this one is over, else when it has stopped.
func TestRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var fails error
		asked := 0
		restart := func(o *Options) { o.Restart = func(context.Context) error { asked++; return fails } }
		s := with("sandbox-held", 0, "", restart)(t)
		s.shows(t, "Z restart")
		fails = errors.New("templates/api.yaml:3: unexpected end")
		s.press("Z")
		s.settle()
		s.shows(t, "cannot restart: templates/api.yaml:3")
		if len(s.sent) > 0 || asked != 1 {
			t.Errorf("sent %v, prepared %d times", s.sent, asked)
		}
		fails = nil
		s.press("Z")
		s.settle()
		if len(s.sent) != 1 || s.sent[0].Name != event.Stop || s.quits() {
			t.Errorf("sent %v", s.sent)
		}
		s.feed(event.Event{Kind: event.KindOperation, Status: event.Aborted, Time: s.State.Now})
		if !s.Over() || !s.QuitAtEnd {
			t.Error("the screen did not quit")
		}
		if s = with("sandbox-install", 0, "", restart)(t); true {
			s.press("Z")
			if s.settle(); !s.quits() {
				t.Error("the screen did not quit when the run was over")
			}
		}
		s = with("sandbox-held", 0, "Z")(t)
		s.shows(t, "--sandbox")
	})
}
