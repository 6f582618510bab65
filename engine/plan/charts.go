package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// chartNode is a chart in a planner. Paths determine parents and children.
type chartNode struct {
	path         string
	parent       *chartNode
	children     []*chartNode
	dependsOn    []string     // Chart.DependsOn
	dependsOnKey string       // its annotation, for messages
	approval     *Approval    // Chart.Approval
	noReturn     string       // Chart.NoReturn
	entries      []*entry     // Chart.Subcharts, sorted by ID
	waits        []*chartNode // siblings that the chart and its subcharts wait for
	ownWaits     []*chartNode // subcharts that only the chart's own objects wait for
	members      []*member
	groups       []*draft // the groups in the plan, the unsequenced group last

	// Cached results of subtree, waitTargets and inheritedDependencies.
	subtreeIDs, targetIDs, inheritedIDs []string
	targetsKnown                        bool
}

// entry is a Subchart in a planner.
type entry struct {
	Subchart
	node *chartNode // nil if the subchart is disabled
	// ordered means that the subchart waits for another one, or something waits for it (R37).
	ordered bool
	// warned means that there is a warning about an object that names the disabled subchart.
	warned bool
}

// addTree adds the nodes of a chart and its subcharts.
func (p *planner) addTree(c *Chart) *chartNode {
	node := p.getOrAddNode(c.Path)
	node.dependsOn = append(node.dependsOn, c.DependsOn...)
	node.dependsOnKey = cmp.Or(c.DependsOnKey, AnnotationSubchartDependsOn)
	node.approval, node.noReturn = c.Approval, c.NoReturn
	for _, f := range c.Faults {
		p.fail(f.Rule, c.Path, nil, "%s", f.Message)
	}
	for _, s := range c.Subcharts {
		e := &entry{Subchart: s}
		if s.Chart != nil {
			e.node = p.addTree(s.Chart)
		}
		node.entries = append(node.entries, e)
	}
	slices.SortStableFunc(node.entries, func(a, b *entry) int { return strings.Compare(a.ID(), b.ID()) })
	return node
}

