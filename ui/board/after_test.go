package board

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/screen"
)

// overAndWatched is a screen whose operation is over and whose release is watched; observe sends events
// after the operation.
func overAndWatched(t *testing.T, w, h int) (s *rig, observe func(...event.Event)) {
	t.Helper()
	events := recorded(t, "sandbox-install", 0)
	clock := events[len(events)-1].Time
	s = newScreen(t, w, h, events, func(o *Options) {
		o.WatchAfter = func(context.Context) (Source, error) { return idle{}, nil }
		o.Now = func() time.Time { return clock }
	})
	s.send(watchStartedMsg{source: idle{}})
	observe = func(events ...event.Event) {
		clock = clock.Add(8 * time.Second)
		for i := range events {
			events[i].Time = clock
		}
		clock = clock.Add(8 * time.Second)
		s.send(batchMsg{events: events, more: true, afterRun: true})
	}
	return s, observe
}

// workload returns a Deployment of the operation, with its group.
func workload(t *testing.T, s *rig) (event.Unit, *event.ObjectState) {
	t.Helper()
	for _, n := range s.Graph.Nodes {
		for _, o := range n.Objects {
			if o.Object.Kind == "Deployment" && o.Status == event.Ready {
				return n.Unit(), o
			}
		}
	}
	t.Fatal("no Deployment")
	return event.Unit{}, nil
}

// tookTime matches the times of a group in the timings tab.
var tookTime = regexp.MustCompile(`\n  cache:\S+ +\+\d+\.\d s +\+\d+\.\d s +\d+\.\d s`)

// TestLiveAfterEnd: the screen shows degraded objects next to the outcome, which does not change.
func TestLiveAfterEnd(t *testing.T) {
	for _, size := range [][2]int{{60, 20}, {80, 24}, {100, 30}, {160, 45}, {200, 50}} {
		s, observe := overAndWatched(t, size[0], size[1])
		s.shows(t, "done "+s.State.Ended.Local().Format("15:04:05"))
		if size[0] >= 100 {
			s.shows(t, "live")
		}
		u, o := workload(t, s)
		observe(event.Event{Kind: event.KindObject, Phase: u.Phase, Group: u.Group, Object: &o.Object, Status: event.InProgress, Message: "1 of 2 ready"},
			event.Event{Kind: event.KindDiagnosis, Phase: u.Phase, Group: u.Group, Object: &o.Object, Status: event.Degraded, Cause: "image x cannot be pulled"})
		s.shows(t, "done "+s.State.Ended.Local().Format("15:04:05"))
		if size[0] >= 100 {
			s.shows(t, "since then: ◑ ", "image x cannot be pulled (8 s ago)")
		}
		if got := s.problemHint(); got != "next problem" {
			t.Errorf("the footer says %q", got)
		}
		s.press("f")
		s.shows(t, "◑", "degraded")
		s.press("8")
		if !tookTime.MatchString(s.text()) {
			t.Errorf("no time that the group took:\n%s", s.text())
		}
		if !s.HasRunningTimes() {
			t.Error("the time since the change is not updated")
		}
		observe(event.Event{Kind: event.KindObject, Phase: u.Phase, Group: u.Group, Object: &o.Object, Status: event.Ready})
		s.showsNot(t, "since then", "degraded")
		s.press("esc")
		for _, n := range s.Graph.Nodes {
			for _, o := range n.Objects {
				observe(event.Event{Kind: event.KindObject, Phase: n.Phase, Group: n.ID, Object: &o.Object, Status: event.InProgress})
			}
		}
		s.showsNot(t, "in progress")
	}
}

// TestChangedByOthers: an object that others have changed stays ready; the counts, its card and its inspector say who and what.
func TestChangedByOthers(t *testing.T) {
	s, observe := overAndWatched(t, 160, 45)
	u, o := workload(t, s)
	drift := []event.Drift{{Field: "spec.replicas", Manager: "kubectl"}}
	observe(event.Event{Kind: event.KindDrift, Phase: u.Phase, Group: u.Group, Object: &o.Object, Drift: drift})
	s.shows(t, "1 changed by others")
	s.showsNot(t, "degraded")
	n := s.Graph.ByKey[u]
	if label, text := s.Reason(n, n.Find(o.Object)); label+text != "changed by kubectl: spec.replicas" || s.ObjectMark(n, n.Find(o.Object)).Word != "changed by others" {
		t.Errorf("%q %q", label, text)
	}
	observe(event.Event{Kind: event.KindDrift, Phase: u.Phase, Group: u.Group, Object: &o.Object})
	s.showsNot(t, "changed by others")
}

// TestNotLive: the screen says when the release is no longer watched.
func TestNotLive(t *testing.T) {
	s, _ := overAndWatched(t, 120, 30)
	s.send(batchMsg{afterRun: true})
	s.shows(t, "no longer watched")
	s = newScreen(t, 120, 30, recorded(t, "sandbox-install", 0))
	s.send(watchStartedMsg{err: errors.New("forbidden")})
	s.shows(t, "not watched: forbidden")
}

// TestWatchAfter: the release is watched after the operation, unless it no longer exists.
func TestWatchAfter(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*event.Event)
		want   bool
	}{
		{"a release", func(*event.Event) {}, true},
		{"none", func(e *event.Event) { e.Release = event.NoRelease }, false},
	} {
		events := slices.Clone(recorded(t, "sandbox-install", 0))
		tt.change(&events[len(events)-1])
		s := newScreen(t, 100, 30, events, func(o *Options) {
			o.WatchAfter = func(context.Context) (Source, error) { return idle{}, nil }
		})
		if asked := s.after.open == nil; asked != tt.want {
			t.Errorf("%s: watched: %t", tt.name, asked)
		}
	}
}

