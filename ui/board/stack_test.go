package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/replay"
	"lockstep/ui/board/screen"
	"lockstep/ui/golden"
)

// openStack is the screen of a stack's recorded run after n events, 0 for all.
func openStack(t *testing.T, w, h, n int, look theme.Options, sent *[]event.Command, keys ...string) *stack {
	t.Helper()
	return openStackRun(t, w, h, recorded(t, "sandbox-stack", n), look, sent, keys...)
}

func openStackRun(t *testing.T, w, h int, events []event.Event, look theme.Options, sent *[]event.Command, keys ...string) *stack {
	t.Helper()
	o := Options{Source: idle{}, Theme: look, Release: func(string) (inspect.Cluster, []string) { return nil, nil }}
	if sent != nil {
		o.Command = func(c event.Command) { *sent = append(*sent, c) }
	}
	var s *stack
	o.Now = func() time.Time { return s.State.Now }
	s = newStack(t.Context(), o)
	s.Update(tea.WindowSizeMsg{Width: w, Height: h})
	s.Update(batchMsg{events: events, more: true})
	for _, k := range keys {
		s.Update(keyPress(k))
	}
	return s
}

// TestStackGolden compares the screens of a stack: its releases, and one of them opened, and the cards of the releases in dark, light
// and without colour (S6).
func TestStackGolden(t *testing.T) {
	for name, l := range map[string]theme.Options{"dark": dark, "light": light, "bare": bare} {
		inBubble(t, func(t *testing.T) {
			golden.Compare(t, "stack-releases-"+name, openStack(t, 100, 30, 75, l, new([]event.Command)).View().Content)
		})
	}
	for name, keys := range map[string][]string{"releases": nil, "release": {"tab", "tab", "enter"}} {
		for _, size := range sizes {
			t.Run(name+"/"+fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := openStack(t, size[0], size[1], 75, dark, new([]event.Command), keys...)
					golden.Compare(t, fmt.Sprintf("stack-%s-%dx%d", name, size[0], size[1]), ansi.Strip(s.View().Content))
				})
			})
		}
	}
}

// TestPlanOfRelease: the card of a release says what will happen to it and shows its groups. The pane lists these; of a release that
// the user selects, it shows the changes to all its objects, and d shows all of them. They stay once they are applied (S6).
func TestPlanOfRelease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		changes := &answerer{changes: map[string]inspect.Change{
			"ConfigMap/shop": {Action: inspect.Unchanged},
			"Deployment/api": {Action: inspect.Create},
			"Deployment/web": {Action: inspect.Modify, Fields: []inspect.Field{{In: "spec.template.spec.containers[web]", Lines: []string{"-image: web:1", "+image: web:2"}}}},
		}}
		events := recorded(t, "sandbox-stack", 75)
		for i, e := range events {
			if e.Kind == event.KindPlan && e.Scope == "shop/shop" {
				events[i].Operation = &event.Operation{Name: "upgrade", Release: "shop", Chart: "shop-1.3.0", PreviousChart: "shop-1.2.0"}
			}
			if e.Kind == event.KindPlan && e.Scope == "shop/identity" {
				events[i].Operation = &event.Operation{Name: "install", Release: "identity", Chart: "identity-0.1.0"}
			}
		}
		o := Options{Inspector: changes, Theme: dark, Release: func(string) (inspect.Cluster, []string) { return changes, nil }, Command: func(event.Command) {}}
		var s *stack
		o.Now = func() time.Time { return s.State.Now }
		s = newStack(t.Context(), o)
		s.Update(tea.WindowSizeMsg{Width: 160, Height: 45})
		s.Update(batchMsg{events: events, more: true})
		feed, expect := stackScreen(t, s)
		expect("│ upgrade 1.2.0 → 1.3.0", "│ install 0.1.0", "○○○ 3 objects", "✓✓✓ 3 of 3 objects ready", "◐ store   in progress  ConfigMap/database, Deployment/database")
		web := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
		answered := func(msg tea.Msg) {
			_, cmd := s.Update(msg)
			for _, msg := range answers(cmd) {
				s.Update(msg)
			}
		}
		answered(keyPress("end")) // the user asks for the plan of a release while others run
		planned := []string{"3 objects: 1 to create, 1 to change, 1 unchanged", "Deployment/web  1 field", "+ image: web:2"}
		expect(planned...)
		s.Update(keyPress("d"))
		expect(append(planned, " diff ")...)
		answered(keyPress("esc"))
		feed(event.Event{Kind: event.KindGroup, Scope: "shop/shop", Phase: "apply", Group: "shop:web", Status: event.Running})
		for _, status := range []event.Status{event.Applying, event.Ready} {
			feed(event.Event{Kind: event.KindObject, Scope: "shop/shop", Phase: "apply", Group: "shop:web", Object: &web, Status: status, Change: event.Configured})
		}
		expect("3 objects: 1 changed, 1 to create, 1 unchanged", "Deployment/web  changed", "+ image: web:2")
		if n := changes.asked.Load(); n != 3 {
			t.Errorf("%d objects of the release were compared, want each once", n)
		}
	})
}

