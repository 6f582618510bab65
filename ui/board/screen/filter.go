package screen

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/graph"
)

// Filter limits the board to the groups and objects that match a query: every word must occur in the
// name, the kind or the status.
type Filter struct {
	Query   string
	words   []word
	groups  map[event.Unit]bool                 // visible groups, nil without a query
	whole   map[event.Unit]bool                 // groups that match themselves: all their objects are visible
	objects map[event.Unit][]*event.ObjectState // matching objects of other visible groups
	names   map[event.Unit][]label
}

// word is a word of a query; status means that it may match a status.
type word struct {
	text   string
	status bool
}

// label caches an object's name in lower case.
type label struct {
	object plan.Object
	text   string
}

func (f *Filter) On() bool { return len(f.words) > 0 }

// SetFilter sets the query; an empty one shows everything.
func (s *Screen) SetFilter(query string) {
	s.Filter.Query = query
	s.Refilter()
}

// Refilter computes the matches. It is called when the query or the state changes, not for every
// frame.
func (s *Screen) Refilter() {
	f := &s.Filter
	f.words = f.words[:0]
	for w := range strings.FieldsSeq(strings.ToLower(f.Query)) {
		f.words = append(f.words, word{w, theme.MayBeStatus(w)})
	}
	if !f.On() {
		*f = Filter{Query: f.Query}
		return
	}
	if f.names == nil {
		f.names = map[event.Unit][]label{}
	}
	f.groups, f.whole, f.objects = map[event.Unit]bool{}, map[event.Unit]bool{}, map[event.Unit][]*event.ObjectState{}
	for _, n := range s.Graph.Nodes {
		head := strings.ToLower(n.ID + " " + n.Phase + " " + n.Name)
		if f.matches(head, func() string { return s.GroupMark(n).Word }) {
			f.groups[n.Unit()], f.whole[n.Unit()] = true, true
		} else if found := s.matching(n); len(found) > 0 {
			f.groups[n.Unit()], f.objects[n.Unit()] = true, found
		}
	}
}

// matching returns the objects of a group that match the query.
func (s *Screen) matching(n *graph.Node) []*event.ObjectState {
	f := &s.Filter
	names := f.names[n.Unit()]
	var found []*event.ObjectState
	for i, o := range n.Objects {
		if i == len(names) {
			names = append(names, label{})
		}
		if names[i].object != o.Object {
			names[i] = label{o.Object, strings.ToLower(o.Object.String())}
		}
		if f.matches(names[i].text, func() string { return s.ObjectMark(n, o).Word }) {
			found = append(found, o)
		}
	}
	f.names[n.Unit()] = names
	return found
}

// matches reports whether each word of the query is in a name or in the word for a status; status is
// called only if needed.
func (f *Filter) matches(name string, status func() string) bool {
	is := ""
	for _, w := range f.words {
		if strings.Contains(name, w.text) {
			continue
		}
		if w.status && is == "" {
			is = strings.ToLower(status())
		}
		if !w.status || !strings.Contains(is, w.text) {
			return false
		}
	}
	return true
}

// Shown reports whether a group is on the board.
func (s *Screen) Shown(n *graph.Node) bool {
	if s.Half && n.InRollback() == s.undone() {
		return false
	}
	return s.Filter.groups == nil || s.Filter.groups[n.Unit()]
}

// undone reports whether the operation's own groups show the result of its rollback.
func (s *Screen) undone() bool { return s.Over() && !s.State.RollbackFailed() }

// AllObjects reports whether all objects of a group are on the board.
func (f *Filter) AllObjects(n *graph.Node) bool { return f.groups == nil || f.whole[n.Unit()] }

// ShownObjects returns the objects of a group that are on the board.
func (s *Screen) ShownObjects(n *graph.Node) []*event.ObjectState {
	if s.Filter.AllObjects(n) {
		return n.Objects
	}
	return s.Filter.objects[n.Unit()]
}

// Visible returns the groups on the board, in plan order.
func (s *Screen) Visible() []*graph.Node { return s.Graph.Select(s.Shown) }

// Matches returns how many of the groups are on the board, "" without a filter.
func (s *Screen) Matches() string {
	if !s.Filter.On() {
		return ""
	}
	return fmt.Sprintf("%d of %d", len(s.Filter.groups), len(s.Graph.Nodes))
}