// TestMessagesDoNotCoverState: the reason of a refused command is shown in full above the keys for a
// while; the state stays visible.
func TestMessagesDoNotCoverState(t *testing.T) {
	events := recorded(t, "sandbox-install", 0)
	events = events[:len(events)/2]
	for _, w := range []int{60, 100} {
		s := newScreen(t, w, 24, events)
		state := s.lines()[1]
		why := strings.Repeat("a long reason ", 8) + "to its end"
		s.press("c")
		s.feed(event.Event{Seq: s.State.Seq + 1, Time: s.State.Now, Kind: event.KindCommand, Command: event.Resume, Answers: s.sent[len(s.sent)-1].ID, Status: event.Refused, Message: why})
		if s.lines()[1] != state {
			t.Errorf("the state is now %q, was %q", s.lines()[1], state)
		}
		if text := strings.Join(strings.Fields(s.text()), " "); !strings.Contains(text, "cannot resume: "+why) {
			t.Errorf("the message is missing or truncated:\n%s", s.text())
		}
		s.shows(t, "help")
		s.send(screen.FlashOver(s.Flash.N))
		s.showsNot(t, "to its end")
	}
}

// TestIntroduction: the first screen of a user has an introduction above the keys; every key works.
func TestIntroduction(t *testing.T) {
	for _, first := range []bool{true, false} {
		s := newScreen(t, 60, 20, recorded(t, "sandbox-install", 63), func(o *Options) { o.First = first })
		s.Init()
		s.send(tickMsg{})
		if got := strings.Contains(s.text(), "above: groups by layer"); got != first {
			t.Errorf("first %t:\n%s", first, s.text())
		}
		s.press("p")
		if len(s.sent) != 1 {
			t.Errorf("first %t: p sent %v", first, s.sent)
		}
		s.Flash.Text = s.introduction()
		s.feed(event.Event{Kind: event.KindOperation, Status: event.Succeeded, Exit: new(int)})
		s.showsNot(t, "p pause, n step")
	}
}

// TestRolledBackCardAfterEnd: after a rollback, a change to the release shows on the card of the rollback, not on the
// original one, and not at all if the operation saw it before the rollback.
func TestRolledBackCardAfterEnd(t *testing.T) {
	s, undo := undoing(t)
	o := func(name string) *plan.Object { return &plan.Object{Kind: "ConfigMap", Namespace: "n", Name: name} }
	s.feed(event.Event{Kind: event.KindObject, Phase: "apply", Group: "c:a", Object: o("a-1"), Status: event.InProgress, Message: "0 of 1 available"})
	s.feed(event.Event{Kind: event.KindGroup, Phase: "rollback/apply", Group: "c:a", Status: event.Running})
	for _, name := range []string{"a-1", "a-2"} {
		undo("a", name, event.Ready, event.Configured)
	}
	s.feed(event.Event{Kind: event.KindGroup, Phase: "rollback/apply", Group: "c:a", Status: event.Ready},
		event.Event{Kind: event.KindOperation, Status: event.Aborted, Exit: new(int)})
	s.send(watchStartedMsg{source: idle{}})
	s.showsNot(t, "since then")
	for _, status := range []event.Status{event.InProgress, event.Failed, event.Ready} {
		s.send(batchMsg{more: true, afterRun: true, events: []event.Event{{Kind: event.KindObject, Phase: "apply", Group: "c:a", Object: o("a-1"), Status: status, Message: "crashed"}}})
		if got := outcomes(s)["c:a"]; got != "rolled back" {
			t.Errorf("with a-1 %s, the card says %q", status, got)
		}
		if n := s.Graph.ByKey[event.Unit{Phase: "rollback/apply", Group: "c:a"}]; (n.Degraded > 0) != (status != event.Ready) {
			t.Errorf("with a-1 %s, %d objects of the rollback are degraded", status, n.Degraded)
		}
	}
}

// TestDegradationAfterEndIsSelected: an object that degrades after the end is selected and explained, unless the user has
// moved the selection.
func TestDegradationAfterEndIsSelected(t *testing.T) {
	for _, moved := range []bool{false, true} {
		s, observe := overAndWatched(t, 160, 45)
		if moved {
			s.press("home")
		}
		was := s.Sel
		u, o := workload(t, s)
		observe(event.Event{Kind: event.KindObject, Phase: u.Phase, Group: u.Group, Object: &o.Object, Status: event.InProgress, Message: "1 of 2 ready"},
			event.Event{Kind: event.KindDiagnosis, Phase: u.Phase, Group: u.Group, Object: &o.Object, Status: event.Degraded, Cause: "image x cannot be pulled"})
		switch {
		case moved && s.Sel != was:
			t.Errorf("the selection moved from %v to %v", was, s.Sel)
		case !moved && (s.Sel.Unit != u || s.Sel.Object != o.Object):
			t.Errorf("%v is selected, want %v", s.Sel, o.Object)
		case !moved:
			s.shows(t, "◑ degraded for ", ": image x cannot be pulled")
		}
	}
}

// TestUnknownKey: a key that does nothing says so.
func TestUnknownKey(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0))
	s.press("%")
	s.shows(t, "% is no key here; ? shows all keys")
	s = newScreen(t, 100, 30, recorded(t, "sandbox-held", 0), readOnly)
	s.press("R")
	s.shows(t, "this screen is read-only")
}

// TestContextOfTheWatcher: the header of a run elsewhere names the cluster as this machine's kubeconfig does.
func TestContextOfTheWatcher(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0), func(o *Options) { o.Context = "prod-eu" })
	s.shows(t, " prod-eu · ns shop · rev 1")
	s.showsNot(t, "lockstep-sandbox")
}
