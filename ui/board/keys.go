package board

import (
	"context"
	"strconv"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/breakpoints"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/page"
	"lockstep/ui/board/palette"
	"lockstep/ui/board/replay"
)

// The headings of the keys, in the order of the help.
const (
	partStep      = "run it step by step"
	partFix       = "after a failure"
	partLook      = "see what is happening"
	partFind      = "find something"
	partMove      = "move around"
	partEnd       = "end it"
	partInspector = "in the inspector"
)

// boardKeys returns the board's table of keys, in the order of the footer, which always has
// room for the last one.
func (m *model) boardKeys() []keys.Binding {
	look := func(t inspector.Tab) func() tea.Cmd { return func() tea.Cmd { return m.insp.Look(t) } }
	by := func(do func(int), n int) func() tea.Cmd { return keys.Run(func() { do(n) }) }
	group := keys.Unless(m.HasGroup, "select a group first")
	inspects := keys.Unless(m.HasGroup, "nothing to inspect yet")
	return []keys.Binding{
		{Keys: []string{"q"}, Label: "q", Hint: keys.When("quit", m.MayQuit), Do: m.quit, Part: partEnd,
			About: "quit", More: "while running, asks to abort"},
		{Keys: []string{"A"}, Label: "A", Hint: keys.When("re-check", m.Held), Do: m.steer.OrderFailed(event.Accept), Steers: true, OnFailure: true, Part: partFix,
			About: "re-check", More: "the failed groups, without applying"},
		{Keys: []string{"R"}, Label: "R", Hint: m.insp.RetryHint, Do: m.steer.OrderFailed(event.Retry), Steers: true, OnFailure: true, Part: partFix,
			About: "retry", More: "applies the failed groups again"},
		{Keys: []string{"G"}, Label: "G", Hint: keys.When("stop here", m.Held), Disabled: keys.Unless(m.Held, "no failure is held"), Do: m.giveUp.Open, Steers: true, OnFailure: true, Part: partFix,
			About: "stop here", More: "leaves it failed and ends; asks first"},
		{Keys: []string{"p", "space"}, Label: "p/space", Hint: m.steer.PauseHint, Do: m.steer.Pause, Steers: true, Part: partStep,
			About: "pause or resume", More: "running work continues"},
		{Keys: []string{"n"}, Label: "n", Hint: keys.When("step", m.Paused), Do: m.steer.Order(event.Step), Steers: true, Part: partStep,
			About: "step", More: "starts the next group, then pauses"},
		{Keys: []string{"N"}, Label: "N", Hint: keys.When("step this", m.steer.MayStep), Disabled: group, Do: m.steer.OrderGroup(event.Step), Steers: true, Part: partStep,
			About: "step this group", More: "starts the selected group, then pauses"},
		{Keys: []string{"c"}, Label: "c", Do: m.steer.Order(event.Resume), Steers: true, Part: partStep,
			About: "resume"},
		{Keys: []string{"e"}, Label: "e", Hint: keys.When("edit values", m.edit.May), Disabled: m.edit.WhyNot, Do: m.edit.Given, Steers: true, OnFailure: true, Part: partFix,
			About: "edit values", More: "yours; shows the changes first"},
		{Keys: []string{"V"}, Label: "V", Disabled: m.edit.WhyNot, Do: m.edit.All, Steers: true, Part: partFix,
			About: "edit all values", More: "with the defaults of the chart"},
		{Keys: []string{"E"}, Label: "E", Hint: m.edit.ChartHint, Disabled: m.edit.WhyNot, Do: m.edit.RenderAgain, Steers: true, OnFailure: true, Part: partFix,
			About: "render again", More: "reads the chart again; shows the changes first"},
		{Keys: []string{"Z"}, Label: "Z", Hint: keys.When("restart", m.steer.MayRestart), Disabled: m.steer.WhyNotRestart, Do: m.steer.Restart, Steers: true, Part: partEnd,
			About: "restart", More: "on a new cluster, with --sandbox"},
		{Keys: []string{"a", "ctrl+c"}, Label: "a/ctrl-c", Hint: keys.When("abort", m.Steerable), Do: m.askAbort, Steers: true, OnFailure: true, Stays: true, Part: partEnd,
			About: "abort", More: "keeps objects or rolls back; asks first"},
		{Keys: []string{"t"}, Label: "t", Hint: keys.When("run to here", m.steer.MayRunTo), Disabled: group, Do: m.steer.OrderGroup(event.RunTo), Steers: true, Part: partStep,
			About: "run to this group", More: "pauses before it"},
		{Keys: []string{"b"}, Label: "b", Hint: m.steer.BreakHint, Disabled: group, Do: m.steer.OrderGroup(event.Break), Steers: true, Part: partStep,
			About: "breakpoint", More: "sets or deletes one on this group"},
		{Keys: []string{"B"}, Label: "B", Hint: keys.When("breakpoints", func() bool { return m.Steerable() && len(m.State.Breakpoints) > 0 }), Do: m.breaks.Open, Steers: true, Part: partStep,
			About: "breakpoints…", More: "list, disable, delete"},

		{Keys: []string{"d"}, Label: "d", Hint: m.diffHint, Disabled: inspects, Do: m.insp.OpenDiff, Near: true, Part: partLook,
			About: "diff", More: "what will change, field by field"},
		{Keys: []string{"y"}, Label: "y", Hint: m.sentHint, Disabled: inspects, Do: func() tea.Cmd { return m.insp.OpenManifest(false) }, Near: true, Part: partLook,
			About: "manifest", More: "the object as applied"},
		{Keys: []string{"Y"}, Label: "Y", Hint: m.liveHint, Disabled: inspects, Do: func() tea.Cmd { return m.insp.OpenManifest(true) }, Near: true, Part: partLook,
			About: "live object", More: "as it is in the cluster"},
		{Keys: []string{"v"}, Label: "v", Disabled: inspects, Do: look(inspector.TabEvents), Part: partLook,
			About: "events", More: "of the object and its pods"},
		{Keys: []string{"l"}, Label: "l", Disabled: inspects, Do: look(inspector.TabLogs), Part: partLook,
			About: "logs", More: "of all its pods and containers"},
		{Keys: []string{"x"}, Label: "x", Disabled: m.insp.WhyNoShell, Do: m.insp.Shell, Part: partLook,
			About: "shell…", More: "in a container of the pod; exit returns here"},
		m.tabKey(0, "why, diff, manifest, events, pods, logs, gates, timings"), m.tabKey(1, ""), m.tabKey(2, ""), m.tabKey(3, ""),
		m.tabKey(4, ""), m.tabKey(5, ""), m.tabKey(6, ""), m.tabKey(7, ""),
		{Keys: []string{"s"}, Label: "s", Disabled: keys.Unless(func() bool { return m.insp.Subject() != nil }, "nothing for kubectl to show"), Do: m.showKubectl, Part: partLook,
			About: "kubectl command", More: "shows and copies the matching one"},
		{Keys: []string{"C"}, Label: "C", Disabled: keys.Unless(m.HasGroup, "nothing to copy yet"), Do: m.insp.Copy, Part: partLook,
			About: "copy", More: "the text of the tab or pane"},
		{Keys: []string{":"}, Label: ":", Do: m.palette.Open, Part: partFind,
			About: "commands…", More: "search and run any"},
		{Keys: []string{"/"}, Label: "/", Hint: keys.Always("filter"), Do: m.openFilter, Part: partFind,
			About: "filter…", More: "by name, kind or status"},
		{Keys: []string{"f"}, Label: "f", Hint: keys.When("next problem", m.board.AnyProblem), Disabled: keys.Unless(m.board.AnyProblem, "no problems"), Do: m.board.NextProblem, Part: partLook,
			About: "next problem", More: "failing or blocking"},
		{Keys: []string{"enter"}, Label: "enter", Hint: m.inspectHint, Disabled: inspects, Do: m.inspect, Stays: true, Part: partLook,
			About: "inspect", More: "the selected group or object"},
		{Keys: []string{"F"}, Label: "F", Hint: keys.When("follow", func() bool { return !m.Follow && !m.Over() }), Do: m.board.FollowAgain, Part: partFind,
			About: "follow", More: "shows the running groups again"},
		{Keys: []string{"z"}, Label: "z", Do: m.board.NextDetail, Part: partFind,
			About: "card size", More: "compact, full, auto"},
		{Keys: []string{"w"}, Label: "w", Hint: keys.When("warnings", func() bool { return len(m.State.Warnings) > 0 }), Do: m.warnings.Open, Part: partLook,
			About: "warnings…"},
		{Keys: []string{"o"}, Label: "o", Hint: keys.When("report", m.HasReport), Disabled: keys.Unless(m.HasReport, "the report appears when the operation is over"), Do: m.report.Open, Part: partLook,
			About: "report…", More: "changes, timings, notes, next commands"},
		{Keys: []string{"up", "k"}, Label: "up k", Do: by(m.board.Move, -1), Part: partMove, About: "line up"},
		{Keys: []string{"down", "j"}, Label: "down j", Do: by(m.board.Move, 1), Part: partMove, About: "line down"},
		{Keys: []string{"left"}, Label: "left", Do: by(m.board.MoveColumn, -1), Part: partMove, About: "column to the left"},
		{Keys: []string{"right"}, Label: "right", Do: by(m.board.MoveColumn, 1), Part: partMove, About: "column to the right"},
		{Keys: []string{"tab"}, Label: "tab", Do: by(m.board.MoveGroup, 1), Part: partMove, About: "next group", More: "in plan order"},
		{Keys: []string{"shift+tab"}, Label: "shift-tab", Do: by(m.board.MoveGroup, -1), Part: partMove, About: "previous group"},
		{Keys: []string{"g"}, Label: "g", Hint: keys.When("go to", func() bool { return len(m.Graph.Nodes) > 9 }), Disabled: group, Do: m.jump.Open, Part: partFind, About: "go to a group…", More: "by letters of its name or its code"},
		{Keys: []string{"home"}, Label: "home", Do: keys.Run(func() { m.board.MoveEnd(false) }), Part: partMove, About: "first group"},
		{Keys: []string{"end"}, Label: "end", Do: keys.Run(func() { m.board.MoveEnd(true) }), Part: partMove, About: "last group"},
		{Keys: []string{"pgup", "ctrl+b"}, Label: "page up", Do: by(m.board.Page, -1), Part: partMove, About: "page up"},
		{Keys: []string{"pgdown", "ctrl+f"}, Label: "page down", Do: by(m.board.Page, 1), Part: partMove, About: "page down"},

		{Keys: []string{"esc"}, Label: "esc", Hint: m.backHint(), Do: m.escape, Part: partMove, About: "back", More: "closes the inspector, clears the filter"},
		{Keys: []string{"?"}, Label: "?", Hint: keys.Always("help"), Do: m.help.Open, Part: partFind,
			About: "help"},
	}
}

