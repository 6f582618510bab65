package board

import (
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/graph"
)

// filter leaves only the groups and objects on the board that a query is
// about: every word of it has to occur in the name, the kind or the status.
type filter struct {
	input  textinput.Model
	words  []word
	groups map[event.Unit]bool // what is shown, nil without a query
	whole  map[event.Unit]bool // groups that match as such, with all their objects
	// objects are those that match in the other groups that are shown.
	objects map[event.Unit][]*event.ObjectState
	names   map[event.Unit][]label
}

// word is one of a query; status tells that one for a status may hold it.
type word struct {
	text   string
	status bool
}

// label is an object's name as the filter compares it, which is made once: there may
// be many objects, and they are compared for every frame.
type label struct {
	object plan.Object
	text   string
}

func newFilter() filter { return filter{input: newInput()} }

// newInput is a line to type into, drawn by whoever shows it.
func newInput() textinput.Model {
	in := textinput.New()
	in.Prompt = ""
	in.SetVirtualCursor(false)
	return in
}

func (f *filter) on() bool { return len(f.words) > 0 }

// typeFilter takes a key or a paste into the query.
func (m *model) typeFilter(msg tea.Msg) tea.Cmd {
	if k, ok := msg.(tea.KeyPressMsg); ok {
		switch k.String() {
		case "enter", "down", "tab":
			m.typing = false
			m.filter.input.Blur()
			return nil
		case "esc":
			m.typing = false
			m.clearFilter()
			return nil
		case "ctrl+c":
			m.typing = false
			m.filter.input.Blur()
			return m.askAbort()
		}
	}
	var cmd tea.Cmd
	m.filter.input, cmd = m.filter.input.Update(msg)
	m.stale = true
	m.match()
	m.keepShown()
	return cmd
}

func (m *model) clearFilter() {
	m.filter.input.SetValue("")
	m.filter.input.Blur()
	m.match()
	m.show()
}

// match looks up what the query is about. It is called when the query or the
// state has changed, not for every frame.
func (m *model) match() {
	f := &m.filter
	f.words = f.words[:0]
	for _, w := range strings.Fields(strings.ToLower(f.input.Value())) {
		f.words = append(f.words, word{w, theme.MayBeStatus(w)})
	}
	f.groups, f.whole, f.objects = nil, nil, nil
	if !f.on() {
		f.names = nil
		return
	}
	if f.names == nil {
		f.names = map[event.Unit][]label{}
	}
	f.groups, f.whole, f.objects = map[event.Unit]bool{}, map[event.Unit]bool{}, map[event.Unit][]*event.ObjectState{}
	for _, n := range m.Graph.Nodes {
		head := strings.ToLower(n.ID + " " + n.Phase + " " + n.Name)
		if f.holds(head, func() string { return m.GroupMark(n).Word }) {
			f.groups[n.Unit()], f.whole[n.Unit()] = true, true
		} else if found := m.matching(n); len(found) > 0 {
			f.groups[n.Unit()], f.objects[n.Unit()] = true, found
		}
	}
}

// matching are the objects of a group that match.
func (m *model) matching(n *graph.Node) []*event.ObjectState {
	f := &m.filter
	names := f.names[n.Unit()]
	var found []*event.ObjectState
	for i, o := range n.Objects {
		if i == len(names) {
			names = append(names, label{})
		}
		if names[i].object != o.Object {
			names[i] = label{o.Object, strings.ToLower(o.Object.String())}
		}
		if f.holds(names[i].text, func() string { return m.ObjectMark(n, o).Word }) {
			found = append(found, o)
		}
	}
	f.names[n.Unit()] = names
	return found
}

// holds reports whether each word of the query is in a name, or in the word for a
// status, which is asked for where that could be so.
func (f *filter) holds(name string, status func() string) bool {
	is := ""
	for _, w := range f.words {
		if strings.Contains(name, w.text) {
			continue
		}
		if !w.status {
			return false
		}
		if is == "" {
			is = strings.ToLower(status())
		}
		if !strings.Contains(is, w.text) {
			return false
		}
	}
	return true
}

// shown reports whether a group is on the board.
func (m *model) shown(n *graph.Node) bool { return m.filter.groups == nil || m.filter.groups[n.Unit()] }

// shownObjects are the objects of a group that are on the board.
func (m *model) shownObjects(n *graph.Node) []*event.ObjectState {
	if m.filter.groups == nil || m.filter.whole[n.Unit()] {
		return n.Objects
	}
	return m.filter.objects[n.Unit()]
}

// keepShown moves the selection to a group that is on the board, where the
// filter has taken the selected one away.
func (m *model) keepShown() {
	if n := m.group(); n != nil && m.shown(n) {
		m.show()
		return
	}
	for _, n := range m.Graph.Nodes {
		if m.shown(n) {
			m.selectNode(n)
			return
		}
	}
}