// TestStackKeys opens a release and returns. Keys for the run reach the stack, keys for a group its
// release (S6).
func TestStackKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var sent []event.Command
		s := openStack(t, 100, 30, 75, dark, &sent, "home", "enter")
		text := func() string { return ansi.Strip(s.View().Content) }
		if !strings.Contains(text(), "kinds") || strings.Contains(text(), "shop/identity") {
			t.Fatalf("enter did not open the release:\n%s", text())
		}
		s.Update(keyPress("p"))
		if len(sent) != 1 || sent[0].Name != event.Pause || sent[0].Scope != "" {
			t.Errorf("p sent %+v", sent)
		}
		s.Update(keyPress("esc"))
		if !strings.Contains(text(), "shop/identity") {
			t.Errorf("esc does not return to the releases:\n%s", text())
		}
		for _, k := range []string{"end", "enter", "b"} {
			s.Update(keyPress(k))
		}
		if last := sent[len(sent)-1]; last.Name != event.Break || last.Scope != "shop/shop" || last.Group == "" {
			t.Errorf("b in the last release sent %+v", last)
		}
		s.Update(keyPress("a"))
		if s.open != "" || !strings.Contains(text(), "abort") {
			t.Errorf("a did not ask about the whole run:\n%s", text())
		}
	})
}

// TestStackPicture checks that the picture of a stack in README.md shows what the screen shows.
func TestStackPicture(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStackRun(t, 110, 20, recorded(t, "sandbox-orders", 0), dark, new([]event.Command))
		for _, want := range []string{"orders/backup", "orders/schema", "upgrade 1.0.0", "held", "want 201, got 500", "R retry"} {
			if !strings.Contains(ansi.Strip(s.View().Content), want) {
				t.Errorf("the picture does not show %q", want)
			}
		}
		keep(t, "stack", drawSVG(s.View().Content, 110, 20, false))
	})
}

// TestStackReplay replays a stack: the board of an open release follows, back and forth.
func TestStackReplay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := replay.NewPlayer(recorded(t, "sandbox-stack", 0), 0)
		o := Options{Theme: dark}.replaying(p)
		s := newStack(t.Context(), o)
		s.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
		s.Init()
		text := func() string { return ansi.Strip(s.View().Content) }
		for _, k := range []string{">", "end", "enter"} {
			s.Update(keyPress(k))
		}
		if !strings.Contains(text(), "2 of 3 ready") && !strings.Contains(text(), "3 of 3 ready") {
			t.Errorf("wrong end of the last release:\n%s", text())
		}
		s.Update(keyPress("<"))
		for range 20 {
			s.Update(keyPress("right"))
		}
		if !strings.Contains(text(), "0 of 3 ready") {
			t.Errorf("wrong screen of the last release before it started:\n%s", text())
		}
		s.Update(keyPress("esc"))
		if !strings.Contains(text(), "data/queue") {
			t.Errorf("esc does not return to the releases:\n%s", text())
		}
	})
}

