package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/ui/board/inspector"
)

// logsOfShop are the logs of four pods, one of which keeps failing.
var logsOfShop = func() (lines []inspect.LogLine) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	say := func(pod, container string, try int, text string) {
		at = at.Add(400 * time.Millisecond)
		lines = append(lines, inspect.LogLine{Source: event.Source{Pod: "shop-api-5f4bc54847-" + pod, Container: container, Instance: try}, Time: at, Text: text})
	}
	say("x2kq7", "main", 4, "connecting to postgres://shop-db:5432/shop")
	say("x2kq7", "main", 4, `FATAL: relation "orders" does not exist (SQLSTATE 42P01); the migration that creates it (0042_add_orders) has not been applied to this database`)
	lines = append(lines, inspect.LogLine{Source: event.Source{Pod: "shop-api-5f4bc54847-x2kq7", Container: "main", Instance: 4}, Time: at, Text: "exited with code 2", Note: true})
	for n, pod := range []string{"x2kq7", "5fvt4", "bfmjm", "nmss8"} {
		say(pod, "proxy", 1, "listening on :8443")
		say(pod, "main", 5-n, "connecting to postgres://shop-db:5432/shop")
	}
	for range 3 {
		say("5fvt4", "main", 4, "GET /healthz 200")
		say("bfmjm", "main", 3, "GET /healthz 200")
	}
	say("x2kq7", "main", 5, `FATAL: relation "orders" does not exist`)
	return lines
}()

var podsOfShop = []inspect.Pod{
	{Name: "shop-api-5f4bc54847-x2kq7", Ready: "1/2", Restarts: "4", Node: "node-0", Phase: "running", Why: `container main exited with code 2 (4 restarts): FATAL: relation "orders" does not exist`},
	{Name: "shop-api-5f4bc54847-5fvt4", Ready: "2/2", Restarts: "0", Node: "node-1", Phase: "running"},
	{Name: "shop-api-5f4bc54847-bfmjm", Ready: "0/2", Restarts: "0", Phase: "pending", Why: "cannot be scheduled: 2 of 2 nodes lack CPU"},
}

// openTabs presses keys, such as those of tabs, with the failed object of the held run selected.
func openTabs(t *testing.T, w, h int, keys ...string) *rig {
	s := newScreen(t, w, h, recorded(t, "sandbox-held", 0), answered)
	s.press("f")
	for _, k := range keys {
		s.press(k)
		s.settle()
	}
	return s
}

// TestTabsOpenFromBoard: the key of a tab works on the board and in any other tab.
func TestTabsOpenFromBoard(t *testing.T) { inBubble(t, testTabsOpenFromBoard) }

func testTabsOpenFromBoard(t *testing.T) {
	for key, tab := range map[string]inspector.Tab{"d": inspector.TabDiff, "y": inspector.TabManifest, "Y": inspector.TabManifest, "v": inspector.TabEvents, "l": inspector.TabLogs} {
		for _, before := range []string{"d", "y", "v", "l", ""} {
			s := openTabs(t, 100, 30, strings.Fields(before+" "+key)...)
			if !s.insp.Shown || s.insp.Tab != tab {
				t.Errorf("after %s, %s did not open %s", before, key, inspector.TabNames[tab])
			}
		}
	}
}

// TestLogsBeginAtTheFault: the logs of an object in trouble are those of the container at fault; 0 shows all. If it has no log, all are shown.
func TestLogsBeginAtTheFault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for container, shown := range map[string]bool{"main": true, "gone": false} {
			c := &answerer{logs: []inspect.LogLine{
				{Source: event.Source{Pod: "api-1", Container: "main", Instance: 1}, Text: "FATAL: no db"},
				{Source: event.Source{Pod: "api-2", Container: "main", Instance: 1}, Text: "all is well"},
			}}
			s := inspecting(t, c)
			g := s.Group()
			o := s.insp.TargetObject().Object
			s.feed(event.Event{Kind: event.KindDiagnosis, Phase: g.Phase, Group: g.ID, Object: &o, Status: event.Degraded, Cause: "exited with code 3", Time: s.State.Now,
				Details: &event.Details{Source: event.Source{Pod: "api-1", Container: container}, ExitCode: new(3)}})
			s.press("l")
			s.settle()
			s.shows(t, "FATAL: no db")
			if shown {
				s.showsNot(t, "all is well")
				s.press("0")
			}
			s.shows(t, "all is well")
		}
	})
}

