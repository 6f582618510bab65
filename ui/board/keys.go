package board

import (
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/inspector"
)

// binding is a key of the one table that keys, footer, help and README are
// made from, so that none of them can say what is not so.
type binding struct {
	keys  []string // as the terminal names them
	label string   // as people read them
	about string   // what it does, for the help
	part  string   // heading in the help
	// only tells when the key means this, where it means something else otherwise.
	// Nil: always.
	only func(*model) bool
	// hint is the word in the footer while the key can be obeyed, empty
	// while it cannot. Nil: never in the footer.
	hint func(*model) string
	do   func(*model) tea.Cmd
	// steers tells that a read-only screen does not have the key.
	steers bool
	// way tells that the key is a way out of a failure that is held (R44):
	// its hint stands below the state then, and not in the footer.
	way bool
	// near tells that its hint stands among the inspector's own, while that is open: it
	// shows the same thing in another way.
	near bool
	// stays tells that others leave the footer before it does.
	stays bool
}

const (
	partSteer = "steering"
	partMove  = "moving about"
	partLook  = "looking"
	partLeave = "leaving"
)

func always(word string) func(*model) string { return func(*model) string { return word } }

func when(word string, ok func(*model) bool) func(*model) string {
	return func(m *model) string {
		if ok(m) {
			return word
		}
		return ""
	}
}