// TestReleaseOfPausedStack: the board of a release that has not started shows the pause and the stack's
// keys, and also its refusals and dialogs (S6).
func TestReleaseOfPausedStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var sent []event.Command
		s := openStack(t, 100, 30, 75, dark, &sent, "end", "enter")
		text := func() string { return ansi.Strip(s.View().Content) }
		expect := func(want ...string) {
			t.Helper()
			for _, w := range want {
				if !strings.Contains(text(), w) {
					t.Errorf("%q is missing:\n%s", w, text())
				}
			}
		}
		feed := func(e event.Event) {
			e.Time = s.State.Now
			s.Update(batchMsg{events: []event.Event{e}, more: true})
		}
		expect("○ waiting  for shop/identity", " p pause  b breakpoint  a abort ")
		feed(event.Event{Kind: event.KindRun, Status: event.Paused, Message: "breakpoint shop/identity"})
		expect("‖ paused  not started · breakpoint shop/identity", " p resume  n step  b breakpoint  a abort ")
		s.Update(keyPress("n"))
		if last := sent[len(sent)-1]; last.Name != event.Step || last.Scope != "" {
			t.Errorf("n sent %+v", last)
		}
		feed(event.Event{Kind: event.KindCommand, Command: event.Step, Answers: sent[len(sent)-1].ID, Status: event.Refused, Message: "nothing to start"})
		expect("cannot step: nothing to start")
		s.Update(keyPress("c"))
		feed(event.Event{Kind: event.KindCommand, Command: event.Resume, Answers: sent[len(sent)-1].ID, Scope: "shop/identity", Status: event.Refused, Message: "a failure is held"})
		expect("cannot resume: a failure is held")
		for _, keys := range [][]string{{"?", "ctrl+c"}, {":", "a", "b", "o", "r", "t", "enter"}} {
			for _, k := range keys {
				s.Update(keyPress(k))
			}
			expect("abort this run of shop?")
			for _, k := range []string{"esc", "end", "enter"} {
				s.Update(keyPress(k))
			}
		}
		feed(event.Event{Kind: event.KindOperation, Status: event.Failed, Exit: new(int), Outcome: "2 of 5 deployed"})
		expect("⊘ never started  2 of 5 deployed")
		s = openStack(t, 100, 30, 75, dark, &sent, "end", "enter")
		feed(event.Event{Kind: event.KindOperation, Scope: "shop/shop", Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop"}})
		feed(event.Event{Kind: event.KindRun, Scope: "shop/shop", Status: event.Held, Message: "shop:api"})
		expect("✗ held", "A re-check   R retry   G stop here   a abort", "\n b breakpoint  / filter")
	})
}

// TestDegradedGroupInRelease: the group of a release that has a degraded object looks as on the board of the release.
func TestDegradedGroupInRelease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStack(t, 100, 30, 75, dark, nil)
		feed, expect := stackScreen(t, s)
		release := s.State.Scopes["data/database"]
		g := release.Find(release.Phases[0].Name, release.Groups()[0].ID)
		g.Status = event.Running
		o := g.Objects[len(g.Objects)-1].Object
		s.Sel = screen.Spot{Unit: event.Unit{Phase: "releases", Group: "data/database"}}
		feed(event.Event{Kind: event.KindObject, Scope: "data/database", Phase: g.Phase, Group: g.ID, Object: &o, Status: event.InProgress})
		feed(event.Event{Kind: event.KindDiagnosis, Scope: "data/database", Phase: g.Phase, Group: g.ID, Object: &o, Status: event.Degraded, Cause: "no image"})
		expect("◑ " + g.Name + "   degraded")
	})
}

