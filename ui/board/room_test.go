package board

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
)

const longCause = `no pods can be created: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "api" must set ` +
	`securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container "api" must set securityContext.runAsNonRoot=true), ` +
	`seccompProfile (pod or container "api" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`

// twoStuck is an installation in which two groups are not ready for reasons with long texts, and one
// waits for both.
func twoStuck() []event.Event {
	api, queue := plan.Object{Kind: "Deployment", Name: "api"}, plan.Object{Kind: "Deployment", Name: "queue"}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{
			{ID: "s:app", Chart: "s", Name: "app", Objects: []plan.Object{api}}, {ID: "s:queue", Chart: "s", Name: "queue", Objects: []plan.Object{queue}},
			{ID: "s:web", Chart: "s", Name: "web", Layer: 1, After: []string{"s:app", "s:queue"}, Objects: []plan.Object{{Kind: "ConfigMap", Name: "web"}}}}}}},
	}
	for group, o := range map[string]*plan.Object{"s:app": &api, "s:queue": &queue} {
		events = append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: group, Status: event.Running},
			event.Event{Kind: event.KindObject, Phase: "apply", Group: group, Object: o, Status: event.InProgress, Message: "0 of 1 updated"})
	}
	cause := `claim data-queue-0 has no volume: StorageClass "fast" does not exist, and no volume of that class fits 10Gi, ReadWriteOnce`
	events = append(events,
		event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: "s:queue", Object: &queue, Cause: cause},
		event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: "s:app", Object: &api, Cause: longCause})
	for n := range events {
		events[n].Seq, events[n].Time = uint64(n+1), began.Add(time.Duration(n)*time.Second)
	}
	return events
}

// TestCauseIsCompleteIfItFits: running and held, at all sizes, no cause is truncated while rows are free,
// and both failures are shown.
func TestCauseIsCompleteIfItFits(t *testing.T) {
	for _, size := range [][2]int{{60, 24}, {80, 24}, {100, 30}, {160, 45}, {200, 50}} {
		s := newScreen(t, size[0], size[1], twoStuck())
		for s.Group().ID != "s:app" {
			s.press("tab")
		}
		whole := func(what string, causes ...string) {
			t.Helper()
			lines := s.lines()
			lines[1] = strings.TrimRight(lines[1][:strings.IndexAny(lines[1], "━─╸")], " ") // without bar and counts
			words := strings.Join(strings.Fields(strings.Join(lines, "\n")), " ")
			for _, c := range causes {
				if !strings.Contains(words, c) {
					t.Errorf("%s at %v does not show all of %q:\n%s", what, size, c, s.text())
				}
			}
		}
		whole("running", longCause)
		for _, name := range []string{"api", "queue"} {
			o := &plan.Object{Kind: "Deployment", Name: name}
			group := map[string]string{"api": "s:app", "queue": "s:queue"}[name]
			s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: group, Object: o, Status: event.Failed, Cause: "gave up", Time: s.State.Now.Add(time.Second)})
		}
		s.feed(event.Event{Kind: event.KindRun, Status: event.Held, Message: "s:app", Time: s.State.Now})
		switch {
		case size[1] > 24:
			whole("held", longCause, `queue · Deployment/queue: claim data-queue-0 has no volume: StorageClass "fast" does not exist, and no volume of that class fits 10Gi, ReadWriteOnce`)
		default:
			whole("held", longCause)
		}
		s.shows(t, "R retry")
	}
}

// TestCardWrapsCause: a card wraps the cause of a failure into free rows, but no ordinary progress.
func TestCardWrapsCause(t *testing.T) {
	s := newScreen(t, 200, 50, twoStuck())
	c := s.board.Cards[0]
	if last := s.lines()[c.Rect.Y+c.Rect.H-2]; c.Node.ID != "s:app" || !strings.Contains(last, `"Localhost")`) {
		t.Errorf("the card ends with %s:\n%s", last, s.text())
	}
	events := twoStuck()
	s = newScreen(t, 200, 50, events[:len(events)-2])
	if n := s.board.Cards[0].Rect.H - 2; n > 2 {
		t.Errorf("ordinary progress takes %d rows:\n%s", n, s.text())
	}
}