// tabKey opens a tab by its number. The first one documents all of them.
func (m *model) tabKey(t inspector.Tab, all string) keys.Binding {
	key := strconv.Itoa(int(t) + 1)
	b := keys.Binding{Keys: []string{key}, Label: key, About: "tab: " + inspector.TabNames[t], Disabled: keys.Unless(m.HasGroup, "nothing to inspect yet"), Part: partLook, Alias: all == "",
		Do: func() tea.Cmd { return m.insp.Look(t) }}
	if all != "" {
		b.Label, b.About, b.More = "1-8", "tabs", all
	}
	return b
}

// inspectorKeys returns the keys that mean something else in the inspector.
func (m *model) inspectorKeys() []keys.Binding {
	i := m.insp
	scroll := func(by int) func() tea.Cmd { return keys.Run(func() { i.Scroll(by) }) }
	turn := func(by inspector.Tab) func() tea.Cmd {
		return func() tea.Cmd { return i.OpenTab((i.Tab + by + inspector.Tabs) % inspector.Tabs) }
	}
	line := func(by int) func() tea.Cmd { return keys.Run(func() { m.board.Move(by) }) }
	inLogs := func() bool { return i.Tab == inspector.TabLogs }
	return []keys.Binding{
		{Keys: []string{"tab", "right"}, Label: "tab", Hint: keys.Always("next tab"), Do: turn(1), About: "next tab (also right)"},
		{Keys: []string{"shift+tab", "left"}, Label: "shift-tab", Do: turn(-1), About: "previous tab (also left)"},
		{Keys: []string{"esc"}, Label: "esc", Hint: keys.Always("close"), Do: m.escape, About: "close"},
		{Keys: []string{"enter"}, Label: "enter", Do: i.Close, About: "close"},
		{Keys: []string{"up", "k"}, Label: "up k", Do: scroll(-1), About: "scroll up"},
		{Keys: []string{"down", "j"}, Label: "down j", Do: scroll(1), About: "scroll down"},
		{Keys: []string{"pgup", "ctrl+b"}, Label: "page up", Do: scroll(-10), About: "scroll up by a page"},
		{Keys: []string{"pgdown", "ctrl+f"}, Label: "page down", Do: scroll(10), About: "scroll down by a page"},
		{Keys: []string{"home"}, Label: "home", Do: keys.Run(func() { i.Scroll(-i.Page.Last) }), About: "to the beginning"},
		{Keys: []string{"end"}, Label: "end", Do: keys.Run(func() { i.Scroll(i.Page.Last) }), About: "to the end (follows logs)"},
		{Keys: []string{"shift+down", ")"}, Label: "shift-down )", Do: line(1), About: "inspect the next object or group"},
		{Keys: []string{"shift+up", "("}, Label: "shift-up (", Do: line(-1), About: "inspect the previous object or group"},
		{Keys: []string{"/"}, Label: "/", Hint: keys.Always("search"), Do: m.openSearch, About: "search in this tab: enter or down next match, up previous, esc ends"},
		{Keys: []string{"]"}, Label: "]", Hint: keys.When("next pod", func() bool { return i.SeveralPods() }), Only: inLogs, Do: keys.Run(func() { i.TurnPod(1) }), About: "only the next pod's logs"},
		{Keys: []string{"["}, Label: "[", Only: inLogs, Do: keys.Run(func() { i.TurnPod(-1) }), About: "only the previous pod's logs"},
		{Keys: []string{"}"}, Label: "}", Hint: keys.When("next container", func() bool { return i.SeveralContainers() }), Only: inLogs, Do: keys.Run(func() { i.TurnContainer(1) }), About: "only the next container's logs"},
		{Keys: []string{"{"}, Label: "{", Only: inLogs, Do: keys.Run(func() { i.TurnContainer(-1) }), About: "only the previous container's logs"},
		{Keys: []string{"0"}, Label: "0", Hint: keys.When("all logs", func() bool { return i.Inspector.LogsFiltered() }), Only: inLogs, Do: keys.Run(func() { i.AllLogs() }), About: "logs of all pods and containers"},
		{Keys: []string{"T"}, Label: "T", Hint: keys.When("times", func() bool { return i.HasTimes() }), Only: inLogs, Do: keys.Run(func() { i.Times = !i.Times }), About: "show or hide timestamps"},
		{Keys: []string{"W"}, Label: "W", Hint: m.wrapHint, Only: i.Wraps, Do: keys.Run(func() { i.Cut = !i.Cut }), About: "cut or wrap long lines"},
	}
}