// TestHeldFailureInStack: the releases show that one of them holds a failure, with the keys that fix it
// (S6, R44).
func TestHeldFailureInStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var sent []event.Command
		s := openStack(t, 100, 30, 75, dark, &sent)
		feed, expect := stackScreen(t, s)
		release := s.State.Scopes["data/database"]
		group := release.Groups()[0].ID
		phase, why := release.Phases[0].Name, group+": Deployment/broken: no image"
		feed(event.Event{Kind: event.KindGroup, Scope: "data/database", Phase: phase, Group: group, Status: event.Failed, Message: "Deployment/broken: no image"})
		feed(event.Event{Kind: event.KindRun, Scope: "data/database", Status: event.Held, Message: why})
		feed(event.Event{Kind: event.KindRun, Status: event.Paused, Message: "data/database: " + why})
		expect("✗ held  data/database · store · Deployment/broken: no", "┏ ✗ data/database", "A re-check   R retry   G stop here   a abort", "f next problem")
		pen := func(text string, from int) string { // the escape sequence before a text
			frame := s.View().Content
			at := from + strings.Index(frame[from:], text)
			return frame[strings.LastIndex(frame[:at], "\x1b["):at]
		}
		card := strings.Index(s.View().Content, "┏")
		if cause, held := pen("Deployment/broken", max(card, 0)), pen("✗", 0); card < 0 || cause != held {
			t.Errorf("the cause on the card is drawn with %q, the failure in the header with %q:\n%q", cause, held, s.View().Content)
		}
		if word := s.State.IdleWord(); word != "held" {
			t.Errorf("the stack was %s", word)
		}
		s.Update(keyPress("G"))
		expect("end the run with 1 failed group", "; 2 waiting releases")
		s.Update(keyPress("esc"))

		// A stack cannot be edited: the help does not offer it, and a retry says with which plan.
		for _, k := range s.allKeys() {
			if slices.Contains(editKeys, k.Keys) {
				t.Errorf("the help of a stack offers %s (%s)", k.Keys, k.About)
			}
		}
		s.Update(keyPress("R"))
		expect("retrying with the plan that was read; to use a changed file, abort and run the command again")
		sent = nil

		// A release that has already failed is not held: the key still reaches the one that is.
		feed(event.Event{Kind: event.KindGroup, Phase: "releases", Group: "data/queue", Status: event.Failed, Message: "no image"})
		s.Sel = screen.Spot{Unit: event.Unit{Phase: "releases", Group: "data/queue"}}
		s.Update(keyPress("G"))
		expect("end the run with 1 failed group", "; 2 waiting releases")
		s.Update(keyPress("G"))
		if len(sent) != 1 || sent[0].Name != event.GiveUp || sent[0].Group != "" {
			t.Errorf("G sent %+v", sent)
		}
		s.Update(keyPress("e"))
		const instead = "a stack cannot be edited: change the chart or helmfile.yaml, abort with a and K, then run lockstep"
		expect(instead, "helmfile.yaml again with the same flags")
		s.Home = "home"
		s.Update(keyPress("e"))
		expect("abort with a and K, then press esc to", "go home and U (up) there, or run lockstep up -f")
		s.Home = ""
		for _, k := range []string{"home", "enter", "e"} {
			s.Update(keyPress(k))
		}
		expect(instead)
	})
}