// TestFailuresWithLaterChange: the state lines of several failures keep the outcome whole when the
// release changes after the operation.
func TestFailuresWithLaterChange(t *testing.T) {
	s := newScreen(t, 160, 45, twoStuck(), func(o *Options) {
		o.WatchAfter = func(context.Context) (Source, error) { return idle{}, nil }
	})
	for group, name := range map[string]string{"s:app": "api", "s:queue": "queue"} {
		o := &plan.Object{Kind: "Deployment", Name: name}
		s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: group, Object: o, Status: event.Failed, Cause: "gave up", Time: s.State.Now})
	}
	exit := 1
	s.feed(event.Event{Kind: event.KindOperation, Status: event.Failed, Message: "two groups failed", Exit: &exit, Outcome: "the release is marked failed", Time: s.State.Now})
	s.send(watchStartedMsg{source: idle{}})
	s.Observed.Message = "revision 2 was deployed"
	s.send(tickMsg{})
	s.shows(t, "the release is marked failed · since then: revision 2 was deployed")
}

// TestFinishedCardsGiveRoom: the cause on a card is complete even if every row is taken: finished cards, also those of other bands, give
// up rows, the empty ones first. Without a problem, they have them again.
func TestFinishedCardsGiveRoom(t *testing.T) {
	const cause = `no pods can be created: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container must set securityContext.runAsNonRoot=true)`
	s := newScreen(t, 160, 45, recorded(t, "sandbox-held", 0))
	g := s.State.Find("apply", "shop/api:server")
	o := g.Objects[2].Object
	heights := func() map[string]int {
		all := map[string]int{}
		for _, c := range s.board.Cards {
			all[c.Node.ID] = c.Rect.H
		}
		return all
	}
	s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Running, Time: s.State.Now},
		event.Event{Kind: event.KindRun, Status: event.Running, Time: s.State.Now},
		event.Event{Kind: event.KindObject, Phase: "apply", Group: g.ID, Object: &o, Status: event.InProgress, Time: s.State.Now},
		event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: g.ID, Object: &o, Time: s.State.Now})
	usual := heights()
	s.feed(event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: g.ID, Object: &o, Cause: cause, Status: event.Degraded, Time: s.State.Now})
	s.press("tab") // the pane does not show the cause
	said := ""
	for _, c := range s.board.Cards {
		switch h := usual[c.Node.ID]; {
		case c.Node.GroupState == g:
			for _, l := range s.lines()[c.Rect.Y+1 : c.Rect.Y+c.Rect.H-1] {
				said += strings.TrimSpace(string([]rune(l)[c.Rect.X+1:c.Rect.X+c.Rect.W-1])) + " "
			}
		case c.Rect.H < h && c.Node.Status != event.Ready:
			t.Errorf("%s, which is %s, has %d rows instead of %d", c.Node.ID, c.Node.Status, c.Rect.H, h)
		}
	}
	if end := "securityContext.runAsNonRoot=true)"; !strings.Contains(strings.ReplaceAll(said, " ", ""), end) {
		t.Errorf("the card says %q:\n%s", said, s.text())
	}
	s.feed(event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: g.ID, Object: &o, Time: s.State.Now})
	if now := heights(); !maps.Equal(now, usual) {
		t.Errorf("without a problem, the cards have %v rows, before %v", now, usual)
	}
}

// TestLowestCardShowsCause: a card with one line has the cause of the worst object, not its name.
func TestLowestCardShowsCause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, low := newScreen(t, 160, 45, graphAt(22, 11, 0)), 0
		for _, n := range s.Graph.Nodes {
			if n.Status == event.Running {
				o := n.Objects[0].Object
				s.feed(event.Event{Kind: event.KindDiagnosis, Phase: n.Phase, Group: n.ID, Object: &o, Cause: "image x cannot be pulled", Status: event.Degraded, Time: s.State.Now})
			}
		}
		s.View()
		for _, c := range s.board.Cards {
			if c.Node.Degraded == 0 || c.IsLine() || c.Rect.H != cards.MinCardRows {
				continue
			}
			low++
			if l := []rune(s.lines()[c.Rect.Y+1]); !strings.Contains(string(l[c.Rect.X:c.Rect.X+c.Rect.W]), "image x") {
				t.Errorf("the card of %s has no cause:\n%s", c.Node.ID, s.text())
			}
		}
		if low == 0 {
			t.Errorf("no card is low:\n%s", s.text())
		}
	})
}

