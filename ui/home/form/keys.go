package form

import (
	"cmp"
	"context"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Headings of the keys, for the help.
const (
	FieldsPart = "in a form"
	PlanPart   = "in the plan of a form"
)

// Keys returns the bindings of the current page.
func (m *Form) Keys() []keys.Binding {
	switch {
	case m.review.confirming:
		return m.confirmKeys()
	case m.review.open:
		return m.planKeys()
	}
	return m.fieldKeys()
}

// Doc documents the keys of forms. An alias is documented by another key.
func Doc() []keys.Key {
	m := New(context.Background(), screen.New(nil, screen.Run{}), Options{Input: Input{Operation: Upgrade}})
	isAlias := func(b keys.Binding) bool { return b.Alias }
	return append(keys.Document(FieldsPart, slices.DeleteFunc(m.fieldKeys(), isAlias)), keys.Document(PlanPart, slices.DeleteFunc(m.planKeys(), isAlias))...)
}

// helpLines returns the keys of the plan, then those of the fields.
func helpLines(width int) []canvas.Line {
	all := Doc()
	slices.SortStableFunc(all, func(a, b keys.Key) int { return cmp.Compare(b.Part, a.Part) })
	return keys.Table(all, width)
}

func (m *Form) fieldKeys() []keys.Binding {
	onValues := func() bool { return m.current().field == Values && m.current().input.Value() == "" }
	return []keys.Binding{
		{Keys: "enter", Hint: m.enterHint, Do: m.enter, About: "take the selected value, or make the plan"},
		{Keys: "tab", Hint: keys.Always("next field"), Do: m.complete, About: "complete the text, or go to the next field"},
		{Keys: "shift+tab", Do: func() tea.Cmd { return m.move(-1) }, About: "previous field"},
		{Keys: "up", Label: "↑↓", Hint: keys.When("choose", func() bool { return len(m.rows()) > 0 }), Do: keys.By(m.choose, -1), About: "choose a value"},
		{Keys: "down", Alias: true, Do: keys.By(m.choose, 1), About: "choose a value"},
		{Keys: "delete", Only: m.guesses, Hint: keys.Always("as typed"), Do: keys.Run(func() { m.lists.typed = true }), About: "drop the completion: the text as typed"},
		{Keys: "space", Only: func() bool { return m.current().field == Keep }, Do: m.toggleKeep, About: "keep or replace the old values"},
		{Keys: "pgup", Label: "page up", Do: keys.Run(func() { m.page(-1) }), About: "up one page"},
		{Keys: "pgdown", Label: "page down", Do: keys.Run(func() { m.page(1) }), About: "down one page"},
		{Keys: "ctrl+p", Label: "ctrl-p", Hint: m.planHint, Do: m.plan, About: "make the plan"},
		{Keys: "e", Only: onValues, Hint: keys.Always("edit values"), Do: m.openValues, Alias: true},
		{Keys: "ctrl+e", Label: "ctrl-e", Only: m.hasValues, Hint: keys.When("edit values", func() bool { return !onValues() && (m.current().field == Values || m.missing() < 0) }), Do: m.openValues, About: "edit the values in $EDITOR; in the empty field, e does the same"},
		{Keys: "esc ctrl+c", Label: "esc", Hint: keys.Always("cancel"), Pinned: true, Do: m.cancel, About: "cancel; nothing is written"},
	}
}

// hasValues reports whether the form has a field for values.
func (m *Form) hasValues() bool { return m.o.Operation == Install || m.o.Operation == Upgrade }

func (m *Form) enterHint() string {
	switch {
	case m.current().field == Keep && !m.lists.moved: // the choice has been taken
		return "plan"
	case m.selected() >= 0 && last(m.current()) != m.rows()[m.selected()].Value:
		return "take"
	case m.missing() < 0:
		return "plan"
	}
	return "next"
}

func (m *Form) planHint() string {
	if m.missing() < 0 && m.enterHint() != "plan" {
		return "plan"
	}
	return ""
}

// enter takes the selected row, and then goes to the next field that is missing, or makes the plan.
func (m *Form) enter() tea.Cmd {
	was := m.current().input.Value()
	m.take()
	switch n := m.missing(); {
	case m.unfinished() && m.current().input.Value() != was:
		return m.suggest()
	case n == m.focus:
		return m.Say(theme.Stopped, "type or choose a "+labels[m.current().field])
	case n >= 0:
		m.focusOn(n)
		return m.suggest()
	case m.current().input.Value() != was && m.hasValues() && m.focus < len(m.fields)-1: // optional fields follow
		return m.move(1)
	}
	return m.plan()
}

// toggleKeep changes whether the values of the last revision are kept.
func (m *Form) toggleKeep() tea.Cmd {
	in := m.input()
	m.current().input.SetValue(map[bool]string{false: yes}[in.Keep])
	m.lists.reset()
	return nil
}

// complete takes the only suggestion, or the first one that starts with the text, or else goes to the next field.
func (m *Form) complete() tea.Cmd {
	typed, rows, f := last(m.current()), m.rows(), m.current().field
	if f != Keep && !m.lists.moved && len(rows) > 0 && rows[0].Value != typed {
		only := len(rows) == 1 && (typed != "" || f.needed())
		if only || typed != "" && strings.HasPrefix(rows[0].Value, typed) {
			m.lists.row, m.lists.moved = 0, true
		}
	}
	if m.lists.moved {
		m.take()
	}
	if m.unfinished() {
		return m.suggest()
	}
	return m.move(1)
}

// unfinished reports whether the text of the field is only the start of a value: a folder, or a registry.
func (m *Form) unfinished() bool { return strings.HasSuffix(last(m.current()), "/") }

// page scrolls the details of the selected row, or moves a page of rows.
func (m *Form) page(by int) {
	if at := m.selected(); at >= 0 && len(m.rows()[at].Detail) > 0 {
		m.lists.down = max(m.lists.down+by*max(m.lists.page-1, 1), 0)
		return
	}
	m.choose(by * max(m.lists.page-1, 1))
}

func (m *Form) wheel(msg tea.MouseWheelMsg) {
	by := 3
	if msg.Button == tea.MouseWheelUp {
		by = -3
	}
	if m.review.open {
		m.review.scroll(by)
		return
	}
	m.choose(by / 3)
}

// valuesRead is the text to edit.
type valuesRead struct {
	text string
	err  error
}

// openValues reads the values and opens them in the user's editor.
func (m *Form) openValues() tea.Cmd {
	in, ctx, source := m.input(), m.ctx, m.o.Source
	m.back()
	return func() tea.Msg {
		text, err := source.Values(ctx, in)
		return valuesRead{text, err}
	}
}

func (m *Form) edit(msg valuesRead) tea.Cmd {
	if msg.err != nil {
		return m.Say(theme.Bad, "cannot edit the values: "+msg.err.Error())
	}
	m.values.text = msg.text
	return edit.Open(m.ctx, msg.text, m.o.AtQuit)
}

// read saves the edited values. They replace a file that was edited here before only if they were made from it.
func (m *Form) read(msg edit.EditorClosed) tea.Cmd {
	switch {
	case msg.Err != nil:
		return m.Say(theme.Bad, msg.Err.Error())
	case msg.Values == m.values.text:
		return m.Say(theme.Quiet, "nothing changed")
	}
	path := ""
	if in := m.input(); in.Values == m.values.saved {
		path = in.Values
	}
	path, err := m.o.Source.Save(m.input().Name, path, m.values.text, msg.Values)
	if err != nil {
		return m.Say(theme.Bad, "cannot save the values: "+err.Error())
	}
	m.values.saved = path
	for n, e := range m.fields {
		if e.field == Values {
			e.input.SetValue(path)
			delete(m.lists.known, key(m.input(), Values)) // there is a new file
			e.input.CursorEnd()
			m.lists.reset()
			m.focusOn(n)
		}
	}
	return tea.Batch(m.suggest(), m.Say(theme.Good, "values saved to "+path))
}

// copyCommand copies the command to the clipboard of the terminal.
func (m *Form) copyCommand() tea.Cmd {
	return tea.Batch(tea.SetClipboard(shell(m.review.in.ShownArgs())), m.Say(theme.Quiet, "command copied"))
}

// shell returns a command as one types it.
func shell(args []string) string {
	words := []string{text.Program}
	for _, a := range args {
		words = append(words, text.ShellWord(a))
	}
	return canvas.Clean(strings.Join(words, " "))
}