// bindings is the table, in the order of the footer, which never leaves the
// last one out.
func bindings() []binding {
	return []binding{
		{keys: []string{"q"}, label: "q", hint: when("leave", (*model).mayLeave), do: (*model).quit, part: partLeave,
			about: "leave once the operation is over, or at any time where it is attached to a run; else it asks: a run is not left alone, it can be aborted"},
		{keys: []string{"A"}, label: "A", hint: when("accept", held), do: (*model).accept, steers: true, way: true, part: partSteer,
			about: "accept: while a failure is held, look again at what failed, without applying it; it is ready if the cluster says so, whoever mended it"},
		{keys: []string{"R"}, label: "R", hint: retryHint, do: (*model).retry, steers: true, way: true, part: partSteer,
			about: "retry: while a failure is held, apply what failed again and wait again"},
		{keys: []string{"G"}, label: "G", hint: when("give up", held), do: (*model).askGiveUp, steers: true, way: true, part: partSteer,
			about: "give up: while a failure is held, leave what failed as it is, finish what is under way, start nothing more; asks first"},
		{keys: []string{"p", "space"}, label: "p/space", hint: pauseHint, do: (*model).pause, steers: true, part: partSteer,
			about: "pause: what is in flight goes on, nothing further starts; again: resume"},
		{keys: []string{"n"}, label: "n", hint: when("step", paused), do: (*model).step, steers: true, part: partSteer,
			about: "step: while paused, let exactly one group go, the one marked: the first in plan order that can"},
		{keys: []string{"N"}, label: "N", hint: when("step this", mayStep), do: (*model).stepSelected, steers: true, part: partSteer,
			about: "step the selected group: while paused, let it go where all that it waits for is ready"},
		{keys: []string{"c"}, label: "c", hint: when("continue", paused), do: (*model).resume, steers: true, part: partSteer,
			about: "continue after a pause; refused while a failure is held: A, R, G and a are the ways out of that"},
		{keys: []string{"e"}, label: "e", hint: when("edit values", mayEdit), do: (*model).editGiven, steers: true, way: true, part: partSteer,
			about: "edit the values that you gave, while paused or held: $EDITOR opens, then the difference is shown; going on ends this revision and begins the next"},
		{keys: []string{"V"}, label: "V", do: (*model).editAll, steers: true, part: partSteer,
			about: "edit all values, also those that the charts have by themselves; what you change becomes yours"},
		{keys: []string{"E"}, label: "E", hint: chartHint, do: (*model).renderAgain, steers: true, way: true, part: partSteer,
			about: "render the chart's folder again, while paused or held, and go on with that as with edited values"},
		{keys: []string{"Z"}, label: "Z", hint: when("start anew", mayStartAnew), do: (*model).startAnew, steers: true, part: partSteer,
			about: "start the chart anew, with --sandbox: the chart as it is on disk now, the values as they were edited, on an empty cluster"},
		{keys: []string{"a", "ctrl+c"}, label: "a/ctrl-c", hint: when("abort", (*model).Steerable), do: (*model).askAbort, steers: true, way: true, stays: true, part: partSteer,
			about: "abort: asks whether to keep what is there or to roll back; ctrl-c twice stops at once"},
		{keys: []string{"t"}, label: "t", hint: when("run to here", mayRunTo), do: (*model).runTo, steers: true, part: partSteer,
			about: "run to the selected group: go on, and pause before it starts; breakpoints on the way stop as ever"},
		{keys: []string{"b"}, label: "b", hint: breakHint, do: (*model).toggleBreak, steers: true, part: partSteer,
			about: "breakpoint: pause the run before the selected group starts; again: take it away"},
		{keys: []string{"B"}, label: "B", hint: when("breakpoints", func(m *model) bool { return m.Steerable() && len(m.State.Breakpoints) > 0 }), do: (*model).openBreaks, steers: true, part: partSteer,
			about: "list the breakpoints: go to them, disable them, take them away"},

		{keys: []string{"d"}, label: "d", hint: diffHint, do: (*model).openDiff, near: true, part: partLook,
			about: "diff: what the run will do to the selected group or resource, field by field; again: look again"},
		{keys: []string{"y"}, label: "y", hint: sentHint, do: func(m *model) tea.Cmd { return m.openManifest(false) }, near: true, part: partLook,
			about: "manifest: the selected resource as it will be sent, or was"},
		{keys: []string{"Y"}, label: "Y", hint: liveHint, do: func(m *model) tea.Cmd { return m.openManifest(true) }, near: true, part: partLook,
			about: "live: the selected resource as it is in the cluster"},
		{keys: []string{"v"}, label: "v", do: func(m *model) tea.Cmd { return m.lookAt(inspector.TabEvents) }, part: partLook,
			about: "events of the selected resource, and of its pods"},
		{keys: []string{"l"}, label: "l", do: func(m *model) tea.Cmd { return m.lookAt(inspector.TabLogs) }, part: partLook,
			about: "logs of the selected resource: of all its pods and their containers, restarts included"},
		{keys: []string{"s"}, label: "s", do: (*model).showKubectl, part: partLook,
			about: "show the kubectl line for what is selected, or for what the open tab shows, and copy it"},
		{keys: []string{"C"}, label: "C", do: (*model).copyShown, part: partLook,
			about: "copy the text of the open tab, or of the pane, through the terminal (OSC 52)"},
		{keys: []string{":"}, label: ":", do: (*model).openPalette, part: partLook,
			about: "list all commands with their keys; type to find one, enter runs it"},
		{keys: []string{"/"}, label: "/", hint: always("filter"), do: (*model).openFilter, part: partLook,
			about: "show only what matches: words of a name, a kind, a status; esc shows all again"},
		{keys: []string{"f"}, label: "f", hint: when("next problem", (*model).anyProblem), do: (*model).nextProblem, part: partLook,
			about: "go to the next thing that is failing or that others wait for"},
		{keys: []string{"enter"}, label: "enter", hint: when("inspect", canInspect), do: (*model).inspect, stays: true, part: partLook,
			about: "inspect the selected group or resource: why, diff, manifest, events, pods, logs, gates, timings"},
		{keys: []string{"F"}, label: "F", hint: when("follow", func(m *model) bool { return !m.follow && !m.Over() }), do: (*model).followAgain, part: partLook,
			about: "follow the action again, as the screen does until you move"},
		{keys: []string{"z"}, label: "z", do: (*model).wishOn, part: partLook,
			about: "how much cards show: one line a group, everything, or again as much as there is room for"},
		{keys: []string{"w"}, label: "w", hint: when("warnings", func(m *model) bool { return len(m.State.Warnings) > 0 }), do: (*model).openWarnings, part: partLook,
			about: "read the warnings"},
		{keys: []string{"o"}, label: "o", hint: when("report", ended), do: (*model).openReport, part: partLook,
			about: "report, once the operation is over: what has changed, what took the time, the notes, what to type next"},
		{keys: []string{"up", "k"}, label: "up k", do: func(m *model) tea.Cmd { return m.move(-1) }, part: partMove, about: "line up"},
		{keys: []string{"down", "j"}, label: "down j", do: func(m *model) tea.Cmd { return m.move(1) }, part: partMove, about: "line down"},
		{keys: []string{"left"}, label: "left", do: func(m *model) tea.Cmd { return m.moveColumn(-1) }, part: partMove, about: "column to the left"},
		{keys: []string{"right"}, label: "right", do: func(m *model) tea.Cmd { return m.moveColumn(1) }, part: partMove, about: "column to the right"},
		{keys: []string{"tab"}, label: "tab", do: func(m *model) tea.Cmd { return m.moveGroup(1) }, part: partMove, about: "next group, in plan order"},
		{keys: []string{"shift+tab"}, label: "shift-tab", do: func(m *model) tea.Cmd { return m.moveGroup(-1) }, part: partMove, about: "previous group"},
		{keys: []string{"home", "g"}, label: "home g", do: func(m *model) tea.Cmd { return m.moveEnd(false) }, part: partMove, about: "first group"},
		{keys: []string{"end"}, label: "end", do: func(m *model) tea.Cmd { return m.moveEnd(true) }, part: partMove, about: "last group"},
		{keys: []string{"pgup", "ctrl+b"}, label: "page up", do: func(m *model) tea.Cmd { return m.page(-1) }, part: partMove, about: "page up"},
		{keys: []string{"pgdown", "ctrl+f"}, label: "page down", do: func(m *model) tea.Cmd { return m.page(1) }, part: partMove, about: "page down"},

		{keys: []string{"esc"}, label: "esc", do: (*model).escape, part: partLeave, about: "close the inspector, take the filter away"},
		{keys: []string{"?"}, label: "?", hint: always("help"), do: (*model).openHelp, part: partLook,
			about: "this help"},
	}
}

