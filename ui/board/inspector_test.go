package board

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// answerer is an Inspector that always gives the same answers.
type answerer struct {
	err      error
	manifest string
	logs     []inspect.LogLine
	pods     []inspect.Pod
	events   []event.ClusterEvent // nil for a default
	now      func() time.Time     // for the age of pods; may be nil
	follows  chan struct{}        // closed when following ends
	changes  map[string]inspect.Change
	asked    atomic.Int32 // about changes
}

func (c *answerer) Events(context.Context, plan.Object) ([]event.ClusterEvent, error) {
	if c.events == nil {
		return []event.ClusterEvent{{Warning: true, Object: "Pod/a", Reason: "BackOff", Message: "Back\x1b[31m red"}}, c.err
	}
	return c.events, c.err
}

func (c *answerer) Pods(context.Context, plan.Object) ([]inspect.Pod, error) {
	pods := slices.Clone(c.pods)
	for n := range pods {
		if c.now != nil {
			pods[n].Created = c.now().Add(-time.Duration(n+1) * 47 * time.Minute)
		}
	}
	return pods, c.err
}

func (c *answerer) Live(context.Context, plan.Object) (string, error) { return c.manifest, c.err }

func (c *answerer) Sent(context.Context, inspect.Item) (string, error) {
	return "sent: " + c.manifest, c.err
}

func (c *answerer) Change(_ context.Context, it inspect.Item) (inspect.Change, error) {
	c.asked.Add(1)
	return c.changes[it.Object.String()], c.err
}

func (c *answerer) Logs(ctx context.Context, _ plan.Object, follow func(inspect.LogLine)) error {
	for _, l := range c.logs {
		follow(l)
	}
	if c.follows != nil {
		<-ctx.Done()
		close(c.follows)
		return ctx.Err()
	}
	return c.err
}

// logLines are lines of the log of one container.
func logLines(text ...string) (lines []inspect.LogLine) {
	for _, l := range text {
		lines = append(lines, inspect.LogLine{Source: event.Source{Pod: "api-1", Container: "main", Instance: 1}, Text: l})
	}
	return lines
}

// inspecting opens the inspector on the failed object of the held run.
func inspecting(t *testing.T, c *answerer) *rig {
	s := newScreen(t, 120, 40, recorded(t, "sandbox-held", 0), func(o *Options) { o.Inspector = c })
	s.press("f", "enter")
	return s
}

// settle runs the command that the last message returned, and handles its messages.
func (s *rig) settle() {
	for _, msg := range answers(s.last) {
		s.send(msg)
	}
}

// answers returns the messages that a command sends within a moment.
func answers(cmd tea.Cmd) []tea.Msg {
	if cmd == nil {
		return nil
	}
	got := make(chan tea.Msg, 1)
	go func() { got <- cmd() }()
	select {
	case msg := <-got:
		batch, ok := msg.(tea.BatchMsg)
		if !ok {
			return []tea.Msg{msg}
		}
		each := make([][]tea.Msg, len(batch))
		var all sync.WaitGroup
		for n, c := range batch {
			all.Go(func() { each[n] = answers(c) })
		}
		all.Wait()
		return slices.Concat(each...)
	case <-time.After(300 * time.Millisecond):
		return nil
	}
}

func TestInspectorTabs(t *testing.T) { inBubble(t, testInspectorTabs) }

func testInspectorTabs(t *testing.T) {
	c := &answerer{manifest: "kind: Deployment\nspec: {}\n", logs: logLines("one", "two \x1b]0;x\x07three")}
	c.changes = map[string]inspect.Change{"Deployment/shop-api": {Action: inspect.Refuse, Message: "a webhook runs into trouble"}}
	s := inspecting(t, c)
	s.shows(t, "image example/no-such-image:1 cannot be pulled: not found", "MinimumReplicasUnavailable")
	for _, want := range []string{"runs into", "kind: Deployment", "Pod/a BackOff: Back red", "no pods yet", "two three", "waits for", "started"} {
		s.press("tab")
		s.settle()
		s.shows(t, want)
	}
	s.press("tab")
	if s.insp.Tab != inspector.TabWhy {
		t.Errorf("after the last tab comes %d", s.insp.Tab)
	}
	s.press("shift+tab")
	if s.insp.Tab != inspector.TabTimings {
		t.Errorf("before the first tab comes %d", s.insp.Tab)
	}
}