// Key is a key of the screen, for documents.
type Key = keys.Key

// Keys returns the table of all keys, as the help of the screen shows it.
func Keys() []Key {
	record := replay.NewPlayer([]event.Event{{}}, 0)
	return newModel(context.Background(), Options{Command: func(event.Command) {}}.recorded(record)).allKeys()
}

// allKeys lists the keys that this screen has.
func (m *model) allKeys() []Key {
	var out []Key
	for _, part := range []string{partStep, partFix, partLook, partFind, partMove, partEnd} {
		for _, b := range m.boardKeys() {
			if b.Part == part && !b.Alias && !(b.Steers && m.ReadOnly()) {
				out = append(out, Key{Keys: b.Label, Part: part, About: b.About, More: b.More})
			}
		}
	}
	out = append(out, keys.Document(partInspector, m.inspectorKeys())...)
	steers := func(part string, table []keys.Binding) {
		if !m.ReadOnly() {
			out = append(out, keys.Document(part, table)...)
		}
	}
	steers(breakpoints.Part, m.breaks.Keys())
	steers(edit.Part, m.edit.Keys())
	out = append(out, keys.Document(palette.Part, m.palette.Keys())...)
	out = append(out, keys.Document(page.Part, m.help.Keys())...)
	for _, r := range m.replays {
		out = append(out, keys.Document(replay.Part, r.Keys())...)
	}
	steers(m.abort.Part(), m.abort.Keys())
	steers(m.giveUp.Part(), m.giveUp.Keys())
	return out
}