// TestLowCardShowsCause: a card with two lines has the worst object and its cause, not how many others are ready: its border counts them.
func TestLowCardShowsCause(t *testing.T) {
	low := 0
	for _, size := range [][2]int{{100, 30}, {120, 40}, {160, 45}} {
		for _, groups := range []int{15, 24, 40} {
			events := graphAt(groups, 4, 1)
			s := newScreen(t, size[0], size[1], events)
			for _, n := range s.Graph.Nodes {
				if n.Status != event.Running || len(n.Objects) < 3 {
					continue
				}
				s := newScreen(t, size[0], size[1], events)
				o := n.Objects[0].Object
				s.feed(event.Event{Kind: event.KindDiagnosis, Phase: n.Phase, Group: n.ID, Object: &o, Cause: "image x cannot be pulled", Status: event.Degraded, Time: s.State.Now})
				for _, c := range s.board.Cards {
					if c.Node.ID != n.ID || c.IsLine() || c.Rect.H < 4 {
						continue
					}
					low++
					card := ""
					for _, l := range s.lines()[c.Rect.Y : c.Rect.Y+c.Rect.H] {
						card += string([]rune(l)[c.Rect.X:c.Rect.X+c.Rect.W]) + "\n"
					}
					if !strings.Contains(card, "image") {
						t.Errorf("the card of %s has no cause at %v:\n%s", n.ID, size, card)
					}
				}
			}
		}
	}
	if low == 0 {
		t.Error("no card is low")
	}
}

// TestPaneIsFull: no line of the pane is cut while a row of it is empty, and no row is taken from a line after it.
func TestPaneIsFull(t *testing.T) {
	m := newScreen(t, 100, 30, twoStuck())
	lines := []canvas.Line{canvas.Plain(theme.Text, longCause), nil, canvas.Plain(theme.Text, "short"), canvas.Plain(theme.Quiet, "  "+longCause), canvas.Plain(theme.Text, "needed by 1 group: web")}
	whole := len(canvas.WrapLines(lines, 60))
	for room := len(lines); room < whole+3; room++ {
		got := m.wrapInto(lines, room, 60)
		if len(got) != min(room, whole) {
			t.Errorf("%d of %d rows are used", len(got), room)
		}
		if last := got[len(got)-1].Text(); last != "needed by 1 group: web" {
			t.Errorf("with %d rows, the last line is %q", room, last)
		}
	}
}

// TestRetryOnCard: a card says why a request is being retried, as the pane does.
func TestRetryOnCard(t *testing.T) {
	events := twoStuck()[:4]
	app := plan.Object{Kind: "Deployment", Name: "api"}
	events[2].Group = "s:app"
	events[3] = event.Event{Seq: 4, Time: events[2].Time, Kind: event.KindObject, Phase: "apply", Group: "s:app", Object: &app, Status: event.Applying, Message: "retrying: webhook down failed: connection refused"}
	s := newScreen(t, 100, 30, events)
	if n := strings.Count(s.text(), "refused"); n < 2 { // all of it
		t.Errorf("the reason is shown %d times:\n%s", n, s.text())
	}
}

// TestWiderScreen: columns that were out of view come back when the screen becomes wide enough for all.
func TestWiderScreen(t *testing.T) {
	s := newScreen(t, 60, 20, twoStuck())
	s.press("end")
	s.send(tea.WindowSizeMsg{Width: 64, Height: 24})
	s.send(tea.WindowSizeMsg{Width: 100, Height: 24})
	if s.board.First != 0 || len(s.board.Columns) != 2 {
		t.Errorf("the view begins with column %d:\n%s", s.board.First, s.text())
	}
}

// TestWideCards: cards get wider for reasons as long as the screen has room, so a long cause takes few rows.
func TestWideCards(t *testing.T) {
	for size, least := range map[[2]int]int{{100, 30}: 45, {160, 45}: graph.WideCard, {200, 50}: graph.WideCard} {
		s := newScreen(t, size[0], size[1], twoStuck())
		for _, c := range s.board.Cards {
			if c.Rect.W < least {
				t.Errorf("the card of %s is %d wide at %v:\n%s", c.Node.ID, c.Rect.W, size, s.text())
			}
		}
	}
	for _, run := range []string{"sandbox-install", "sandbox-held", "sandbox-rollback", "sandbox-breakpoint"} {
		s := newScreen(t, 200, 50, recorded(t, run, 0))
		ws := s.board.Widths()
		if cols := s.board.Columns; len(cols) < len(ws.Columns) || len(cols) == 0 {
			continue // not side by side
		}
		last := s.board.Columns[len(s.board.Columns)-1]
		if free := s.W - 1 - last.X - last.W; free > len(s.board.Columns) {
			for _, p := range s.board.Columns {
				if p.W < graph.WideCard {
					t.Errorf("%s: column %d is %d wide beside %d empty cells", run, p.Index, p.W, free)
				}
			}
		}
	}
}