// Key is a key of the screen, for documents.
type Key struct {
	// Keys are the keys as people read them, Part the heading they stand
	// under, About what they do.
	Keys, Part, About string
}

// Keys is the table of all keys, as the help of the screen shows it.
func Keys() []Key {
	var out []Key
	for _, part := range []string{partSteer, partLook, partMove, partLeave} {
		for _, b := range bindings() {
			if b.part == part {
				out = append(out, Key{b.label, b.part, b.about})
			}
		}
	}
	for _, b := range inspectorBindings() {
		out = append(out, Key{b.label, partInspector, b.about})
	}
	for _, t := range []struct {
		part  string
		table []binding
	}{{partBreaks, breakBindings()}, {partEdit, editBindings()}, {partPalette, paletteBindings()}, {partPager, pagerBindings()}, {partReplay, replayBindings()}} {
		for _, b := range t.table {
			out = append(out, Key{b.label, t.part, b.about})
		}
	}
	for _, d := range []dialog{abortDialog, giveUpDialog} {
		for _, c := range d.choices() {
			out = append(out, Key{c.label, d.part(), c.about})
		}
	}
	return out
}

func held(m *model) bool   { return m.Steerable() && m.State.Run == event.Held }
func paused(m *model) bool { return m.Steerable() && m.State.Run == event.Paused }

func pauseHint(m *model) string {
	switch {
	case !m.Steerable():
	case m.State.Run == event.Running:
		return "pause"
	case m.State.Run == event.Paused:
		return "resume"
	}
	return ""
}

// mayStep reports whether the selected group could be let go by itself.
func mayStep(m *model) bool {
	n := m.group()
	return paused(m) && n != nil && n.GroupState != m.Next && (n.Status == event.Held || n.Status == event.Waiting && m.Ready(n))
}

// mayRunTo reports whether the selected group is one that others come before.
func mayRunTo(m *model) bool {
	n := m.group()
	return paused(m) && n != nil && n.Status == event.Waiting && !m.Ready(n)
}

func breakHint(m *model) string {
	n := m.group()
	switch {
	case n == nil || !m.Steerable() || m.State.Run == event.Aborting:
		return ""
	case m.State.Breaks(n.Unit()) && !n.Status.Over() && n.Status != event.Running:
		return "clear breakpoint"
	case n.Status == event.Waiting:
		return "breakpoint"
	}
	return ""
}

// The keys of the diff and of the manifests stand in the footer before a group is
// applied, and beside each other.
func diffHint(m *model) string {
	if m.insp == nil && m.looksAhead() || m.showsObject() && m.insp.Tab != inspector.TabDiff {
		return "diff"
	}
	return ""
}

func sentHint(m *model) string {
	if !m.showsObject() || m.insp.Tab == inspector.TabManifest && !m.insp.Live {
		return ""
	}
	it, ok := m.item()
	switch o := m.subject(); {
	case !ok, it.Kind == event.PhaseRemove:
		return ""
	case inspector.Applied(o):
		return "as sent"
	}
	return "will apply"
}

func liveHint(m *model) string {
	if !m.showsObject() || m.insp.Tab == inspector.TabManifest && m.insp.Live {
		return ""
	}
	return "live"
}

// showsObject reports whether an object is shown as the run sees it, or the cluster.
func (m *model) showsObject() bool {
	return m.insp != nil && m.opts.Inspector != nil && (m.insp.Tab == inspector.TabDiff || m.insp.Tab == inspector.TabManifest)
}

func canInspect(m *model) bool { return m.group() != nil && m.insp == nil && !m.leaveOnEnter() }

// leaveOnEnter reports whether enter leaves: at the end, where the user has
// not begun to look around. Who has opened a record has done so to look.
func (m *model) leaveOnEnter() bool { return m.Over() && m.follow && m.insp == nil && !m.ReadOnly() }
