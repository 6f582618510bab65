package board

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestHeldShowsWhatIsReadyNow highlights the re-check once a failed object has been fixed by hand (R44).
func TestHeldShowsWhatIsReadyNow(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0))
	s.shows(t, "✗ held  api:server · Deployment/shop-api: image  ", "\n         example/no-such-image:1 cannot be pulled: not found\n", "A re-check   R retry   G stop here   a abort")
	s.showsNot(t, "is ready now")
	s.feed(event.Event{Kind: event.KindObject, Phase: "apply", Group: "shop/api:server", Status: event.Ready, Time: s.State.Now,
		Object: &plan.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "shop-api"}})
	s.shows(t, "Deployment/shop-api is ready now   A re-check")
}

// TestGiveUpAsks: the dialog asks before the run ends as failed, and closes when nothing is held any
// more.
func TestGiveUpAsks(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0))
	s.press("G")
	s.shows(t, "stop here?", "3 waiting groups")
	if len(s.sent) > 0 {
		t.Errorf("G sent %v before it was confirmed", s.sent)
	}
	s.feed(event.Event{Kind: event.KindRun, Status: event.Running, Time: s.State.Now})
	s.showsNot(t, "stop here?")
	s.press("G")
	s.showsNot(t, "stop here?")
}
