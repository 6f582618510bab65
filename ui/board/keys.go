package board

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

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
	partStep      = "control the run"
	partFix       = "after a failure"
	partLook      = "see what is happening"
	partFind      = "find something"
	partMove      = "move around"
	partEnd       = "quit or abort"
	partInspector = "in the inspector"
)

// boardKeys returns the board's table of keys in the order of the footer, which always shows the
// last one.
func (m *model) boardKeys() []keys.Binding {
	table := slices.Concat(m.runKeys(), m.lookKeys(), m.moveKeys())
	if m.stackBoard != nil {
		for i, b := range m.stackBoard.boardKeys() { // same order
			if own := table[i]; slices.Contains(stackKeys, b.Key()) {
				table[i] = b
				if m.Held() { // the stack cannot resume; this board offers the keys for the failure
					table[i].Hint = own.Hint
				}
			}
		}
	}
	return table
}

// runKeys control the run.
func (m *model) runKeys() []keys.Binding {
	noGroup := keys.Unless(m.HasGroup, "select a group first")
	return []keys.Binding{
		{Keys: "q", Hint: m.quitHint, Do: m.quit, Part: partEnd, About: "quit", More: "asks if that aborts the run"},
		{Keys: "A", Hint: m.acceptHint, Do: m.accept, Steers: true, OnFailure: true, Part: partFix,
			About: "re-check", More: "selected or all, no apply"},
		{Keys: "R", Hint: func() string { return m.failedHint("retry", m.insp.Reverted()) }, Do: m.retry, Steers: true, OnFailure: true, Part: partFix,
			About: "retry", More: "applies selected or all"},
		{Keys: "G", Hint: keys.When("stop here", m.Held), Disabled: keys.Unless(m.Held, "no group has failed"), Do: m.giveUp.Open, Steers: true, OnFailure: true, Part: partFix,
			About: "stop here", More: "ends as failed; asks first"},
		{Keys: "p space", Hint: m.pauseHint, Do: m.pauseOrResume, Steers: true, Part: partStep,
			About: "pause or resume", More: "running work continues"},
		{Keys: "n", Hint: keys.When("step", func() bool { return m.Paused() && (!m.awaitsApproval() || m.Next != nil) }), Do: m.command(event.Step), Steers: true, Part: partStep,
			About: "step", More: "starts the next group"},
		{Keys: "b", Hint: m.breakHint, Disabled: noGroup, Do: m.groupCommand(event.Break), Steers: true, Part: partStep,
			About: "breakpoint", More: "sets or removes one"},
		{Keys: "N", Hint: keys.When("step here", m.canStep), Disabled: noGroup, Do: m.groupCommand(event.Step), Steers: true, Part: partStep,
			About: "step this group", More: "starts the selected group"},
		{Keys: "c", Do: m.command(event.Resume), Steers: true, Part: partStep, About: "resume"},
		{Keys: "O", Hint: m.approveHint, Disabled: keys.Unless(m.awaitsApproval, "no group waits for an approval"), Do: m.approve, Steers: true, Pinned: true, Part: partStep,
			About: "approve", More: "the selected group, or all"},
		{Keys: "e", Hint: m.edit.ValuesHint, Disabled: m.edit.WhyNot, Do: m.edit.EditValues, Steers: true, OnFailure: true, Part: partFix,
			About: "edit values", More: "yours; pauses if degraded"},
		{Keys: "V", Disabled: m.edit.WhyNot, Do: m.edit.EditAllValues, Steers: true, Part: partFix,
			About: "edit all values", More: "with the chart's defaults"},
		{Keys: "E", Hint: m.edit.ChartHint, Disabled: m.edit.WhyNot, Do: m.edit.RenderAgain, Steers: true, OnFailure: true, Part: partFix,
			About: "render again", More: "reads the chart again"},
		{Keys: "Z", Hint: keys.When("restart", m.offersRestart), Disabled: m.whyNotRestart, Do: m.prepareRestart, Steers: true, Part: partEnd,
			About: "restart", More: "on a new cluster (--sandbox)"},
		{Keys: "a ctrl+c", Label: "a", Also: "ctrl-c", Hint: keys.When("abort", m.Steerable), Disabled: keys.When("the run is over", m.Over), Do: m.askAbort, Steers: true, OnFailure: true, Pinned: true, Part: partEnd,
			About: "abort", More: "keep or roll back; asks first"},
		{Keys: "t", Hint: keys.When("run to here", m.canRunTo), Disabled: noGroup, Do: m.groupCommand(event.RunTo), Steers: true, Part: partStep,
			About: "run to this group", More: "pauses before it"},
		{Keys: "B", Hint: keys.When("breakpoints", func() bool { return m.Steerable() && len(m.State.Breakpoints) > 0 }), Do: m.breaks.Open, Steers: true, Part: partStep,
			About: "breakpoints…", More: "list, disable, remove"},
	}
}

