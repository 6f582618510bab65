package board

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// Editor changes what a run goes on with (R46).
type Editor interface {
	// Values are those that the user gave, as YAML, or all: those that the charts
	// have by themselves, too. They are not masked: nobody sees them but in the
	// user's own editor.
	Values(all bool) (string, error)
	// Edit renders and plans a revision with what has become of Values. An error
	// means that it would not come to anything. Neither changes anything in the
	// cluster.
	Edit(ctx context.Context, values string, all bool) (Edited, error)
	// Again is Edit with the chart as its folder is now.
	Again(ctx context.Context) (Edited, error)
	// ChartChanged reports whether that folder is another one than it was when the
	// chart was rendered last. It is asked again and again.
	ChartChanged() bool
}

// Edited is a revision that the run could go on with.
type Edited struct {
	// Lines are what is other in it, without secret values.
	Lines []string
	// Order makes the run go on with it.
	Order event.Command
}

// editing is an edit under way: what the user has written is kept until it has been
// obeyed.
type editing struct {
	chart       bool   // the chart is rendered again, and there are no values
	values, was string // as they were written last, and before the first edit
	all         bool   // they are all values, not only those that the user gave
	busy        bool   // it is being rendered and planned
	shown       bool   // its outcome is on top of the board
	made        Edited
	failed      error
	top         int
}

type (
	// writtenMsg tells that the user has left the editor, plannedMsg what has
	// come of what was written there.
	writtenMsg struct {
		values string
		err    error
	}
	plannedMsg struct {
		edit *editing
		made Edited
		err  error
	}
)

const partEdit = "before an edit"

// editBindings are the keys of the page that shows what an edit has come to.
func editBindings() []binding {
	scroll := func(by int) func(*model) tea.Cmd { return func(m *model) tea.Cmd { m.edit.top += by; return nil } }
	return []binding{
		{keys: []string{"enter"}, label: "enter", do: (*model).goOnEdited, about: "go on with the edited revision"},
		{keys: []string{"e"}, label: "e", do: (*model).editAgain, about: "edit again what was written"},
		{keys: []string{"up", "k"}, label: "up k", do: scroll(-1), about: "line up"},
		{keys: []string{"down", "j"}, label: "down j", do: scroll(1), about: "line down"},
		{keys: []string{"pgup", "ctrl+b"}, label: "page up", do: scroll(-10), about: "page up"},
		{keys: []string{"pgdown", "ctrl+f", "space"}, label: "page down", do: scroll(10), about: "page down"},
		{keys: []string{"esc", "q"}, label: "esc", do: func(m *model) tea.Cmd { m.edit.shown = false; return nil }, about: "leave the run as it is; e comes back to what was written"},
		{keys: []string{"ctrl+c"}, label: "ctrl-c", do: (*model).askAbort, about: "abort: asks"},
	}
}

// mayEdit reports whether the run can be edited now.
func mayEdit(m *model) bool {
	return m.opts.Editor != nil && (held(m) || paused(m)) && m.State.Status != event.RollingBack
}

// whyNotEdit says so of a run that cannot be.
func (m *model) whyNotEdit() tea.Cmd {
	switch {
	case m.opts.Attached:
		return m.say(theme.Bad, "values are edited where the run was started, or with lockstep ctl RELEASE edit -f FILE")
	case m.opts.Editor == nil || m.State.Status == event.RollingBack:
		return m.say(theme.Bad, "there is nothing to edit: what is being done brings neither values nor a chart")
	}
	return m.say(theme.Bad, "pause the run first: p")
}

// editGiven opens the values that the user gave, editAll all values, editAgain those
// that were edited last.
func (m *model) editGiven() tea.Cmd { return m.editValues(false) }
func (m *model) editAll() tea.Cmd   { return m.editValues(true) }
func (m *model) editAgain() tea.Cmd { return m.editValues(m.edit != nil && m.edit.all) }

