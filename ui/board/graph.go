package board

import (
	"cmp"
	"lockstep/ui/board/canvas"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// How wide a card is.
const (
	narrowCard = 20 // of a hook
	minCard    = 24
	maxCard    = 40
	// A tight card has no air inside of its borders. It is as wide as the
	// names of its groups need, within these bounds.
	tightCard    = 15 // "never started" in its border
	maxTightCard = 16
)

// graph is what of the board does not change while the operation runs: columns,
// the place of each group in them, edges. It is made anew when phases are
// announced.
type graph struct {
	nodes []*node // in plan order
	cols  []*column
	byKey map[event.Unit]*node
	short map[string]string // ids as they are shown
	lanes int               // rows that edges past columns need
	// release begins the names of most objects.
	release string
}

// column is a phase, or a layer of one.
type column struct {
	title string
	phase *event.PhaseState
	nodes []*node
	// width is what its cards would like to have, least what tight ones
	// need, gutter what the edges to its right take.
	width, least, gutter int
	// nets are the sources of the edges that use the gutter to its right.
	nets []*node
}

// node is a group on the board.
type node struct {
	*event.GroupState
	name  string // short, unique on the board for people
	index int    // in plan order
	col   int
	row   int // in its column, from the top
	// ins are the nodes it waits for, outs those that wait for it: the edges
	// that no other path makes superfluous.
	ins, outs []*node
	lane      int // the row of its edges past columns, or -1
	// outcome is what a rollback has made of it since, empty for nothing.
	outcome string
}

// newGraph lays the phases of a state out in columns.
func newGraph(s *event.State) graph {
	p := graph{byKey: map[event.Unit]*node{}, short: map[string]string{}, release: s.Operation.Release}
	for _, phase := range s.Phases {
		p.addPhase(phase)
	}
	for _, c := range p.cols {
		c.width, c.least = naturalWidth(c), p.leastWidth(c)
	}
	p.route()
	return p
}

func (p *graph) addPhase(phase *event.PhaseState) {
	if len(phase.Groups) == 0 {
		return
	}
	own := make([]*node, len(phase.Groups))
	groups := make([]*plan.Group, len(phase.Groups))
	for i, g := range phase.Groups {
		own[i] = &node{GroupState: g, name: shortName(phase, g.Group), index: len(p.nodes) + i, lane: -1}
		groups[i] = g.Group
		p.byKey[own[i].Unit()] = own[i]
		p.short[g.ID] = own[i].name
	}
	p.nodes = append(p.nodes, own...)
	layered := phase.Kind == event.PhaseApply || phase.Kind == event.PhaseRemove
	if layered {
		p.connect(phase.Name, own, groups)
	}
	depth := layers(own)
	title := phaseTitle(phase.Name)
	first := len(p.cols)
	for i, n := range own {
		for len(p.cols) <= first+depth[i] {
			c := &column{title: title, phase: phase}
			if layered {
				c.title = strings.TrimPrefix(title+" "+strconv.Itoa(len(p.cols)-first), "apply ")
			}
			p.cols = append(p.cols, c)
		}
		n.col = first + depth[i]
		p.cols[n.col].nodes = append(p.cols[n.col].nodes, n)
	}
	for _, c := range p.cols[first:] {
		untangle(c.nodes)
		for i, n := range c.nodes {
			n.row = i
		}
	}
}

// connect links the nodes of a phase by what they wait for.
func (p *graph) connect(phase string, own []*node, groups []*plan.Group) {
	after := plan.Reduce(groups)
	for _, n := range own {
		for _, id := range after[n.ID] {
			if up := p.byKey[event.Unit{Phase: phase, Group: id}]; up != nil && up != n {
				n.ins = append(n.ins, up)
				up.outs = append(up.outs, n)
			}
		}
	}
}

// layers is the longest path to each node from one that waits for nothing.
func layers(nodes []*node) []int {
	depth := map[*node]int{}
	var of func(*node) int
	of = func(n *node) int {
		if d, ok := depth[n]; ok {
			return d
		}
		depth[n] = 0 // ends a cycle, which a plan does not have
		d := 0
		for _, up := range n.ins {
			d = max(d, of(up)+1)
		}
		depth[n] = d
		return d
	}
	out := make([]int, len(nodes))
	for i, n := range nodes {
		out[i] = of(n)
	}
	return out
}

// untangle orders the nodes of a column by where what they wait for stands, so
// that edges cross less. Plan order decides between equals.
func untangle(nodes []*node) {
	middle := func(n *node) float64 {
		if len(n.ins) == 0 {
			return 0
		}
		sum := 0.0
		for _, up := range n.ins {
			sum += float64(up.index)
		}
		return sum / float64(len(n.ins))
	}
	slices.SortStableFunc(nodes, func(a, b *node) int { return cmp.Compare(middle(a), middle(b)) })
}

// phaseTitle is the name of a phase as a column's title.
func phaseTitle(name string) string {
	return strings.TrimPrefix(name, event.RollbackPrefix)
}

// shortName is a group's name without what is the same for all of them.
func shortName(phase *event.PhaseState, g *plan.Group) string {
	switch phase.Kind {
	case event.PhaseApply, event.PhaseRemove:
		return shortID(g.ID)
	}
	switch {
	case len(g.Objects) == 1:
		return shortObject(g.Objects[0])
	case g.Name != "":
		return g.Name
	}
	return g.ID
}

// shortID leaves the root chart out of the id of a subchart's group:
// "shop/db:schema" is "db:schema", "shop:ingress" stays.
func shortID(id string) string {
	slash, colon := strings.IndexByte(id, '/'), strings.IndexByte(id, ':')
	if slash >= 0 && slash < colon {
		id = id[slash+1:]
	}
	return strings.Replace(id, plan.Unsequenced, unsequencedPart, 1)
}

// naturalWidth is how wide a column's cards would like to be. It depends on
// names only, so that nothing moves while the operation runs.
func naturalWidth(c *column) int {
	w := narrowCard
	for _, n := range c.nodes {
		w = max(w, canvas.Width(n.name)+len(strconv.Itoa(len(n.Objects)))*2+10)
		if n.single() {
			continue
		}
		w = max(w, minCard)
		for _, o := range n.Objects[:min(len(n.Objects), 64)] {
			w = max(w, canvas.Width(shortObject(o.Object))+12)
		}
		for _, up := range n.ins {
			w = max(w, canvas.Width(up.name)+10)
		}
	}
	return min(w, maxCard)
}

// leastWidth is how wide a column's tight cards have to be for their names.
func (p *graph) leastWidth(c *column) int {
	w := max(tightCard, canvas.Width(c.title)+1)
	for _, n := range c.nodes {
		w = max(w, canvas.Width(p.nameIn(n, maxTightCard-4, "~"))+4)
	}
	return min(w, maxTightCard)
}

// single reports whether a group is one object and named after it, as hooks
// are: its card does not say so twice.
func (n *node) single() bool {
	return len(n.Objects) == 1 && n.name == shortObject(n.Objects[0].Object)
}

// followers are all groups that wait for one, directly or not.
func (p *graph) followers(n *node) []*node {
	seen := map[*node]bool{}
	var walk func(*node)
	walk = func(n *node) {
		for _, d := range n.outs {
			if !seen[d] {
				seen[d] = true
				walk(d)
			}
		}
	}
	walk(n)
	var out []*node
	for _, d := range p.nodes {
		if seen[d] {
			out = append(out, d)
		}
	}
	return out
}

// shorten writes the groups that a message names as the board does.
func (p *graph) shorten(message string) string {
	if message == "" {
		return ""
	}
	words := strings.Split(message, " ")
	for i, w := range words {
		id := strings.TrimRight(w, ":,;")
		if short, ok := p.short[id]; ok {
			words[i] = short + w[len(id):]
		}
	}
	return strings.Join(words, " ")
}