// TestEventsBeginWithWhatMatters: warnings since the group started come first, then other events, then those from before, each the
// newest first.
func TestEventsBeginWithWhatMatters(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &answerer{}
		s := inspecting(t, c)
		start := s.Group().Started
		at := func(after time.Duration, warning bool, reason string) event.ClusterEvent {
			return event.ClusterEvent{Time: start.Add(after), Warning: warning, Object: "Pod/a", Reason: reason, Count: 1}
		}
		c.events = []event.ClusterEvent{at(-time.Hour, true, "OldTrouble"), at(-time.Minute, false, "OldNews"), at(time.Second, false, "Created"),
			at(2*time.Second, true, "Pulling"), at(3*time.Second, false, "Started"), at(4*time.Second, true, "BackOff")}
		s.press("v")
		s.settle()
		last := 0
		for _, want := range []string{"BackOff", "Pulling", "Started", "Created", "before the group started", "OldTrouble", "OldNews"} {
			at := strings.Index(s.text(), want+":")
			if want == "before the group started" {
				at = strings.Index(s.text(), want)
			}
			if at < last {
				t.Errorf("%s is not below the one before:\n%s", want, s.text())
			}
			last = at
		}
	})
}

// TestLogs shows the logs of all pods and containers, each with a heading, or of one of them.
func TestLogs(t *testing.T) { inBubble(t, testLogs) }

func testLogs(t *testing.T) {
	s := openTabs(t, 160, 45, "l", "home")
	s.shows(t, "all 4 pods", "── pod 1/4 · main · restart 3 · shop-api-5f4bc54847-x2kq7", "1 main  │ connecting", "── pod 1/4 · main · restart 4 ·",
		"exited with code 2", "2 main  │ GET /healthz 200", "3 main  │ GET /healthz 200")
	s.press("]")
	s.shows(t, "pod 1/4 · both containers · shop-api-5f4bc54847-x2kq7", "main  │ FATAL")
	s.showsNot(t, "GET /healthz")
	s.press("}")
	s.shows(t, "pod 1/4 · main · restart 4 · shop-api-5f4bc54847-x2kq7", "── pod 1/4 · main · restart 3")
	s.showsNot(t, "listening")
	s.press("[")
	s.shows(t, "pod 4/4 · both containers · shop-api-5f4bc54847-nmss8")
	s.press("]")
	s.shows(t, "pod 1/4")
	s.press("0", "{")
	s.shows(t, "all 4 pods · proxy", "listening")
	s.showsNot(t, "GET /healthz")
	s.press("0", "end")
	s.shows(t, "all 4 pods", "listening")
	for _, l := range s.lines() {
		if strings.Contains(l, ":05.") {
			t.Errorf("a line has a timestamp: %s", l)
		}
	}
	s.press("H", "home")
	s.shows(t, time.Date(2026, 1, 2, 3, 4, 5, 4e8, time.UTC).Local().Format("15:04:05.000")+" connecting")
	whole := "been applied to this database"
	s = openTabs(t, 100, 30, "l", "home")
	s.shows(t, whole)
	s.press("?")
	s.showsNot(t, whole)
	s.press("?")
	s.shows(t, whole)
}

// TestLogsAreSortedByTime, whichever stream brought them first.
func TestLogsAreSortedByTime(t *testing.T) { inBubble(t, testLogsAreSortedByTime) }

func testLogsAreSortedByTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	line := func(pod string, after int, text string) inspect.LogLine {
		return inspect.LogLine{Source: event.Source{Pod: pod, Container: "c", Instance: 1}, Time: at.Add(time.Duration(after) * time.Second), Text: text}
	}
	c := &answerer{logs: []inspect.LogLine{line("a", 0, "first"), line("a", 3, "fourth"), line("b", 1, "second"), line("b", 2, "third")}}
	s := inspecting(t, c)
	s.press("l")
	s.settle()
	last := 0
	for _, word := range []string{"first", "second", "third", "fourth"} {
		at := strings.Index(s.text(), word)
		if at < last {
			t.Errorf("%s comes too early:\n%s", word, s.text())
		}
		last = at
	}
}

// TestSearch searches a tab; afterwards the keys control the run again.
func TestSearch(t *testing.T) { inBubble(t, testSearch) }