// TestStateStaysWithTab: the state line keeps the whole cause while a tab is open beside empty rows.
func TestStateStaysWithTab(t *testing.T) {
	s := newScreen(t, 160, 45, twoStuck())
	api := plan.Object{Kind: "Deployment", Name: "api"}
	s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "s:app", Object: &api, Status: event.Failed, Cause: "gave up", Time: s.State.Now},
		event.Event{Kind: event.KindRun, Status: event.Held, Message: "s:app", Time: s.State.Now})
	before := len(s.header.StateLines)
	s.press("enter")
	if !s.insp.Shown || before < 2 || len(s.header.StateLines) < before {
		t.Errorf("%d state lines, before the tab %d:\n%s", len(s.header.StateLines), before, s.text())
	}
}

// TestTroubleGetsCards: where not all groups of a column can be cards, those in trouble are.
func TestTroubleGetsCards(t *testing.T) {
	for ready := 6; ready < 12; ready++ {
		s := newScreen(t, 100, 30, crowded(ready, 0, 0))
		ok := false
		for _, c := range s.board.Cards {
			switch {
			case c.Node.Status != event.Failed:
				ok = ok || c.IsLine()
			case c.IsLine() && slices.ContainsFunc(s.board.Cards, func(o cards.Card) bool { return o.Node.Col == c.Node.Col && !o.IsLine() }):
				t.Errorf("the failed group is a line among %d:\n%s", ready, s.text())
			}
		}
		if !ok && ready > 9 {
			t.Errorf("no group is a line:\n%s", s.text())
		}
	}
}

// TestFooterHasNoHole: the keys of the footer stand next to each other, also those that stay when others are left out.
func TestFooterHasNoHole(t *testing.T) {
	for _, w := range []int{60, 80, 100, 160} {
		s := newScreen(t, w, 30, recorded(t, "sandbox-held", 0))
		footer := strings.TrimSpace(s.lines()[29])
		if strings.Contains(footer, "   ") || !strings.HasSuffix(footer, "? help") {
			t.Errorf("the footer at %d is %q", w, footer)
		}
	}
}

// TestNoWarnings: w without warnings says so instead of opening a dialog.
func TestNoWarnings(t *testing.T) {
	s := newScreen(t, 100, 30, twoStuck())
	s.press("w")
	if s.Modes.Top() != nil {
		t.Error("w opens a dialog")
	}
	s.shows(t, "no warnings")
}

// TestPausedStatusIsWhole: the rest of a long status stands before the diff of a group, not behind it.
func TestPausedStatusIsWhole(t *testing.T) {
	const why = "before Deployment/api is replaced (its pods are deleted with it)"
	api := plan.Object{Kind: "Deployment", Name: "api"}
	events := twoStuck()[:2]
	events = append(events, event.Event{Seq: 3, Time: events[1].Time, Kind: event.KindGroup, Phase: "apply", Group: "s:app", Status: event.AtBreakpoint, Message: why},
		event.Event{Seq: 4, Time: events[1].Time, Kind: event.KindRun, Status: event.Paused, Message: why})
	c := &answerer{}
	c.changes = map[string]inspect.Change{api.String(): {Action: inspect.Replace, Message: "field is immutable"}}
	s := newScreen(t, 80, 24, events, func(o *Options) { o.Inspector = c })
	for s.Group().ID != "s:app" {
		s.press("tab")
	}
	s.settle()
	words := strings.Join(strings.Fields(s.text()), " ")
	if !strings.Contains(words, "(its pods are deleted with it), 1 object Deployment/api") {
		t.Errorf("the status is not whole:\n%s", s.text())
	}
	for _, want := range []string{" ‖ paused  before Deployment/api is replaced  3 waiting ", "━━ paused ━"} { // nothing is cut
		if !strings.Contains(s.text(), want) {
			t.Errorf("%q is missing:\n%s", want, s.text())
		}
	}
}
