// Package form asks for the few arguments that an operation needs, shows its plan in full, and ends with the command to
// run, or with nothing. Its central types are Form, a mode that covers the screen that it is opened on, and Source, which looks
// up what can be chosen and makes the plan. A form writes nothing to the cluster. Like the board, it knows neither Kubernetes
// nor Helm.
package form

import (
	"context"
	"slices"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/page"
	"lockstep/ui/board/screen"
)

// Source looks up what a form offers. Its methods run in other goroutines and return soon after ctx is done. They may
// return any text: the form cleans it.
type Source interface {
	// Suggest returns what can be chosen for a field, the best first.
	Suggest(ctx context.Context, in Input, field Field) ([]Suggestion, error)
	// Plan returns the plan of a command. args is a command line without the name of the program.
	Plan(ctx context.Context, args []string) (Plan, error)
	// SavePlan saves the plan of a command in a new file, and returns its path.
	SavePlan(ctx context.Context, in Input) (string, error)
	// Values returns the text to edit: the chosen values, or those of the last revision. It is not masked, because only the
	// user's own editor shows it.
	Values(ctx context.Context, in Input) (string, error)
	// Save writes values to the file at path if that still has the content was, else to a new one named after the release, and
	// returns its path.
	Save(release, path, was, text string) (string, error)
}

// Suggestion is a value that can be chosen.
type Suggestion struct {
	Value string
	About string
	Best  bool // selected at first
	// Detail says more while the value is selected.
	Detail []Line
}

// Line is a line of a plan or of a list of changes.
type Line struct {
	Indent int
	Role   theme.Role
	Text   string
}

// Plan is the plan of a command.
type Plan struct {
	Lines   []Line   // as "lockstep plan" prints them, warnings first
	Counts  []Count  // of the changes
	Deletes []string // objects that the command deletes
	// Refused means that lockstep would refuse the command; Lines say why.
	Refused bool
	// Foreign are the objects of other releases, or of nobody, because of which lockstep would refuse the command.
	Foreign []string
	// Conflicts means that other managers own fields that the command sets.
	Conflicts bool
	// Unordered means that the chart declares no order of its objects.
	Unordered bool
}

// Count is a number of changes: 3 "to create".
type Count struct {
	N    int
	Text string
}

// Options say what to ask for.
type Options struct {
	Input
	Source Source
	// Context names the cluster.
	Context string
	// AtQuit registers a function to call if the program exits at once. May be nil.
	AtQuit func(func()) (undo func())
	// Done is called once, when the form is over: with the command to run, without the name of the program, or with nil if the
	// user cancelled.
	Done func(args []string) tea.Cmd
}

// Form is a form. It is a keys.Mode and a keys.Cursor.
type Form struct {
	*screen.Screen
	ctx    context.Context
	o      Options
	fields []*entry
	focus  int
	lists  lists
	review review
	direct bool // the plan was made at once, and the fields have nothing else to choose: the user has never seen them
	values struct {
		text  string // in the user's editor
		saved string // the file with the values edited in this form, "" without one
	}
	taking []string // the objects of others that the command takes over, until the user returns to the fields
	help   *page.Page
	at     *canvas.Rect // where the user types; nil: nowhere
}

// entry is a field and its input.
type entry struct {
	field     Field
	input     textinput.Model
	taken     Suggestion // the last one that was taken
	offered   bool       // the form has filled it in once
	untouched bool       // it has a text, and the user has edited nothing since it has the focus: what is typed replaces the text
}

// New returns a form for Options.Operation, with the given fields filled in. The first empty field that is needed has the
// focus. Everything that the form looks up ends with ctx. The caller runs Init.
func New(ctx context.Context, s *screen.Screen, o Options) *Form {
	m := &Form{Screen: s, ctx: ctx, o: o}
	m.lists.known = map[string]answer{}
	m.help = page.New(s, "keys", helpLines)
	m.help.Columns = true
	for _, f := range fieldsOf[o.Operation] {
		in := keys.NewInput()
		in.SetValue(o.Input.Get(f))
		in.CursorEnd()
		m.fields = append(m.fields, &entry{field: f, input: in})
	}
	m.focusOn(max(m.missing(), 0))
	return m
}

// Init asks for the suggestions of the first field. If nothing is missing, it makes the plan.
func (m *Form) Init() tea.Cmd {
	if m.missing() < 0 {
		m.direct = !m.hasValues()
		return tea.Batch(m.suggest(), m.plan())
	}
	return m.suggest()
}

// input returns what the fields say.
func (m *Form) input() Input {
	in := m.o.Input
	for _, e := range m.fields {
		in.Set(e.field, e.input.Value())
	}
	if m.taking != nil {
		in.Flags, in.Shown = append(slices.Clone(in.Flags), takeOwnership), append(slices.Clone(in.Shown), takeOwnership)
	}
	in.NewNamespace = in.Operation == Install && m.lists.isNew(in)
	return in
}

// current returns the field with the focus.
func (m *Form) current() *entry { return m.fields[m.focus] }

// missing returns the index of the first empty field that the command needs, -1 if there is none.
func (m *Form) missing() int {
	for n, e := range m.fields {
		if e.field.needed() && e.input.Value() == "" {
			return n
		}
	}
	return -1
}

// shown reports whether a field applies now.
func (m *Form) shown(f Field) bool {
	in := m.input()
	return f != Keep || in.canKeep()
}

func (m *Form) focusOn(n int) {
	m.current().input.Blur()
	m.focus = n
	m.current().input.Focus()
	m.current().untouched = m.current().input.Value() != ""
	m.lists.reset()
	if m.found().err != nil { // suggest tries again
		delete(m.lists.known, key(m.input(), m.current().field))
	}
}

// move moves the focus over the fields that apply.
func (m *Form) move(by int) tea.Cmd {
	n := m.focus
	for range m.fields {
		if n = (n + by + len(m.fields)) % len(m.fields); m.shown(m.fields[n].field) {
			break
		}
	}
	m.focusOn(n)
	return m.suggest()
}

// Update handles the keys without a binding, pastes, the wheel and the form's own messages.
func (m *Form) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.KeyPressMsg, tea.PasteMsg:
		return m.typed(msg)
	case tea.MouseWheelMsg:
		m.wheel(msg)
	case answer:
		m.lists.known[msg.key] = msg
		return m.prefill()
	case planned:
		m.planned(msg)
	case planSaved:
		return m.planSaved(msg)
	case valuesRead:
		return m.edit(msg)
	case edit.EditorClosed:
		return m.read(msg)
	}
	return nil
}

// typed passes a key or a paste to the input with the focus.
func (m *Form) typed(msg tea.Msg) (cmd tea.Cmd) {
	if m.review.confirming {
		m.review.name, cmd = m.review.name.Update(msg)
		return cmd
	}
	if m.review.open || m.current().field == Keep {
		return nil
	}
	e := m.current()
	was := e.input.Value()
	if key, ok := msg.(tea.KeyPressMsg); e.untouched && (!ok || key.Text != "") && !(e.field == Values && key.Text == ",") { // a comma adds a file
		e.input.SetValue("")
	}
	e.untouched = false
	e.input, cmd = e.input.Update(msg)
	if e.input.Value() != was {
		m.lists.reset()
		return tea.Batch(cmd, m.suggest())
	}
	return cmd
}

// end ends the form.
func (m *Form) end(args []string) tea.Cmd {
	m.review.stop()
	return m.o.Done(args)
}

// cancel ends the form without a command.
func (m *Form) cancel() tea.Cmd { return m.end(nil) }