func testSearch(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-breakpoint", 0), answered)
	s.press("l")
	s.settle()
	s.press("/")
	s.showsNot(t, "no match")
	s.press("h", "e", "a", "l", "T", "H")
	s.shows(t, "/healTH", "1 of 6")
	s.press("enter")
	s.shows(t, "2 of 6", "↵ next", "esc close", "↑ previous")
	s.press("up", "up")
	s.shows(t, "6 of 6")
	s.press("down")
	s.shows(t, "1 of 6")
	if len(s.sent) > 0 {
		t.Errorf("the search sent %v", s.sent)
	}
	s.press("esc")
	if !s.insp.Shown || s.Modes.Has(s.search) {
		t.Fatal("esc must only end the search")
	}
	s.press("/", "q", "q", "q")
	s.shows(t, "no match")
	s.press("enter")
	s.shows(t, "no match for qqq")
}

// TestPods shows a table whose columns fit, with each reason in full.
func TestPods(t *testing.T) { inBubble(t, testPods) }

func testPods(t *testing.T) {
	for _, w := range []int{60, 80, 100, 200} {
		s := openTabs(t, w, 45, "v", "tab")
		s.shows(t, "ready", "restarts", "age", "node", "1/2", "47m", "94m")
		if text := strings.Join(strings.Fields(s.text()), " "); w < 100 && (!strings.Contains(text, "(4 restarts): FATAL: relation") || !strings.Contains(text, "2 of 2 nodes lack CPU")) {
			t.Errorf("at %d columns the reason is truncated:\n%s", w, s.text())
		}
	}
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0), func(o *Options) { o.Inspector = &answerer{pods: []inspect.Pod{{Name: "a", Why: "exit code 2"}}} })
	s.press("f", "v", "tab")
	s.settle()
	s.shows(t, "pod  reason")
	s.showsNot(t, "restarts")
}

// copied returns the text that the last message copied.
func (s *rig) copied() string {
	for _, msg := range answers(s.last) {
		if fmt.Sprintf("%T", msg) == "tea.setClipboardMsg" {
			return fmt.Sprint(msg)
		}
	}
	return ""
}

// TestKubectl copies a command with the content of the open tab.
func TestKubectl(t *testing.T) { inBubble(t, testKubectl) }

func testKubectl(t *testing.T) {
	const at = "kubectl --context lockstep-sandbox -n shop "
	for keys, want := range map[string]string{
		"":      "describe deployment.apps/shop-api",
		"d":     "get deployment.apps/shop-api -o yaml",
		"y":     "get deployment.apps/shop-api -o yaml",
		"v":     "events --for deployment.apps/shop-api",
		"v tab": "get pods -o wide shop-api-5f4bc54847-x2kq7 shop-api-5f4bc54847-5fvt4 shop-api-5f4bc54847-bfmjm",
		"l":     "logs -f deployment.apps/shop-api --all-pods --prefix --all-containers",
		"l ]":   "logs -f shop-api-5f4bc54847-x2kq7 --all-containers",
		"l ] }": "logs -f shop-api-5f4bc54847-x2kq7 -c main",
	} {
		s := openTabs(t, 100, 30, strings.Fields(keys)...)
		s.press("D")
		if got := s.copied(); got != at+want {
			t.Errorf("%q: %s, want %s", keys, got, at+want)
		}
		s.shows(t, "copied", "kubectl --context lockstep-sandbox")
		s.press("esc")
		s.showsNot(t, "kubectl --context")
	}
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0), func(o *Options) { o.Kubectl = []string{"--kubeconfig", "/tmp/it's here"} })
	s.press("home", "D")
	if got := s.copied(); !strings.HasPrefix(got, `kubectl --kubeconfig '/tmp/it'\''s here' `) {
		t.Errorf("the command is not quoted: %s", got)
	}
}

// TestCopy copies the full text of the tab or pane, not truncated.
func TestCopy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openTabs(t, 60, 20, "l")
		s.press("C")
		text := s.copied()
		for _, want := range []string{"all 4 pods\n", "been applied to this database\n", "1 main  │ FATAL"} {
			if !strings.Contains(text, want) {
				t.Errorf("the copied text lacks %q:\n%s", want, text)
			}
		}
		s = openTabs(t, 60, 20)
		s.press("C")
		if text := s.copied(); !strings.Contains(text, "image example/no-such-image:1 cannot be pulled: not found\n") {
			t.Errorf("the copied pane is\n%s", text)
		}
		s.shows(t, "copied")
	})
}

