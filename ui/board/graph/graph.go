// Package graph arranges the groups of an operation in columns, routes the edges between them, and
// shortens names. The arrangement depends only on the plan, not on the progress of the run. Its central types
// are Graph, Column and Node. All packages of the board except canvas and keys may import it.
package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
)

// The widths of a card.
const (
	narrowCard = TightCard // for hooks
	MinCard    = 24
	// releaseCard holds "3 of 12 objects ready" and the glyphs of some groups.
	releaseCard = 34
	MaxCard     = 40
	// WideCard is the widest card on a screen with room left, for reasons.
	WideCard = 60
	// maxWaits is the widest card for the names of the groups that a group waits for, if there is room.
	maxWaits  = 50
	TightCard = 20 // the narrowest readable card, without padding
)

// Graph is the part of the board that does not change during a run: columns, the place of each
// group in them, and edges. It is rebuilt when the plan changes.
type Graph struct {
	Nodes []*Node // in plan order
	Cols  []*Column
	ByKey map[event.Unit]*Node
	short map[string]string // short names by group ID
	Nets  []*Net            // by column
	Lanes int               // rows for edges that skip columns, if all are side by side

	// ShortKinds means that the screen writes kubectl's short kinds, since longer ones do not fit all cards.
	ShortKinds bool

	release string // most objects' names start with it
	charts  bool   // its groups are from several charts
	removes bool   // the operation deletes all groups, or its groups are releases
}

// severalCharts reports whether the groups, apart from those that are from no chart, are from several charts.
func severalCharts(s *event.State) bool {
	charts := map[string]bool{}
	for g := range s.GroupStates() {
		if g.Chart != "" {
			charts[g.Chart] = true
		}
	}
	return len(charts) > 1
}

// DeletePrefix precedes the name of a group that is deleted, unless the operation deletes all.
const DeletePrefix = "delete "

// Column is a phase, or a layer of one.
type Column struct {
	// Title is that of the phase or layer, ShortTitle the one for a narrow column.
	Title, ShortTitle string
	Phase             *event.PhaseState
	Nodes             []*Node
	// Prefix is the common prefix of its groups' names.
	Prefix string
	// Width is the preferred width of its cards, Gutter the width of the edges to its
	// right.
	Width, Gutter int
	// NameWidth is the least width that holds the names of its groups with short kinds, ObjectWidth also those of their objects, and
	// LongWidth those with long kinds.
	NameWidth, ObjectWidth, LongWidth int
	// WaitsWidth is at least Width, and holds what its groups wait for.
	WaitsWidth int
	// The number of nets that leave its nodes, that enter them, and of those the ones that skip columns; tracks
	// is how many lines its gutter holds.
	leaving, entering, dropping, tracks int
}

// Node is a group on the board.
type Node struct {
	*event.GroupState
	Kind  event.PhaseKind
	Name  string // the board's short name
	index int    // in plan order
	Col   int
	// Ins are the nodes it waits for, Outs those that wait for it, without transitive
	// edges.
	Ins, Outs []*Node
	styles    []NameStyle
	release   string
	// Outcome is the effect of a rollback, Undone the objects that the rollback has reached, with their states
	// in it, Degraded the number of degraded objects. Package picture sets them.
	Outcome  string
	Undone   map[plan.Object]*event.ObjectState
	Degraded int
}

// New arranges the phases of a state in columns.
func New(s *event.State) Graph {
	g := Graph{ByKey: map[event.Unit]*Node{}, short: map[string]string{}, release: s.Operation.Release}
	g.charts, g.removes = severalCharts(s), s.Operation.Name == "uninstall" || s.Operation.IsStack()
	for _, phase := range s.Phases {
		g.addPhase(phase)
	}
	for _, c := range g.Cols {
		c.Width, c.WaitsWidth = preferredWidths(c)
		g.measureNames(c)
		c.Prefix = commonNamePrefix(c)
		if s.Operation.IsStack() {
			for _, w := range []*int{&c.Width, &c.ObjectWidth, &c.LongWidth} {
				*w = max(*w, releaseCard)
			}
		}
	}
	g.route()
	return g
}

func (g *Graph) addPhase(phase *event.PhaseState) {
	own := make([]*Node, len(phase.Groups))
	groups := make([]*plan.Group, len(phase.Groups))
	for i, group := range phase.Groups {
		own[i] = &Node{GroupState: group, Kind: phase.Kind, Name: g.shortName(phase, group.Group), index: len(g.Nodes) + i, release: g.release}
		groups[i] = group.Group
		g.ByKey[own[i].Unit()] = own[i]
		if _, applied := g.short[group.ID]; !applied {
			g.short[group.ID] = own[i].Name
		}
		if phase.Kind == event.PhaseRemove && !g.removes {
			own[i].Name = DeletePrefix + own[i].Name
		}
	}
	g.Nodes = append(g.Nodes, own...)
	layered := phase.Kind == event.PhaseApply || phase.Kind == event.PhaseRemove
	layer := map[string]int{}
	if layered {
		g.connect(phase.Name, own, groups)
		layer = plan.Layers(groups)
	}
	first := len(g.Cols)
	for _, n := range own {
		for len(g.Cols) <= first+layer[n.ID] {
			c := &Column{Title: event.PhaseTitle(phase.Name, phase.Kind), Phase: phase}
			c.ShortTitle = c.Title
			if number := len(g.Cols) - first; layered {
				c.Title = event.LayerTitle(phase.Name, phase.Kind, number)
				c.ShortTitle = event.ShortLayerTitle(phase.Name, phase.Kind, number)
			}
			g.Cols = append(g.Cols, c)
		}
		n.Col = first + layer[n.ID]
		g.Cols[n.Col].Nodes = append(g.Cols[n.Col].Nodes, n)
	}
	for _, c := range g.Cols[first:] {
		untangle(c.Nodes)
	}
}