// TestPaneOfAttachedStack: a screen that cannot look up changes shows the groups of the selected release in the pane; d says why.
func TestPaneOfAttachedStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		changes := &answerer{err: inspect.Unavailable("only the terminal of the run shows this")}
		o := Options{Inspector: changes, Theme: dark, Release: func(string) (inspect.Cluster, []string) { return changes, nil }, Command: func(event.Command) {}, Attached: true}
		var s *stack
		o.Now = func() time.Time { return s.State.Now }
		s = newStack(t.Context(), o)
		s.Update(tea.WindowSizeMsg{Width: 160, Height: 45})
		s.Update(batchMsg{events: recorded(t, "sandbox-stack", 75), more: true})
		_, expect := stackScreen(t, s)
		answered := func(msg tea.Msg) {
			_, cmd := s.Update(msg)
			for _, msg := range answers(cmd) {
				s.Update(msg)
			}
		}
		answered(keyPress("end"))
		if text := ansi.Strip(s.View().Content); strings.Contains(text, "only the terminal") {
			t.Errorf("the pane says only why it shows no changes:\n%s", text)
		}
		expect("2 groups, 3 objects", "web  waiting      Deployment/web")
		answered(keyPress("d"))
		expect("only the terminal of the run shows this")
	})
}

// TestCauseInStack: l and v open the logs and the events of the object for which the selected release of a stack is in trouble.
func TestCauseInStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cluster := &answerer{}
		o := Options{Inspector: cluster, Theme: dark, Release: func(string) (inspect.Cluster, []string) { return cluster, nil }, Command: func(event.Command) {}}
		var s *stack
		o.Now = func() time.Time { return s.State.Now }
		s = newStack(t.Context(), o)
		s.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
		s.Update(batchMsg{events: recorded(t, "sandbox-stack", 75), more: true})
		feed, expect := stackScreen(t, s)
		footer := func() string { return strings.TrimRight(ansi.Strip(s.View().Content), "\n ") }
		if text := footer(); strings.Contains(text, "l logs") {
			t.Errorf("the logs of a release that is fine are offered:\n%s", text)
		}
		s.Update(keyPress("l"))
		expect("press enter to open the release first")
		release := s.State.Scopes["data/database"]
		g := release.Find(release.Phases[0].Name, release.Groups()[0].ID)
		o2 := g.Objects[len(g.Objects)-1].Object
		feed(event.Event{Kind: event.KindObject, Scope: "data/database", Phase: g.Phase, Group: g.ID, Object: &o2, Status: event.Applied, Change: event.Created})
		feed(event.Event{Kind: event.KindObject, Scope: "data/database", Phase: g.Phase, Group: g.ID, Object: &o2, Status: event.InProgress})
		feed(event.Event{Kind: event.KindGroup, Scope: "data/database", Phase: g.Phase, Group: g.ID, Status: event.Failed, Object: &o2, Cause: "no image"})
		feed(event.Event{Kind: event.KindRun, Scope: "data/database", Status: event.Held, Message: g.ID})
		s.Sel = screen.Spot{Unit: event.Unit{Phase: "releases", Group: "data/database"}}
		expect("v events  l logs")
		for key, tab := range map[string]inspector.Tab{"l": inspector.TabLogs, "v": inspector.TabEvents} {
			s.Update(keyPress(key))
			m := s.boards["data/database"]
			if s.open != "data/database" || !m.insp.Shown || m.insp.Tab != tab || m.insp.TargetObject().Object != o2 {
				t.Errorf("%s opened %q, tab %d", key, s.open, m.insp.Tab)
			}
			s.Update(keyPress("esc"))
			s.Update(keyPress("esc"))
		}
	})
}