func TestInspectorWithoutCluster(t *testing.T) { inBubble(t, testInspectorWithoutCluster) }

func testInspectorWithoutCluster(t *testing.T) {
	s := newScreen(t, 120, 40, recorded(t, "sandbox-held", 0))
	s.press("f", "enter")
	for _, key := range []string{"d", "y", "v"} {
		s.press(key)
		s.shows(t, "not connected to the cluster")
	}
	for want, err := range map[string]error{"no route to host": errors.New("no route to host"), "no answer within 15 s": context.DeadlineExceeded} {
		for _, key := range []string{"d", "y", "v"} {
			s = inspecting(t, &answerer{err: err})
			s.press(key)
			s.settle()
			s.shows(t, "lookup failed: "+want)
		}
	}
}

// TestInspectorLate: a late answer about another object is not shown.
func TestInspectorLate(t *testing.T) { inBubble(t, testInspectorLate) }

func testInspectorLate(t *testing.T) {
	s := inspecting(t, &answerer{manifest: "kind: Deployment"})
	s.press("v")
	late := s.insp.N
	s.press("tab", "tab", "tab")
	s.send(inspector.LoadedMsg{N: late, Text: []string{"too late"}})
	s.showsNot(t, "too late")
	s.press("esc")
	s.send(inspector.LoadedMsg{N: late, Text: []string{"too late"}})
	s.showsNot(t, "too late")
	s.press("v")
	s.send(inspector.LoadedMsg{N: late, Text: []string{"too late"}})
	s.showsNot(t, "too late")
	s.shows(t, "loading")
}

// TestLogsEnd: closing the tab stops following the log.
func TestLogsEnd(t *testing.T) { inBubble(t, testLogsEnd) }

func testLogsEnd(t *testing.T) {
	c := &answerer{logs: logLines("line"), follows: make(chan struct{})}
	s := inspecting(t, c)
	s.press("l")
	s.settle()
	s.shows(t, "line")
	s.press("esc")
	select {
	case <-c.follows:
	case <-time.After(30 * time.Second):
		t.Error("the log is still followed")
	}
}

// TestNoLogs: the logs do not end if there are none.
func TestNoLogs(t *testing.T) { inBubble(t, testNoLogs) }

func testNoLogs(t *testing.T) {
	for text, isNote := range map[string]bool{"a line": false, "no logs recorded; the record has only:": true} {
		s := inspecting(t, &answerer{logs: []inspect.LogLine{{Text: text, Note: isNote}}})
		s.press("l")
		s.settle()
		s.shows(t, text)
		if ends := strings.Contains(s.text(), "end of logs"); ends == isNote {
			t.Errorf("%q: the logs end: %t", text, ends)
		}
	}
}

// shelled is an answerer with shells.
type shelled struct {
	*answerer
	asked []string
}

func (c *shelled) Shell(_ context.Context, o plan.Object, pod, container string) (tea.ExecCommand, string, error) {
	c.asked = append(c.asked, o.String(), pod, container)
	return nil, "pod p, container c", c.err
}

// TestShell opens a shell in the pod selected in the logs, and says why there is none.
func TestShell(t *testing.T) { inBubble(t, testShell) }

func testShell(t *testing.T) {
	c := &shelled{answerer: &answerer{logs: logsOfShop}}
	s := newScreen(t, 160, 45, recorded(t, "sandbox-held", 0), func(o *Options) { o.Inspector = c })
	s.press("f")
	o := s.insp.TargetObject()
	for log, offered := range map[string]bool{"": false, "starting": true} { // no container runs, one does
		o.Details = &event.Details{Log: strings.Fields(log)}
		if got := slices.ContainsFunc(s.hints(), func(h keys.Hint) bool { return h.Key == "S" }); got != offered {
			t.Errorf("with the log %q, a shell is offered: %v", log, got)
		}
	}
	for _, want := range [][]string{{"Deployment/shop-api", "", ""}, {"Deployment/shop-api", "shop-api-5f4bc54847-x2kq7", "main"}} {
		c.asked = nil
		s.press("S")
		if msgs := answers(s.last); len(msgs) != 1 || !slices.Equal(c.asked, want) {
			t.Fatalf("S asked for %q and returned %v; want %q", c.asked, msgs, want)
		} else if s.send(msgs[0]); s.last == nil {
			t.Error("the screen did not run the shell")
		}
		s.press("l")
		s.settle()
		s.press("]", "}")
	}
	c.err = inspect.Unavailable("none of its containers is running")
	s.press("S")
	s.settle()
	s.shows(t, "cannot open a shell in Deployment/shop-api: none of its containers is running")
	s = newScreen(t, 160, 45, recorded(t, "sandbox-held", 0))
	s.press("S")
	s.shows(t, "not connected to the cluster")
}