// lookKeys show more about what is selected, and about the run.
func (m *model) lookKeys() []keys.Binding {
	noSubject := keys.Unless(m.HasGroup, "nothing to inspect yet")
	noKubectl := keys.Unless(func() bool { return m.insp.TargetObject() != nil }, "nothing for kubectl to show")
	noObject := func() string {
		if n := m.Group(); m.openRelease != nil && (n == nil || n.Step == nil) {
			return "press enter to open the release first"
		}
		return noSubject()
	}
	noCause := func() string {
		if m.cause() != m {
			return ""
		}
		return noObject()
	}
	warned := func() bool { return len(m.State.Warnings) > 0 }
	return []keys.Binding{
		{Keys: "d", Hint: m.diffHint, Disabled: noSubject, Do: m.insp.OpenDiff, Near: true, Part: partLook,
			About: "diff", More: "what changes, field by field"},
		{Keys: "y", Hint: m.manifestHint, Disabled: noObject, Do: m.insp.OpenManifest, Near: true, Part: partLook,
			About: "manifest", More: "as applied by this run"},
		{Keys: "Y", Hint: m.liveHint, Disabled: noObject, Do: m.insp.OpenLive, Near: true, Part: partLook,
			About: "live object", More: "the object in the cluster"},
		{Keys: "v", Hint: keys.When("events", func() bool { return m.cause().inTrouble() && m.cause().insp.Exists() }), Disabled: noCause, Do: m.openCause(inspector.TabEvents), Part: partLook, About: "events", More: "of the object and its pods"},
		{Keys: "l", Hint: keys.When("logs", func() bool { return m.cause().inTrouble() && m.cause().insp.LogsMayHelp() }), Disabled: func() string { return cmp.Or(noCause(), m.cause().insp.WhyNoPods()) }, Do: m.openCause(inspector.TabLogs), Part: partLook, About: "logs", More: "of all pods and containers"},
		{Keys: "S", Hint: keys.When("shell", func() bool { return m.inTrouble() && m.insp.ShellMayHelp() }), Disabled: func() string { return cmp.Or(noObject(), m.insp.WhyNoShell()) }, Do: m.insp.Shell, Part: partLook,
			About: "open a shell…", More: "in a container"},
		m.tabKey(0), m.tabKey(1), m.tabKey(2), m.tabKey(3), m.tabKey(4), m.tabKey(5), m.tabKey(6), m.tabKey(7),
		{Keys: "D", Disabled: func() string { return cmp.Or(noObject(), noKubectl()) }, Do: m.showKubectl, Part: partLook,
			About: "kubectl command", More: "shows and copies it"},
		{Keys: "C", Disabled: keys.Unless(m.HasGroup, "nothing to copy yet"), Do: m.insp.Copy, Part: partLook,
			About: "copy", More: "the text of the tab or pane"},
		{Keys: ":", Do: m.palette.Open, Part: partFind, About: "commands…", More: "search and run a command"},
		{Keys: "/", Hint: keys.Always("filter"), Do: m.openFilter, Part: partFind, About: "filter…", More: "by name, kind or status"},
		{Keys: "f", Hint: m.problemHint, Disabled: keys.Unless(m.board.AnyProblem, "no problems"), Do: m.board.NextProblem, Part: partLook,
			About: "next problem", More: "failures, then unfinished"},
		{Keys: "enter", Hint: m.inspectHint, Disabled: noSubject, Do: m.inspect, Pinned: true, Part: partLook,
			About: "inspect", More: "the selected group or object"},
		{Keys: "F", Hint: keys.When("follow", func() bool { return !m.Follow && !m.Over() }), Do: m.board.FollowAgain, Part: partFind,
			About: "follow", More: "shows running groups again"},
		{Keys: "z", Hint: keys.When("show all groups", func() bool { return m.Half }), Do: m.board.NextDetail, Part: partFind, About: "card size", More: "compact, full, auto"},
		{Keys: "w", Hint: keys.When("warnings", warned), Disabled: keys.Unless(warned, "no warnings"), Do: m.warnings.Open, Part: partLook,
			About: "warnings…"},
		{Keys: "o", Hint: keys.When("report", m.HasReport), Disabled: m.whyNoReport, Do: m.report.Open, Part: partLook,
			About: "report…", More: "changes, timings, notes, next commands"},
	}
}

