package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// chartNode is a chart of the tree while a plan is made. What is part of what
// is told by the paths.
type chartNode struct {
	path      string
	parent    *chartNode
	children  []*chartNode
	dependsOn []string // what the chart's own resources wait for, by name
	entries   []*entry // its dependencies
	waits     []*chartNode
	ownWaits  []*chartNode
	members   []*member
	groups    []*draft // those in the plan, the unsequenced batch last

	// What the methods of the same names found out.
	subtreeIDs, reachIDs, gateIDs []string
	reachKnown                    bool
}

// entry is a dependency of a chart.
type entry struct {
	Subchart
	node *chartNode // nil where the subchart is disabled
	// ordered is set where the subchart waits or is waited for (R37).
	ordered bool
	// missed is set where it was told that a resource waits for it in vain.
	missed bool
}

// name returns what the subchart is called within its parent.
func (e *entry) name() string {
	if e.Alias != "" {
		return e.Alias
	}
	return e.Name
}

// tree returns the node of a chart and those of its subcharts.
func (p *planner) tree(c *Chart) *chartNode {
	node := p.node(c.Path)
	node.dependsOn = append(node.dependsOn, c.DependsOn...)
	for _, f := range c.Faults {
		p.fail(f.Rule, c.Path, nil, "%s", f.Message)
	}
	for _, s := range c.Subcharts {
		e := &entry{Subchart: s}
		if s.Chart != nil {
			e.node = p.tree(s.Chart)
		}
		node.entries = append(node.entries, e)
	}
	slices.SortStableFunc(node.entries, func(a, b *entry) int { return strings.Compare(a.name(), b.name()) })
	return node
}

// node returns the node of a chart path. A path that is not in the tree is
// that of a chart that orders nothing, below the nearest one that is.
func (p *planner) node(path string) *chartNode {
	if c := p.charts[path]; c != nil {
		return c
	}
	c := &chartNode{path: path}
	p.charts[path] = c
	for up := path; c.parent == nil; {
		i := strings.LastIndexByte(up, '/')
		if i < 0 {
			break
		}
		up = up[:i]
		c.parent = p.charts[up]
	}
	if c.parent != nil {
		c.parent.children = append(c.parent.children, c)
	}
	return c
}

// inOrder returns all charts by path.
func (p *planner) inOrder() []*chartNode {
	nodes := make([]*chartNode, 0, len(p.charts))
	for _, path := range slices.Sorted(maps.Keys(p.charts)) {
		nodes = append(nodes, p.charts[path])
	}
	return nodes
}

// resolve finds the subchart that is called ref and can be waited for. It returns
// nil if there is none. What is said about ref begins with who.
func (p *planner) resolve(c *chartNode, ref, who string, object *Object) *entry {
	e := p.lookup(c, ref, who, object)
	if e == nil || e.node != nil {
		return e
	}
	if object == nil || !e.missed { // of many resources the first one will do
		p.warn("R12", c.path, object, "%s %q, which is disabled; not waiting for it", who, ref)
	}
	e.missed = e.missed || object != nil
	return nil
}

// lookup finds the subchart that is called ref, disabled or not. Of several
// entries of one name the enabled one counts: charts choose by condition that way. An
// entry without an alias is meant before those of its name that have one.
//
// Rule R12: names are those of Chart.yaml, the alias or the name.
func (p *planner) lookup(c *chartNode, ref, who string, object *Object) *entry {
	var found *entry
	var names []string
	enabled := 0
	plain := slices.ContainsFunc(c.entries, func(e *entry) bool { return e.name() == ref })
	for _, e := range c.entries { // sorted by name
		if ref == "" || ref != e.name() && (plain || ref != e.Name) {
			continue
		}
		e.ordered = true
		names = append(names, e.name())
		if e.node != nil {
			enabled++
		}
		if found == nil || found.node == nil {
			found = e
		}
	}
	distinct := slices.Compact(names)
	switch {
	case found == nil:
		p.fail("R12", c.path, object, "%s %q, which is not a subchart of this chart", who, ref)
		return nil
	case len(distinct) > 1:
		p.fail("R12", c.path, object, "%s %q, which is ambiguous: use the alias, %s", who, ref, strings.Join(distinct, " or "))
		return nil
	case enabled > 1:
		p.fail("R12", c.path, object, "%s %q, which is ambiguous: there are %d; give them aliases", who, ref, enabled)
		return nil
	}
	return found
}