// TestTimeoutOfHeldRelease: the screen of a stack and that of its release tell a held failure alike: the cards have the cause, the
// panes also which timeout expired.
func TestTimeoutOfHeldRelease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStack(t, 100, 30, 75, dark, new([]event.Command))
		feed, expect := stackScreen(t, s)
		release := s.State.Scopes["data/database"]
		g := release.Find(release.Phases[0].Name, release.Groups()[0].ID)
		o := g.Objects[len(g.Objects)-1].Object
		why := "container app cannot start: image example/no-such-image:2 cannot be pulled"
		feed(event.Event{Kind: event.KindObject, Scope: "data/database", Phase: g.Phase, Group: g.ID, Object: &o, Status: event.InProgress})
		feed(event.Event{Kind: event.KindDiagnosis, Scope: "data/database", Phase: g.Phase, Group: g.ID, Object: &o, Status: event.Degraded, Cause: why})
		feed(event.Event{Kind: event.KindGroup, Scope: "data/database", Phase: g.Phase, Group: g.ID, Status: event.Failed, Object: &o, Cause: why, Timeout: &event.Timeout{After: time.Minute, Flag: "--readiness-timeout"}})
		feed(event.Event{Kind: event.KindRun, Scope: "data/database", Status: event.Held, Message: g.ID})
		s.Sel = screen.Spot{Unit: event.Unit{Phase: "releases", Group: "data/database"}}
		for _, k := range []string{"", "enter"} {
			if k != "" {
				s.Update(keyPress(k))
			}
			expect("✗ held", "gave up after")
			if text := ansi.Strip(s.View().Content); strings.Count(text, "gave up after") != 1 {
				t.Errorf("the timeout is told in several places:\n%s", text)
			}
		}
	})
}

// TestReportOfStack: the report of a stack speaks of releases.
func TestReportOfStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStack(t, 100, 40, 0, dark, nil)
		_, expect := stackScreen(t, s)
		s.State.Phases[0].Usual = map[string]time.Duration{"data/queue": time.Second}
		queue := s.State.Scopes["data/queue"]
		queue.Status, queue.Outcome = event.Succeeded, "1 Job started, not complete at the end"
		s.Update(keyPress("o"))
		expect("slowest releases, compared with last time", "last time 1.0 s", "data/queue: 1 Job started, not complete at the end")
		s.Update(keyPress("esc"))
		s.State.Outcome = "rolled back; 5 releases uninstalled"
		group := s.State.Find("releases", "data/queue").Group
		s.Update(batchMsg{more: true, events: []event.Event{
			{Kind: event.KindPlan, Phases: []event.Phase{{Name: "rollback/remove", Kind: event.PhaseRemove, Groups: []*plan.Group{group}}}},
			{Kind: event.KindObject, Phase: "rollback/remove", Group: group.ID, Object: &group.Objects[0], Status: event.Gone, Change: event.Deleted},
		}})
		s.Update(keyPress("o"))
		expect("rolled back; 5 releases uninstalled")
		if text := ansi.Strip(s.View().Content); strings.Contains(text, "rolled back: ") {
			t.Errorf("the report counts the releases twice:\n%s", text)
		}
	})
}

// TestStepOfStack names the group that the next step starts in a paused release (S6, R41).
func TestStepOfStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStack(t, 120, 30, 75, dark, new([]event.Command))
		feed, expect := stackScreen(t, s)
		object := s.Graph.ByKey[event.Unit{Phase: "releases", Group: "data/database"}].Objects[0].Object
		release := s.State.Scopes["data/database"]
		first, group := release.Groups()[0].ID, release.Groups()[1].ID
		feed(event.Event{Kind: event.KindGroup, Scope: "data/database", Phase: release.Phases[0].Name, Group: first, Status: event.Ready})
		feed(event.Event{Kind: event.KindRun, Scope: "data/database", Status: event.Paused})
		feed(event.Event{Kind: event.KindRun, Status: event.Paused})
		feed(event.Event{Kind: event.KindObject, Phase: "releases", Group: "data/database", Object: &object, Status: event.Applying, Message: "0 of 3 groups done"})
		expect("‖ paused  ▷ next: data/database, group "+group, "‖ ▷ data/database", "‖ paused: 0 of 3 groups done")
		if strings.Contains(ansi.Strip(s.View().Content), "in flight") {
			t.Errorf("a paused release has a request in flight:\n%s", ansi.Strip(s.View().Content))
		}
		feed(event.Event{Kind: event.KindGroup, Scope: "data/database", Phase: release.Phases[0].Name, Group: group, Status: event.Running})
		expect("‖ paused  " + group + " in progress")
		s.Update(keyPress("enter"))
		expect("‖ paused  ▷ next: ", "◐ "+strings.TrimPrefix(group, "database:"))
	})
}