// moveKeys move around on the board, and leave it.
func (m *model) moveKeys() []keys.Binding {
	noGroup := keys.Unless(m.HasGroup, "select a group first")
	back := keys.When(strings.TrimPrefix(m.Home, "the "), func() bool { return m.Home != "" && (m.CanQuit() || m.Leave.ComeBack != "") })
	if m.back != nil {
		back = keys.Always("all releases")
	}
	return []keys.Binding{
		{Keys: "up k", Do: keys.By(m.board.Move, -1), Part: partMove, About: "up one line"},
		{Keys: "down j", Do: keys.By(m.board.Move, 1), Part: partMove, About: "down one line"},
		{Keys: "left", Do: keys.By(m.board.MoveColumn, -1), Part: partMove, About: "column to the left"},
		{Keys: "right", Do: keys.By(m.board.MoveColumn, 1), Part: partMove, About: "column to the right"},
		{Keys: "tab", Do: keys.By(m.board.MoveGroup, 1), Part: partMove, About: "next group", More: "in plan order"},
		{Keys: "shift+tab", Label: "shift-tab", Do: keys.By(m.board.MoveGroup, -1), Part: partMove, About: "previous group"},
		{Keys: "g", Hint: keys.When("go to", func() bool { return len(m.Graph.Nodes) > 9 }), Disabled: noGroup, Do: m.jump.Open, Part: partFind, About: "go to a group…", More: "by name or two-letter code"},
		{Keys: "home", Do: keys.Run(m.board.MoveFirst), Part: partMove, About: "first group"},
		{Keys: "end", Do: keys.Run(m.board.MoveLast), Part: partMove, About: "last group"},
		{Keys: "pgup ctrl+b", Label: "page up", Do: keys.By(m.board.Page, -1), Part: partMove, About: "page up"},
		{Keys: "pgdown ctrl+f", Label: "page down", Do: keys.By(m.board.Page, 1), Part: partMove, About: "page down"},
		{Keys: "esc", Hint: back, Do: m.escape, Pinned: m.Home != "", Part: partMove, About: "back", More: "closes, then goes back"},
		{Keys: "?", Hint: keys.Always("help"), Do: m.help.Open, Part: partFind, About: "help"},
	}
}

// editKeys edit the values or the chart, which a stack does not allow: pressed there, they say so.
var editKeys = []string{"e", "V", "E"}

// inStack reports whether the run is one of many releases.
func (m *model) inStack() bool { return m.State.Operation.IsStack() || m.Stack != nil }

// problemHint is the footer's word for f: during a run without a failure, f goes to the groups that the run waits for.
func (m *model) problemHint() string {
	switch {
	case !m.board.AnyProblem():
		return ""
	case m.Over() || m.board.AnyFailure() || m.Tally.Degraded > 0:
		return "next problem"
	}
	return "next unfinished"
}

// tabKey returns the key that opens a tab by its number. The first one documents all of them.
func (m *model) tabKey(t inspector.Tab) keys.Binding {
	b := keys.Binding{Keys: strconv.Itoa(int(t) + 1), About: "tab: " + inspector.TabNames[t], Part: partLook, Alias: t > 0,
		Disabled: keys.Unless(m.HasGroup, "nothing to inspect yet"), Do: func() tea.Cmd { return m.insp.OpenTab(t) }}
	if t == 0 {
		b.Label, b.About, b.More = "1-8", "tabs", strings.Join(inspector.TabNames[:], ", ")
	}
	return b
}

// inspectorKeys returns the keys that the inspector adds or redefines.
func (m *model) inspectorKeys() []keys.Binding {
	i := m.insp
	turn := func(by inspector.Tab) func() tea.Cmd {
		return func() tea.Cmd { return i.SwitchTab((i.Tab + by + inspector.Tabs) % inspector.Tabs) }
	}
	inLogs := func() bool { return i.Tab == inspector.TabLogs }
	return []keys.Binding{
		{Keys: "tab right", Label: "tab", Hint: keys.Always("next tab"), Do: turn(1), About: "next tab (also right)"},
		{Keys: "shift+tab left", Label: "shift-tab", Do: turn(-1), About: "previous tab (also left)"},
		{Keys: "esc", Hint: keys.Always("close"), Do: m.escape, About: "close"},
		{Keys: "enter", Do: i.Close, About: "close"},
		{Keys: "up k", Do: keys.By(i.Scroll, -1), About: "scroll up"},
		{Keys: "down j", Do: keys.By(i.Scroll, 1), About: "scroll down"},
		{Keys: "pgup ctrl+b", Label: "page up", Do: keys.By(i.ScrollPage, -1), About: "scroll up by a page"},
		{Keys: "pgdown ctrl+f", Label: "page down", Do: keys.By(i.ScrollPage, 1), About: "scroll down by a page"},
		{Keys: "home", Do: keys.Run(func() { i.Scroll(-i.Page.Last) }), About: "to the beginning"},
		{Keys: "end", Do: keys.Run(func() { i.Scroll(i.Page.Last) }), About: "to the end (follows logs)"},
		{Keys: "shift+down )", Label: "shift-down", Also: ")", Do: keys.By(m.board.Move, 1), About: "inspect the next object or group"},
		{Keys: "shift+up (", Label: "shift-up", Also: "(", Do: keys.By(m.board.Move, -1), About: "inspect the previous object or group"},
		{Keys: "/", Hint: keys.Always("search"), Do: m.openSearch, About: "search this tab", More: "down next, up previous, esc closes"},
		{Keys: "]", Hint: keys.When("next pod", i.SeveralPods), Only: inLogs, Do: keys.By(i.CyclePod, 1), About: "show only the next pod's logs"},
		{Keys: "[", Only: inLogs, Do: keys.By(i.CyclePod, -1), About: "show only the previous pod's logs"},
		{Keys: "}", Hint: keys.When("next container", i.SeveralContainers), Only: inLogs, Do: keys.By(i.CycleContainer, 1), About: "show only the next container's logs"},
		{Keys: "{", Only: inLogs, Do: keys.By(i.CycleContainer, -1), About: "show only the previous container's logs"},
		{Keys: "0", Hint: keys.When("all logs", i.LogsFiltered), Only: inLogs, Do: keys.Run(i.AllLogs), About: "show the logs of all pods and containers"},
		{Keys: "H", Hint: keys.When("timestamps", i.HasTimes), Only: inLogs, Do: keys.Run(func() { i.Times = !i.Times }), About: "show or hide timestamps"},
		{Keys: "W", Hint: m.wrapHint, Only: i.Wraps, Do: keys.Run(func() { i.Cut = !i.Cut }), About: "truncate or wrap long lines"},
	}
}