// editValues opens values in the user's editor: those of the run, or those that were
// written before and have not been obeyed.
func (m *model) editValues(all bool) tea.Cmd {
	if !mayEdit(m) {
		return m.whyNotEdit()
	}
	if m.edit != nil && m.edit.busy {
		return m.say(theme.Quiet, "it is being rendered")
	}
	if m.edit == nil || m.edit.chart || m.edit.all != all && m.edit.values == m.edit.was {
		m.edit = nil
		values, err := m.opts.Editor.Values(all)
		if err != nil {
			return m.say(theme.Bad, "the values cannot be edited: "+err.Error())
		}
		m.edit = &editing{values: values, was: values, all: all}
	}
	editor := &valuesEditor{ctx: m.ctx, values: m.edit.values, atQuit: m.opts.AtQuit}
	return tea.Exec(editor, func(err error) tea.Msg { return writtenMsg{editor.values, err} })
}

// readWritten takes what the user has written, and has it rendered and planned.
func (m *model) readWritten(msg writtenMsg) tea.Cmd {
	if m.edit == nil {
		return nil
	}
	m.edit.values = msg.values
	switch {
	case msg.err != nil:
		return m.say(theme.Bad, msg.err.Error())
	case msg.values == m.edit.was:
		m.edit = nil
		return m.say(theme.Quiet, "nothing was changed")
	}
	all := m.edit.all
	return m.plan(func(ctx context.Context, e Editor) (Edited, error) { return e.Edit(ctx, msg.values, all) })
}

// renderAgain goes on with the chart as its folder is now.
func (m *model) renderAgain() tea.Cmd {
	if !mayEdit(m) {
		return m.whyNotEdit()
	}
	if m.edit == nil {
		m.edit = &editing{chart: true}
	}
	m.drift.chart = false
	return m.plan(func(ctx context.Context, e Editor) (Edited, error) { return e.Again(ctx) })
}

// plan has an edit rendered and planned meanwhile.
func (m *model) plan(make func(context.Context, Editor) (Edited, error)) tea.Cmd {
	if m.edit.busy {
		return nil
	}
	m.edit.busy, m.edit.shown = true, false
	ctx, editor, edit := m.ctx, m.opts.Editor, m.edit
	return tea.Batch(m.say(theme.Quiet, "rendering the edited revision"), func() tea.Msg {
		made, err := make(ctx, editor)
		return plannedMsg{edit, made, err}
	})
}

// planned shows what an edit has come to.
func (m *model) planned(msg plannedMsg) {
	if msg.edit != m.edit {
		return
	}
	m.flash.text = ""
	m.edit.busy, m.edit.shown, m.edit.top = false, true, 0
	m.edit.made, m.edit.failed = msg.made, msg.err
}

// goOnEdited lets the run go on with the edited revision.
func (m *model) goOnEdited() tea.Cmd {
	if m.edit.failed != nil {
		return nil
	}
	m.edit.shown = false
	return m.send(m.edit.made.Order)
}

// drawEdit draws what an edit has come to over the board.
func (m *model) drawEdit() {
	e, dot := m.edit, " "+m.Theme.Lines.Dot+" "
	w := min(m.w-4, 110)
	title, role := "edited"+dot+"enter goes on"+dot+"e edits again"+dot+"esc", theme.Accent
	texts := e.made.Lines
	if e.failed != nil {
		title, role = "it comes to nothing"+dot+"e edits again"+dot+"esc", theme.Bad
		texts = strings.Split(e.failed.Error(), "\n")
	}
	var lines []canvas.Line
	for _, text := range texts {
		for _, s := range canvas.Wrap(canvas.Clean(text), w-4) {
			lines = append(lines, canvas.Plain(editRole(text), s))
		}
	}
	room := max(m.h-5, 1)
	e.top = min(max(e.top, 0), max(len(lines)-room, 0))
	if len(lines) > room {
		lines = lines[e.top:][:room]
	}
	m.canvas.Box(title, w, lines, role)
}

// editRole is how a line of a difference is painted, by its first sign.
func editRole(line string) theme.Role {
	switch first, _, _ := strings.Cut(strings.TrimLeft(line, " "), " "); first[:min(1, len(first))] {
	case "+":
		return theme.Good
	case "-":
		return theme.Bad
	case "~":
		return theme.Busy
	case "!":
		return theme.Stopped
	case "@":
		return theme.Quiet
	}
	return theme.Text
}
