package board

import (
	"strings"
	"testing"

	"lockstep/engine/event"
)

// TestRemovedBreakpoint: a run that is paused at a breakpoint stays paused when it is removed.
func TestRemovedBreakpoint(t *testing.T) {
	s := newScreen(t, 160, 45, recorded(t, "sandbox-breakpoint", 0))
	texts := []string{"paused  breakpoint db:schema", "paused: breakpoint", "paused at a breakpoint"}
	s.shows(t, texts...)
	s.feed(event.Event{Kind: event.KindBreakpoint, Group: "shop/db:schema", Status: event.Cleared, Time: s.State.Now})
	s.showsNot(t, texts...)
	s.shows(t, "paused  before db:schema", "━ paused ┛", "‖ paused, 2 objects")
}

// TestKeysAtABreakpoint: the footer of a group at a breakpoint offers to remove it, next to a filter as well.
func TestKeysAtABreakpoint(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-breakpoint", 0), editable)
	s.shows(t, "n step  b remove breakpoint  N step here")
	s.press("/", "s", "c", "h", "e", "m", "a", "enter")
	s.shows(t, "b remove breakpoint", "↵ inspect", "? help", "/schema  1 of 16  esc clear")
}

// TestBreakpointList: the list marks disabled breakpoints, enter selects the group on the board, and
// groups that have started are not listed (R42).
func TestBreakpointList(t *testing.T) {
	s := with("sandbox-breakpoint", 0, "")(t)
	hook := event.Event{Kind: event.KindBreakpoint, Phase: "post-install", Group: "post-install:Job/shop-smoke-test", Status: event.Set, Time: s.State.Now}
	s.feed(hook)
	s.press("B")
	s.shows(t, "2 breakpoints", "Job/shop-smoke-test ")
	s.showsNot(t, hook.Group) // the card has the short name
	s.press("esc")
	hook.Status = event.Cleared
	s.feed(hook)
	on := func(status event.Status, group string) {
		s.feed(event.Event{Kind: event.KindBreakpoint, Phase: "apply", Group: group, Status: status, Time: s.State.Now})
	}
	on(event.Set, "shop/api:server")
	on(event.Set, "shop:gateway")
	on(event.Disabled, "shop/api:server")
	s.press("B")
	for _, want := range []string{"3 breakpoints", "● db:schema ", "api:server ", "disabled", "● shop:gateway "} {
		if !strings.Contains(s.text(), want) {
			t.Errorf("the list does not show %q:\n%s", want, s.text())
		}
	}
	s.press("down", "down", "down", "space")
	if len(s.sent) != 1 || s.sent[0].Name != event.Disable || s.sent[0].Unit() != (event.Unit{Phase: "apply", Group: "shop:gateway"}) {
		t.Errorf("space on the last one sent %v", s.sent)
	}
	on(event.Cleared, "shop:gateway")
	s.press("k", "j", "enter")
	if s.Modes.Has(s.breaks) || s.Sel.Group != "shop/api:server" {
		t.Errorf("after enter the list is open: %t, selected: %s", s.Modes.Has(s.breaks), s.Sel.Group)
	}
	s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "shop/db:schema", Status: event.Running, Time: s.State.Now})
	on(event.Cleared, "shop/api:server")
	if s.press("B"); !strings.Contains(s.text(), "No breakpoints") {
		t.Errorf("the list has a group that is over:\n%s", s.text())
	}
}