// Key documents a key of the screen.
type Key = keys.Key

// Keys returns all keys in the order of the help page.
func Keys() []Key {
	o := Options{}.replaying(replay.NewPlayer([]event.Event{{}}, 0))
	o.Command = func(event.Command) {}
	return newModel(context.Background(), o).allKeys()
}

// allKeys lists the keys of this screen; a read-only one has fewer.
func (m *model) allKeys() []Key {
	var out []Key
	for _, part := range []string{partStep, partFix, partLook, partFind, partMove, partEnd} {
		for _, b := range m.boardKeys() {
			if b.Part == part && !b.Alias && !(b.Steers && m.ReadOnly()) && !(m.inStack() && slices.Contains(editKeys, b.Key())) {
				out = append(out, keys.Document(part, []keys.Binding{b})...)
			}
		}
	}
	out = append(out, keys.Document(partInspector, m.inspectorKeys())...)
	addSteering := func(part string, table []keys.Binding) {
		if !m.ReadOnly() {
			out = append(out, keys.Document(part, table)...)
		}
	}
	addSteering(breakpoints.Part, m.breaks.Keys())
	if !m.inStack() {
		addSteering(edit.Part, m.edit.Keys())
	}
	out = append(out, keys.Document(palette.Part, m.palette.Keys())...)
	out = append(out, keys.Document(page.Part, m.help.Keys())...)
	if m.replay != nil {
		out = append(out, keys.Document(replay.Part, m.replay.Keys())...)
	}
	addSteering(m.abort.Part(), m.abort.Keys())
	addSteering(m.giveUp.Part(), m.giveUp.Keys())
	return out
}

// diffHint offers the diff before a group is applied, and of a watched release. While the inspector shows the diff or a
// manifest, diffHint, manifestHint and liveHint offer the other two.
func (m *model) diffHint() string {
	if !m.insp.Shown && (m.insp.CanPreview() || m.State.Operation.IsWatch()) || m.showsObject() && m.insp.Tab != inspector.TabDiff {
		return "diff"
	}
	return ""
}

func (m *model) manifestHint() string {
	if !m.showsObject() || m.insp.Tab == inspector.TabManifest && !m.insp.Live {
		return ""
	}
	if it, ok := m.insp.Item(); !ok || it.Kind == event.PhaseRemove {
		return ""
	}
	return "manifest"
}

func (m *model) liveHint() string {
	if !m.showsObject() || m.insp.Tab == inspector.TabManifest && m.insp.Live {
		return ""
	}
	return "live object"
}

// showsObject reports whether the inspector shows a diff or a manifest.
func (m *model) showsObject() bool {
	return m.insp.Shown && m.insp.Connected() && (m.insp.Tab == inspector.TabDiff || m.insp.Tab == inspector.TabManifest)
}

func (m *model) inspectHint() string {
	switch {
	case m.Group() == nil || m.insp.Shown:
		return ""
	case m.Group().Step != nil:
		return "output"
	case m.openRelease != nil:
		return "open release"
	}
	return "inspect"
}

func (m *model) wrapHint() string {
	if m.insp.Cut {
		return "wrap lines"
	}
	return "truncate lines"
}
