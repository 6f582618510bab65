package board

import (
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/graph"
)

// filter leaves only the groups and objects on the board that a query is
// about: every word of it has to occur in the name, the kind or the status.
type filter struct {
	input  textinput.Model
	words  []string
	groups map[event.Unit]bool // what is shown, nil without a query
	whole  map[event.Unit]bool // groups that match as such, with all their objects
}

func newFilter() filter {
	in := textinput.New()
	in.Prompt = ""
	in.SetVirtualCursor(false)
	return filter{input: in}
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
	f.words = strings.Fields(strings.ToLower(f.input.Value()))
	if !f.on() {
		f.groups, f.whole = nil, nil
		return
	}
	f.groups, f.whole = map[event.Unit]bool{}, map[event.Unit]bool{}
	for _, n := range m.Graph.Nodes {
		head := strings.ToLower(n.ID + " " + n.Phase + " " + n.Name + " " + m.GroupMark(n).Word)
		if f.holds(head) {
			f.groups[n.Unit()], f.whole[n.Unit()] = true, true
			continue
		}
		for _, o := range n.Objects {
			if m.matchesObject(n, o) {
				f.groups[n.Unit()] = true
				break
			}
		}
	}
}

func (f *filter) holds(text string) bool {
	for _, w := range f.words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func (m *model) matchesObject(n *graph.Node, o *event.ObjectState) bool {
	return m.filter.holds(strings.ToLower(o.Object.String() + " " + m.ObjectMark(n, o).Word))
}

// shown reports whether a group is on the board.
func (m *model) shown(n *graph.Node) bool { return m.filter.groups == nil || m.filter.groups[n.Unit()] }

// shownObjects are the objects of a group that are on the board.
func (m *model) shownObjects(n *graph.Node) []*event.ObjectState {
	if m.filter.groups == nil || m.filter.whole[n.Unit()] {
		return n.Objects
	}
	var out []*event.ObjectState
	for _, o := range n.Objects {
		if m.matchesObject(n, o) {
			out = append(out, o)
		}
	}
	return out
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