// connect links the nodes of a phase by what they wait for.
func (g *Graph) connect(phase string, own []*Node, groups []*plan.Group) {
	after := plan.Reduce(groups)
	for _, n := range own {
		for _, id := range after[n.ID] {
			if up := g.ByKey[event.Unit{Phase: phase, Group: id}]; up != nil && up != n {
				n.Ins = append(n.Ins, up)
				up.Outs = append(up.Outs, n)
			}
		}
	}
}

// untangle sorts the nodes of a column by the mean position of their dependencies, so that fewer
// edges cross. Plan order breaks ties.
func untangle(nodes []*Node) {
	mean := func(n *Node) float64 {
		sum := 0
		for _, up := range n.Ins {
			sum += up.index
		}
		return float64(sum) / float64(max(len(n.Ins), 1))
	}
	slices.SortStableFunc(nodes, func(a, b *Node) int { return cmp.Compare(mean(a), mean(b)) })
}

// shortName returns a group's short name: without its chart if that is the only one. A hook is named after its object.
func (g *Graph) shortName(phase *event.PhaseState, group *plan.Group) string {
	ordered := phase.Kind == event.PhaseApply || phase.Kind == event.PhaseRemove
	switch {
	case ordered && group.Chart != "" && !g.charts:
		return plan.ShortID(group.Name)
	case ordered:
		return plan.ShortID(group.ID)
	case len(group.Objects) == 1:
		return ShortObject(group.Objects[0])
	}
	return cmp.Or(group.Name, group.ID)
}

// preferredWidths returns the preferred width of a column's cards, without and with what its groups wait for. They depend only on
// names, so that nothing moves during the run.
func preferredWidths(c *Column) (w, waits int) {
	w = narrowCard
	for _, n := range c.Nodes {
		w = max(w, canvas.Width(n.Name)+len(strconv.Itoa(len(n.Objects)))*2+10)
		if n.Single() {
			continue
		}
		w = max(w, MinCard)
		for _, o := range n.Objects[:min(len(n.Objects), 64)] {
			w = max(w, canvas.Width(ShortObject(o.Object))+12)
		}
		all := len("waits for ") + 4 // the border and its padding
		for i, up := range n.Ins {
			w = max(w, canvas.Width(up.Name)+10)
			all += canvas.Width(up.Name) + min(i, 1)*len(", ")
		}
		waits = max(waits, all)
	}
	w = min(w, MaxCard)
	return w, max(w, min(waits, maxWaits))
}

// measureNames sets the least widths of a column's cards that hold the names of its groups, and those of their objects.
func (g *Graph) measureNames(c *Column) {
	widen := func(w *int, name string) { *w = min(max(*w, canvas.Width(name)+6), MaxCard) } // the border, its padding and the glyph
	for _, n := range c.Nodes {
		widen(&c.NameWidth, g.ShortName(n))
		for _, o := range n.Objects[:min(len(n.Objects), maxMeasured)] {
			widen(&c.ObjectWidth, shortestName(o.Object))
			widen(&c.LongWidth, ShortObject(o.Object))
		}
	}
	c.ObjectWidth = max(c.ObjectWidth, c.NameWidth)
	c.LongWidth = max(c.LongWidth, c.ObjectWidth)
}

func commonNamePrefix(c *Column) string {
	names := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		if n.Single() {
			return ""
		}
		names[i] = canvas.Clean(n.Name)
	}
	return CommonPrefix(names, ":/-.")
}

// Single reports whether a group has one object and is named after it, like a hook. Its card does
// not repeat the name.
func (n *Node) Single() bool {
	return len(n.Objects) == 1 && n.Name == ShortObject(n.Objects[0].Object)
}

// Count returns the number of objects that are done and of all, "2/3".
func (n *Node) Count() string { return fmt.Sprintf("%d/%d", n.Reached(), len(n.Objects)) }

// Followers returns all groups that wait for one, directly or indirectly.
func (g *Graph) Followers(n *Node) []*Node {
	seen := map[*Node]bool{}
	var walk func(*Node)
	walk = func(n *Node) {
		for _, d := range n.Outs {
			if !seen[d] {
				seen[d] = true
				walk(d)
			}
		}
	}
	walk(n)
	return g.Select(func(d *Node) bool { return seen[d] })
}

// Select returns the nodes that satisfy a condition, in plan order.
func (g *Graph) Select(is func(*Node) bool) []*Node {
	var out []*Node
	for _, n := range g.Nodes {
		if is(n) {
			out = append(out, n)
		}
	}
	return out
}

// Shorten replaces group IDs in a message with the board's short names, and kinds if the screen writes short ones.
func (g *Graph) Shorten(message string) string {
	words := strings.Split(message, " ")
	for i, w := range words {
		id := strings.TrimRight(w, ":,;")
		kind, name, isObject := strings.Cut(id, "/")
		if short, ok := g.short[id]; ok {
			words[i] = short + w[len(id):]
		} else if short := shortestKinds[kind]; isObject && g.ShortKinds && short != "" {
			words[i] = short + "/" + name + w[len(id):]
		}
	}
	return strings.Join(words, " ")
}

// Removing reports whether objects of the group are deleted or being deleted.
func (n *Node) Removing() bool {
	return slices.ContainsFunc(n.Objects, func(o *event.ObjectState) bool { return o.Status == event.Gone || o.Status == event.Deleting })
}

// InRollback reports whether the group belongs to the phases of a rollback.
func (n *Node) InRollback() bool { return event.IsRollback(n.Phase) }