// TestFailedAfterReady: the cause of an object that fails after its group was ready does not look like a success and does not repeat
// the status, and a failed Job is offered no shell.
func TestFailedAfterReady(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newScreen(t, 160, 45, recorded(t, "sandbox-held", 0), func(o *Options) { o.Inspector = &shelled{answerer: &answerer{logs: logsOfShop}} })
		i := slices.IndexFunc(s.Graph.Nodes, func(n *graph.Node) bool { return n.Status == event.Ready && len(n.Objects) == 1 })
		o, cause := s.Graph.Nodes[i].Objects[0], "BackoffLimitExceeded: Job has reached the specified backoff limit"
		e := event.Event{Kind: event.KindObject, Time: s.State.Now, Phase: s.Graph.Nodes[i].Phase, Group: s.Graph.Nodes[i].ID, Object: &o.Object, Status: event.Failed, Message: cause, Cause: cause}
		s.feed(e)
		_, text := s.board.Reason(s.Graph.Nodes[i], o)
		if !strings.Contains(text, cause) {
			t.Fatalf("the reason is %q", text)
		}
		good, rest := "", s.View().Content
		if at := strings.Index(rest, "✓"); at > 0 {
			good = rest[strings.LastIndex(rest[:at], "\x1b["):at]
		}
		at := strings.Index(rest, "BackoffLimit")
		if at < 0 {
			t.Fatalf("the cause is missing:\n%s", s.text())
		}
		if before := rest[strings.LastIndex(rest[:at], "\x1b["):at]; before == good || strings.Contains(before, "degraded") {
			t.Errorf("the cause follows %q, and a success %q:\n%s", before, good, s.text())
		}
		s.Sel = screen.Spot{Unit: s.Graph.Nodes[i].Unit()}
		offered := func() bool { return slices.ContainsFunc(s.hints(), func(h keys.Hint) bool { return h.Key == "S" }) }
		o.Object.Kind = "Job"
		s.insp.TargetObject().Status = event.Failed
		if offered() {
			t.Errorf("a shell is offered in the failed %v", s.insp.TargetObject().Object)
		}
		if s.insp.TargetObject().Status = event.InProgress; !offered() {
			t.Error("no shell is offered in a Job that runs")
		}
	})
}

// TestOrderOfHooks: the order tab names the phases around a hook, since no group of its phase waits for
// it.
func TestOrderOfHooks(t *testing.T) {
	s := newScreen(t, 120, 40, recorded(t, "sandbox-install", 0))
	for _, want := range []struct{ group, before, after string }{
		{"namespace:shop", "nothing; it starts first", "pre-install"},
		{"pre-install:Job/shop-preflight", "namespace", "layer 0"},
		{"post-install:Job/shop-smoke-test", "all layers", "nothing"},
	} {
		for _, n := range s.Graph.Nodes {
			if n.ID == want.group {
				s.Sel = screen.Spot{Unit: n.Unit()}
			}
		}
		s.press("7")
		s.shows(t, "waits for\n    "+want.before+"\n\n  needed by\n    "+want.after+"\n")
		s.press("esc")
	}
}

// TestNoReadinessWhileDeleting: an object that is being deleted does not show the change of the request.
func TestNoReadinessWhileDeleting(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-rollback", 160))
	s.shows(t, "deleting for 0 s\n")
}

// TestEmptyRecord: a record without events is incomplete, not aborted.
func TestEmptyRecord(t *testing.T) {
	s := newScreen(t, 100, 30, nil, readOnly)
	s.Update(batchMsg{})
	s.shows(t, "incomplete  the record is empty")
	s.showsNot(t, "aborted")
}