// getOrAddNode returns the node of a chart path. If the tree has none, it adds a chart without an
// order, below its nearest parent.
func (p *planner) getOrAddNode(path string) *chartNode {
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

func (p *planner) sortedCharts() []*chartNode {
	nodes := make([]*chartNode, 0, len(p.charts))
	for _, path := range slices.Sorted(maps.Keys(p.charts)) {
		nodes = append(nodes, p.charts[path])
	}
	return nodes
}

// resolve finds the enabled subchart with the name ref. If there is none, it adds an error or a
// warning and returns nil. Messages start with prefix.
func (p *planner) resolve(c *chartNode, ref, prefix string, object *Object) *entry {
	e := p.lookup(c, ref, prefix, object)
	if e == nil || e.node != nil {
		return e
	}
	if e.Skipped != "" {
		p.fail("R12", c.path, object, "%s %q, which Helm does not deploy by this name: %s", prefix, ref, e.Skipped)
		return nil
	}
	if object == nil || !e.warned { // warn about the first object only
		p.warn("R12", c.path, object, "%s %q, which is disabled; the dependency is ignored", prefix, ref)
	}
	e.warned = e.warned || object != nil
	return nil
}

// lookup finds the subchart with the name ref, even a disabled one. Of several entries it prefers
// the enabled one, because charts use conditions to choose between entries. An entry whose alias or
// unaliased name is ref takes precedence over one that has the name ref and another alias.
//
// Rule R12: a subchart is referred to by its name or its alias in Chart.yaml
func (p *planner) lookup(c *chartNode, ref, prefix string, object *Object) *entry {
	var found *entry
	var names []string
	enabled := 0
	isID := slices.ContainsFunc(c.entries, func(e *entry) bool { return e.ID() == ref })
	for _, e := range c.entries {
		if ref == "" || ref != e.ID() && (isID || ref != e.Name) {
			continue
		}
		e.ordered = true
		names = append(names, e.ID())
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
		p.fail("R12", c.path, object, "%s %q, which is not a subchart of this chart; check the spelling, or add it to the chart's dependencies", prefix, ref)
		return nil
	case len(distinct) > 1:
		p.fail("R12", c.path, object, "%s %q, which is ambiguous: use the alias, %s", prefix, ref, strings.Join(distinct, " or "))
		return nil
	case enabled > 1:
		p.fail("R12", c.path, object, "%s %q, which is ambiguous: %d subcharts have this name; give them aliases", prefix, ref, enabled)
		return nil
	}
	return found
}

// orderSubcharts finds out which charts wait for which subcharts.
//
// Rule R11: charts wait only for the subcharts that Chart.yaml names
func (p *planner) orderSubcharts(c *chartNode) {
	for _, ref := range c.dependsOn {
		if e := p.resolve(c, ref, c.dependsOnKey+" names", nil); e != nil {
			c.ownWaits = append(c.ownWaits, e.node)
		}
	}
	index := make(map[string]int)
	var names []string
	for _, e := range c.entries {
		if _, ok := index[e.ID()]; !ok && e.node != nil {
			index[e.ID()] = len(names)
			names = append(names, e.ID())
		}
	}
	next := make([][]int, len(names))
	for _, e := range c.entries {
		e.ordered = e.ordered || len(e.DependsOn) > 0
		if e.node == nil { // report unknown names, but not other disabled subcharts
			for _, ref := range e.DependsOn {
				p.lookup(c, ref, fmt.Sprintf("subchart %q depends on", e.ID()), nil)
			}
			continue
		}
		from := index[e.ID()]
		for _, ref := range e.DependsOn {
			if to := p.resolve(c, ref, fmt.Sprintf("subchart %q depends on", e.ID()), nil); to != nil {
				e.node.waits = append(e.node.waits, to.node)
				next[from] = append(next[from], index[to.ID()])
			}
		}
		slices.Sort(next[from])
	}
	p.failCycles(c.path, "subcharts", names, next)
}

// subchartsFirst orders a chart as the authors of Helm's open implementation of HIP-0025 do. Nothing waits for what it makes wait,
// except parents, so it adds no cycle.
//
// Rule R11a: with --order=upstream, a chart's own objects come after all its subcharts
func (c *chartNode) subchartsFirst() {
	listed, others := c.listedChildren()
	for _, other := range others {
		other.waits = append(other.waits, listed...)
	}
	c.ownWaits = append(c.ownWaits, c.children...)
}

// listedChildren returns the subcharts that Chart.yaml lists or an order names, and the others.
func (c *chartNode) listedChildren() (listed, others []*chartNode) {
	for _, child := range slices.SortedFunc(slices.Values(c.children), func(a, b *chartNode) int { return strings.Compare(a.path, b.path) }) {
		if slices.ContainsFunc(c.entries, func(e *entry) bool { return e.node == child && (!e.Unlisted || e.ordered) }) {
			listed = append(listed, child)
		} else {
			others = append(others, child)
		}
	}
	return listed, others
}

// failCycles reports the cycles of a graph. nodes is the noun for its nodes, in the plural.
//
// Rule R13: a cycle is an error that prints the whole cycle
func (p *planner) failCycles(chart, nodes string, names []string, next [][]int) {
	for _, cycle := range findCycles(next) {
		var path []string
		for _, i := range append(cycle, cycle[0]) {
			path = append(path, names[i])
		}
		if len(cycle) == 1 {
			p.fail("R13", chart, nil, "%s %q waits for itself; remove that dependency", strings.TrimSuffix(nodes, "s"), path[0])
			continue
		}
		p.fail("R13", chart, nil, "%s wait for each other in a cycle: %s; remove one dependency", nodes, strings.Join(path, " → "))
	}
}

// subtree returns the ids of the groups of a chart and of its subcharts.
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

// waitTargets returns the ids of the groups to wait for instead of a chart: those of its subtree
// (R11), or, if it has none, those that the chart itself waits for.
func (c *chartNode) waitTargets() []string {
	if !c.targetsKnown {
		c.targetsKnown = true
		c.targetIDs = c.subtree()
		if len(c.targetIDs) == 0 {
			c.targetIDs = allWaitTargets(c.waits)
		}
	}
	return c.targetIDs
}

func allWaitTargets(nodes []*chartNode) []string {
	ids := []string{}
	for _, c := range nodes {
		ids = append(ids, c.waitTargets()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// inheritedDependencies returns the ids of the groups that every group of the chart waits for,
// because the chart or one of its parents waits for other subcharts.
func (c *chartNode) inheritedDependencies() []string {
	if c.inheritedIDs == nil {
		c.inheritedIDs = allWaitTargets(c.waits)
		if c.parent != nil {
			c.inheritedIDs = append(c.inheritedIDs, c.parent.inheritedDependencies()...)
		}
	}
	return c.inheritedIDs
}
