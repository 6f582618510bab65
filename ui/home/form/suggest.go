package form

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// suggestLimit is how long the form waits for suggestions, which may come from a repository.
const suggestLimit = 10 * time.Second

var errNoAnswer = fmt.Errorf("no answer within %s", suggestLimit)

// lists are the suggestions for the field with the focus.
type lists struct {
	known map[string]answer // by key
	row   int               // the selected row; -1 if the typed text counts
	moved bool              // the user has moved to the row
	typed bool              // the typed text counts, without its completion
	top   int               // the first visible row
	page  int               // how many rows the last frame showed
	down  int               // how far the detail is scrolled
}

// answer is the answer to a question, which its key identifies.
type answer struct {
	key  string
	list []Suggestion
	err  error
	done bool
}

func (l *lists) reset() { l.row, l.moved, l.typed, l.top, l.down = 0, false, false, 0, 0 }

// key identifies the suggestions for a field: what they depend on. Those for files depend on the typed folder.
func key(in Input, f Field) string {
	words := []string{labels[f]}
	switch f {
	case Name:
		words = append(words, in.Namespace)
	case Chart:
		words = append(words, in.Namespace, in.Name, folder(in.Chart))
	case Version:
		words = append(words, in.Chart)
	case Values:
		words = append(words, in.Namespace, in.Name, in.Chart, folder(in.Values))
	case Revision:
		words = append(words, in.Namespace, in.Name)
	}
	return strings.Join(words, "\x00")
}

// folder returns the folder of a typed path, with the slash, "" for the current one.
func folder(typed string) string {
	dir, _ := path.Split(typed[strings.LastIndex(typed, ",")+1:])
	return strings.TrimPrefix(dir, "./")
}

// suggest looks up the suggestions for the field with the focus, which namespaces exist, and, unless the user is typing one, the
// releases in the namespace, whose revision is shown.
func (m *Form) suggest() tea.Cmd {
	f := m.current().field
	if f == Namespace {
		return m.ask(f)
	}
	return tea.Batch(m.ask(f), m.ask(Namespace), m.ask(Name))
}

func (m *Form) ask(f Field) tea.Cmd {
	in := m.input()
	k := key(in, f)
	if _, asked := m.lists.known[k]; asked || f == Keep {
		return nil
	}
	m.lists.known[k] = answer{}
	ctx, source := m.ctx, m.o.Source
	return func() tea.Msg {
		ctx, cancel := context.WithTimeoutCause(ctx, suggestLimit, errNoAnswer)
		defer cancel()
		list, err := source.Suggest(ctx, in, f)
		return answer{k, list, err, true}
	}
}

// found returns the answer for the field with the focus.
func (m *Form) found() answer { return m.lists.known[key(m.input(), m.current().field)] }

// rows returns the suggestions that match the typed text: one that is called so in its folder, those that start with it, then
// those that contain it. A suggestion that was typed in full hides no other.
func (m *Form) rows() []Suggestion {
	e := m.current()
	if e.field == Keep {
		return keepRows
	}
	all, typed := m.found().list, strings.ToLower(last(e))
	exact := slices.ContainsFunc(all, func(s Suggestion) bool { return strings.ToLower(s.Value) == typed })
	if typed == "" || exact {
		return all
	}
	var called, start, within []Suggestion
	for _, s := range all {
		low := strings.ToLower(s.Value)
		switch name := path.Base(low); {
		case name == typed:
			called = append(called, s)
		case strings.HasPrefix(low, typed), strings.HasPrefix(name, typed):
			start = append(start, s)
		case strings.Contains(low, typed):
			within = append(within, s)
		}
	}
	return slices.Concat(called, start, within)
}

// keepRows are the choices for Keep.
var keepRows = []Suggestion{
	{Value: "replaced", About: "as in Helm: only the new values and the chart's defaults count"},
	{Value: yes, About: "--reuse-values: the values of the last revision, with the new ones on top"},
}

// last returns the part of the text that suggestions complete: the last file of several.
func last(e *entry) string {
	text := e.input.Value()
	if e.field == Values {
		text = text[strings.LastIndex(text, ",")+1:]
	}
	return strings.TrimSpace(text)
}

// completion returns the rest of the first suggestion that starts with the typed text, which enter and tab take.
func (m *Form) completion() string {
	typed, rows := last(m.current()), m.rows()
	if typed == "" || len(rows) == 0 || m.lists.typed || m.current().field == Keep || m.current().untouched {
		return ""
	}
	rest, _ := strings.CutPrefix(rows[0].Value, typed)
	if rest == rows[0].Value {
		return ""
	}
	return rest
}

// selected returns the row that enter takes, -1 if the typed text counts.
func (m *Form) selected() int {
	rows := m.rows()
	e := m.current()
	switch {
	case len(rows) == 0:
		return -1
	case m.lists.moved:
		return min(m.lists.row, len(rows)-1)
	}
	text := last(e)
	if e.field == Keep {
		text = e.input.Value()
	}
	if at := slices.IndexFunc(rows, func(s Suggestion) bool { return s.Value == text }); at >= 0 {
		return at
	}
	if m.guesses() {
		return 0
	}
	if text == "" && e.field.needed() || e.field == Keep {
		return max(slices.IndexFunc(rows, func(s Suggestion) bool { return s.Best }), 0)
	}
	return -1
}

// guesses reports whether enter takes the first suggestion, because the typed text is its start. A typed chart can also be any part
// of it: no chart has a name without a folder, a repository or a scheme.
func (m *Form) guesses() bool {
	e := m.current()
	part := e.field == Chart && last(e) != "" && !strings.ContainsAny(last(e), "/:")
	return m.completion() != "" || part && len(m.rows()) > 0 && !m.lists.typed && !e.untouched
}

// choose moves over the rows.
func (m *Form) choose(by int) {
	rows := len(m.rows())
	if rows == 0 {
		return
	}
	at := m.selected()
	if at < 0 && by > 0 {
		by--
	}
	m.lists.row, m.lists.moved, m.lists.down = min(max(max(at, 0)+by, 0), rows-1), true, 0
}

// take puts the selected row into the field. It reports whether a row was selected.
func (m *Form) take() bool {
	at, e := m.selected(), m.current()
	if at < 0 {
		return false
	}
	e.taken = m.rows()[at]
	value := e.taken.Value
	if e.field == Keep && value != yes {
		value = ""
	}
	if e.field == Values {
		text := e.input.Value()
		value = text[:strings.LastIndex(text, ",")+1] + value
	}
	e.input.SetValue(value)
	e.input.CursorEnd()
	m.lists.reset()
	return true
}

// prefill fills in the chart that the release was upgraded with last, unless the user was faster.
func (m *Form) prefill() tea.Cmd {
	e, best := m.current(), func(s Suggestion) bool { return s.Best }
	if m.o.Operation != Upgrade || e.field != Chart || e.input.Value() != "" || m.lists.moved || e.offered || !slices.ContainsFunc(m.found().list, best) {
		return nil
	}
	e.offered, e.untouched = true, m.take()
	return m.suggest()
}

// isNew reports whether the namespace of a command is not among the existing ones, as far as they are known.
func (l *lists) isNew(in Input) bool {
	a := l.known[key(in, Namespace)]
	return a.done && a.err == nil && in.Namespace != "" && !offers(a.list, in.Namespace)
}

// offers reports whether a value is one of the suggestions.
func offers(list []Suggestion, value string) bool {
	return slices.ContainsFunc(list, func(s Suggestion) bool { return s.Value == value })
}