// TestCommandsInStack: on the screen of a release, what this terminal did is not somebody else's doing, and what others did is said
// once.
func TestCommandsInStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var sent []event.Command
		s := openStack(t, 100, 30, 75, dark, &sent, "home")
		feed, expect := stackScreen(t, s)
		s.Update(keyPress("p"))
		feed(event.Event{Kind: event.KindCommand, Scope: "data/monitoring", Command: event.Pause, Status: event.Accepted, Answers: sent[0].ID})
		s.Update(keyPress("enter"))
		if text := ansi.Strip(s.View().Content); strings.Contains(text, "paused by") {
			t.Errorf("the terminal's own command is said to be somebody else's:\n%s", text)
		}
		feed(event.Event{Kind: event.KindCommand, Scope: "data/monitoring", Command: event.Resume, Status: event.Accepted, Answers: "x", By: "ada@laptop"})
		expect("resumed by ada@laptop")
	})
}

// stackScreen returns functions that add an event to a stack's screen, and check its text.
func stackScreen(t *testing.T, s *stack) (feed func(event.Event), expect func(...string)) {
	feed = func(e event.Event) {
		e.Time = s.State.Now
		s.Update(batchMsg{events: []event.Event{e}, more: true})
	}
	expect = func(want ...string) {
		t.Helper()
		for _, w := range want {
			if text := ansi.Strip(s.View().Content); !strings.Contains(text, w) {
				t.Errorf("%q is missing:\n%s", w, text)
			}
		}
	}
	return feed, expect
}

// TestCountsOfStack: a paused release is counted as paused, and the end of an aborted stack counts each release once.
func TestCountsOfStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStack(t, 160, 45, 75, dark, new([]event.Command))
		feed, expect := stackScreen(t, s)
		expect("1 in progress")
		feed(event.Event{Kind: event.KindRun, Status: event.Paused, Message: "user"})
		for g := range s.State.GroupStates() {
			if g.Status == event.Running {
				feed(event.Event{Kind: event.KindRun, Scope: g.ID, Status: event.Paused, Message: "user"})
			}
		}
		expect("1 paused")
		outcome := "releases: 2 passed, unchanged, 3 not started"
		feed(event.Event{Kind: event.KindOperation, Status: event.Aborted, Exit: new(int), Outcome: outcome})
		expect(outcome)
		if text := ansi.Strip(s.View().Content); strings.Contains(strings.Split(text, "\n")[1], "never started") {
			t.Errorf("the releases that were not started are counted twice:\n%s", text)
		}
	})
}

// TestColumnsOfStack: columns are named after their layers, also in rollbacks and removals. A release that a rollback uninstalled is
// gone.
func TestColumnsOfStack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStack(t, 200, 50, 75, dark, nil)
		group := &plan.Group{ID: "data/queue", After: []string{}, Objects: []plan.Object{{Kind: "Release", Name: "queue"}}}
		s.Update(batchMsg{events: []event.Event{{Kind: event.KindPlan, Phases: []event.Phase{
			{Name: "remove", Kind: event.PhaseRemove, Groups: []*plan.Group{group}}, {Name: "rollback/releases", Kind: event.PhaseApply, Groups: []*plan.Group{group}},
		}}}, more: true})
		uninstalled := s.State.Find("rollback/releases", "data/queue")
		s.Update(batchMsg{more: true, events: []event.Event{{Kind: event.KindObject, Phase: "rollback/releases", Group: "data/queue", Object: &group.Objects[0], Status: event.Ready, Change: event.Deleted}}})
		if word := s.ObjectMark(s.Graph.ByKey[uninstalled.Unit()], uninstalled.Objects[0]).Word; word != "gone" {
			t.Errorf("a release that the rollback uninstalled is %s", word)
		}
		var titles []string
		for _, c := range s.Graph.Cols {
			titles = append(titles, c.Title)
		}
		if got, want := strings.Join(titles, ", "), "layer 0, layer 1, layer 2, layer 3, delete layer 0, rollback layer 0"; got != want {
			t.Errorf("the columns are %s, want %s", got, want)
		}
	})
}