// orderSubcharts finds out what waits for which subchart of c.
//
// Rule R11: charts wait only for the subcharts that Chart.yaml names.
func (p *planner) orderSubcharts(c *chartNode) {
	for _, ref := range c.dependsOn {
		if e := p.resolve(c, ref, AnnotationSubchartDependsOn+" names", nil); e != nil {
			c.ownWaits = append(c.ownWaits, e.node)
		}
	}
	index := make(map[string]int)
	var names []string
	for _, e := range c.entries {
		if _, ok := index[e.name()]; !ok && e.node != nil {
			index[e.name()] = len(names)
			names = append(names, e.name())
		}
	}
	next := make([][]int, len(names))
	for _, e := range c.entries {
		e.ordered = e.ordered || len(e.DependsOn) > 0
		if e.node == nil {
			p.resolveDisabled(c, e)
			continue
		}
		from := index[e.name()]
		for _, ref := range e.DependsOn {
			if to := p.resolve(c, ref, fmt.Sprintf("subchart %q depends on", e.name()), nil); to != nil {
				e.node.waits = append(e.node.waits, to.node)
				next[from] = append(next[from], index[to.name()])
			}
		}
		slices.Sort(next[from])
	}
	p.failCycles(c.path, "subcharts", names, next)
}

// resolveDisabled looks for mistakes in what a disabled subchart waits for. That
// what it names is disabled too needs no words.
func (p *planner) resolveDisabled(c *chartNode, e *entry) {
	for _, ref := range e.DependsOn {
		p.lookup(c, ref, fmt.Sprintf("subchart %q depends on", e.name()), nil)
	}
}

// failCycles reports each cycle of a graph with names.
//
// Rule R13: a cycle is an error that prints the whole cycle.
func (p *planner) failCycles(chart, what string, names []string, next [][]int) {
	for _, cycle := range findCycles(next) {
		var way []string
		for _, i := range append(cycle, cycle[0]) {
			way = append(way, names[i])
		}
		if len(cycle) == 1 {
			p.fail("R13", chart, nil, "%s waits for itself: %s; remove that dependency", way[0], strings.Join(way, " → "))
			continue
		}
		p.fail("R13", chart, nil, "%s wait for each other in a cycle: %s; remove one dependency", what, strings.Join(way, " → "))
	}
}

// subtree lists the ids of the groups of a chart and of its subcharts.
func (c *chartNode) subtree() []string {
	if c.subtreeIDs == nil {
		ids := []string{}
		for _, g := range c.groups {
			ids = append(ids, g.id)
		}
		for _, child := range c.children {
			ids = append(ids, child.subtree()...)
		}
		c.subtreeIDs = ids
	}
	return c.subtreeIDs
}

// reach lists the groups that one who waits for the chart waits for: those of
// its subtree (R11). Where it has none, that is what the chart itself would
// have waited for.
func (c *chartNode) reach() []string {
	if !c.reachKnown {
		c.reachKnown = true
		c.reachIDs = c.subtree()
		if len(c.reachIDs) == 0 {
			c.reachIDs = reachAll(c.waits)
		}
	}
	return c.reachIDs
}

func reachAll(nodes []*chartNode) []string {
	ids := []string{}
	for _, c := range nodes {
		ids = append(ids, c.reach()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// gates lists what every group of the chart and of its subcharts waits for
// because the chart, or one that it is part of, waits as a subchart.
func (c *chartNode) gates() []string {
	if c.gateIDs == nil {
		c.gateIDs = reachAll(c.waits)
		if c.parent != nil {
			c.gateIDs = append(c.gateIDs, c.parent.gates()...)
		}
	}
	return c.gateIDs
}