// The footer offers the diff before a group is applied, and the diff and both
// manifests next to each other.
func (m *model) diffHint() string {
	if !m.insp.Shown && m.insp.CanPreview() || m.showsObject() && m.insp.Tab != inspector.TabDiff {
		return "diff"
	}
	return ""
}

func (m *model) sentHint() string {
	if !m.showsObject() || m.insp.Tab == inspector.TabManifest && !m.insp.Live {
		return ""
	}
	it, ok := m.insp.Item()
	switch o := m.insp.Subject(); {
	case !ok, it.Kind == event.PhaseRemove:
		return ""
	case inspector.Applied(o):
		return "as sent"
	}
	return "will apply"
}

func (m *model) liveHint() string {
	if !m.showsObject() || m.insp.Tab == inspector.TabManifest && m.insp.Live {
		return ""
	}
	return "live"
}

// showsObject reports whether the inspector shows a diff or a manifest.
func (m *model) showsObject() bool {
	return m.insp.Shown && m.insp.HasAnswers() && (m.insp.Tab == inspector.TabDiff || m.insp.Tab == inspector.TabManifest)
}

func (m *model) canInspect() bool { return m.Group() != nil && !m.insp.Shown }

// backHint returns the word for esc on the board of a stack's release, nil on others.
func (m *model) backHint() func() string {
	if m.back == nil {
		return nil
	}
	return keys.Always("all releases")
}

// inspectHint returns the word for enter.
func (m *model) inspectHint() string {
	switch {
	case !m.canInspect():
		return ""
	case m.zoom != nil:
		return "open release"
	}
	return "inspect"
}

func (m *model) wrapHint() string {
	if m.insp.Cut {
		return "wrap lines"
	}
	return "cut lines"
}