// TestPalette finds commands by their description and runs them.
func TestPalette(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-breakpoint", 0), answered)
	s.press(":")
	s.press(strings.Split("diff", "")...)
	s.shows(t, ":diff", "what changes")
	s.showsNot(t, "re-check the")
	s.press("enter")
	if !s.insp.Shown || s.insp.Tab != inspector.TabDiff || s.Modes.Has(s.palette) {
		t.Error("the diff is not open")
	}
	s.press(":", "x", "y", "z", "z", "y")
	s.shows(t, "no matching command")
	s.press("enter")
	if len(s.sent) > 0 {
		t.Errorf("sent %v", s.sent)
	}
	s.press(":")
	s.press(strings.Split("step", "")...)
	s.press("enter")
	if len(s.sent) != 1 {
		t.Errorf("step sends %v", s.sent)
	}
}

// withoutIDs returns commands without their IDs, which are random.
func withoutIDs(commands []event.Command) (out []event.Command) {
	for _, c := range commands {
		c.ID = ""
		out = append(out, c)
	}
	return out
}

// TestPaletteMatchesKeys runs every command: it does the same as its key, and every key that does
// something is listed.
func TestPaletteMatchesKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, st := range states() {
			if !slices.Contains([]string{"paused", "held, values at hand", "read-only", "logs", "searched"}, st.name) {
				continue // the other states cover all keys, and each takes a second
			}
			s := st.open(t)
			s.press(":")
			var listed []string
			for n, b := range s.palette.Commands() {
				listed = append(listed, strings.Fields(b.Keys)...)
				if b.Key() == ":" {
					continue
				}
				one, two := st.open(t), st.open(t)
				was := two.open()
				one.press(":")
				for range n + 1 {
					one.Update(keyPress("down")) // without drawing each time
				}
				one.press("enter")
				two.press(b.Key())
				if got, want := one.outcome(was), two.outcome(was); got != want || one.open() != two.open() || fmt.Sprint(withoutIDs(one.sent)) != fmt.Sprint(withoutIDs(two.sent)) {
					t.Errorf("%s: command %s %q gives %q %v %s, its key %q %v %s", st.name, b.Name(), b.About, got, one.sent, one.open(), want, two.sent, two.open())
				}
			}
			for _, k := range allKeys() {
				two := st.open(t)
				was := two.text()
				two.press(k)
				if !slices.Contains(listed, k) && two.text() != was && !strings.Contains(two.Flash.Text, "is no key here") && two.Flash.Text != "this screen is read-only" {
					t.Errorf("%s: %s does something, but is not in the palette", st.name, k)
				}
			}
		}
	})
}

// TestNoPodsNoLogs: logs and a shell are only for objects with pods. The keys say why, and of a group which object to select.
func TestNoPodsNoLogs(t *testing.T) {
	s := newScreen(t, 160, 45, recorded(t, "sandbox-held", 0), answered)
	config := s.State.Find("apply", "shop/api:config")
	s.board.Select(s.Graph.ByKey[config.Unit()])
	for _, key := range []string{"l", "S"} {
		s.press(key)
		if s.shows(t, "cm/shop-api has no pods"); s.insp.Shown {
			t.Errorf("%s opens a tab:\n%s", key, s.text())
		}
	}
	server := s.State.Find("apply", "shop/api:server")
	s.board.Select(s.Graph.ByKey[server.Unit()])
	s.press("l")
	if !s.insp.Shown {
		t.Errorf("l opens no logs of a Deployment:\n%s", s.text())
	}
	s.press("esc")
	account := server.Objects[0].Object
	s.feed(event.Event{Kind: event.KindObject, Phase: "apply", Group: server.ID, Object: &account, Status: event.Failed, Cause: "refused", Time: s.State.Now})
	s.press("l")
	s.shows(t, "sa/shop-api has no pods; select deploy/shop-api first")
}

// TestNowIsAFact: the line "now" has the counts of an object's pods, and nothing that a message of others begins with.
func TestNowIsAFact(t *testing.T) {
	events := twoStuck()
	for i := range events {
		if e := &events[i]; e.Kind == event.KindObject && e.Group == "s:app" {
			e.Progress = event.Progress{Done: 1, Wanted: 2, Word: "ready"}
		}
	}
	s := newScreen(t, 100, 50, events)
	for _, group := range []string{"s:app", "s:queue"} {
		s.board.Select(s.Graph.ByKey[event.Unit{Phase: "apply", Group: group}])
		s.press("1")
		if now := strings.Contains(s.text(), "now: "); now != (group == "s:app") || now && !strings.Contains(s.text(), "now: 1 of 2 ready") {
			t.Errorf("%s:\n%s", group, s.text())
		}
		s.press("esc")
	}
}