// TestReleaseRolledBackByItself: the card of a release that was rolled back by itself says so, with the rollback's groups and counts,
// not those of the removed objects (R43).
func TestReleaseRolledBackByItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStack(t, 200, 50, 75, dark, nil)
		feed, expect := stackScreen(t, s)
		const id, phase = "data/database", "rollback/uninstall"
		object := plan.Object{Kind: "ConfigMap", Name: "database"}
		for _, e := range []event.Event{
			{Kind: event.KindPlan, Phases: []event.Phase{{Name: phase, Kind: event.PhaseRemove, Groups: []*plan.Group{{ID: "store", Objects: []plan.Object{object}}}}}},
			{Kind: event.KindGroup, Phase: phase, Group: "store", Status: event.Running},
			{Kind: event.KindObject, Phase: phase, Group: "store", Object: &object, Status: event.Gone, Change: event.Deleted},
			{Kind: event.KindGroup, Phase: phase, Group: "store", Status: event.Gone},
			{Kind: event.KindOperation, Status: event.Aborted, Release: event.NoRelease, Exit: new(int)},
		} {
			e.Scope = id
			feed(e)
		}
		feed(event.Event{Kind: event.KindGroup, Phase: "releases", Group: id, Status: event.Aborted})
		expect("aborted, deleted", "uninstalled: 1 deleted", "1 of 1 object gone")
		short := 0
		for height := 14; height <= 30; height += 2 {
			s.Update(tea.WindowSizeMsg{Width: 100, Height: height})
			text := ansi.Strip(s.View().Content)
			if strings.Contains(text, "uninstalled: 1 d") && !strings.Contains(text, "uninstalled: 1 deleted") {
				t.Errorf("a narrow card cuts what happened to its release:\n%s", text)
			}
			if strings.Contains(text, "uninstalled  ") {
				short++
			}
		}
		if short == 0 {
			t.Error("no card was narrow")
		}
		s.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
		queue := plan.Object{Kind: "Release", Name: "queue"}
		feed(event.Event{Kind: event.KindOperation, Status: event.RollingBack, Operation: &event.Operation{Name: "rollback", Release: "stack"}})
		feed(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: phase, Kind: event.PhaseRemove, Groups: []*plan.Group{{ID: "data/queue", Objects: []plan.Object{queue}}}}}})
		feed(event.Event{Kind: event.KindObject, Phase: phase, Group: "data/queue", Object: &queue, Status: event.Gone, Change: event.Deleted})
		feed(event.Event{Kind: event.KindGroup, Phase: phase, Group: "data/queue", Status: event.Gone})
		expect("2 of 2 gone")
	})
}

// TestReleasePaneNamesObjects: the pane of a running release names the objects that it waits for.
func TestReleasePaneNamesObjects(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		seen := 0
		for n := 20; n < 160; n += 4 {
			all := openStack(t, 160, 45, n, dark, new([]event.Command))
			s := &rig{model: all.model}
			sel := s.Group()
			if sel == nil || sel.Status != event.Running || s.State.Scopes[sel.ID] == nil {
				continue
			}
			for g := range s.State.Scopes[sel.ID].GroupStates() {
				for _, o := range g.Objects {
					if g.Status == event.Running && o.Status == event.InProgress && !o.Degraded {
						seen++
						s.shows(t, "◐ "+graph.ShortObject(o.Object))
					}
				}
			}
		}
		if seen == 0 {
			t.Error("nothing was in progress")
		}
	})
}
