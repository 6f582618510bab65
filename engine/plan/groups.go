package plan

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// draft is a group while a plan is made, or a name that is waited for though no
// group has it: then there are no members.
//
// Rule R7: a group waits for what any of its resources names, in its own chart.
type draft struct {
	chart, name, id string
	place           int // among the groups of the chart, by name; behind all if it is missing
	members         []*member
	arranged        arrangement // what the members come to, once they are all known
	needs           []need      // groups it waits for, each once, by place
	after           []string    // ids of groups it waits for in its chart
	lower           *draft      // the group of the next lower weight
	neededBy        *draft      // the last that was found to need it
	jobs            bool
	unsequenced     bool
}

// need is a group that another waits for, with who named it first.
type need struct {
	*draft
	by *member
}

func groupID(chart, name string) string { return chart + ":" + name }

func newDraft(c *chartNode, name string) *draft {
	return &draft{chart: c.path, name: name, id: groupID(c.path, name)}
}

func byName(a, b *draft) int { return strings.Compare(a.name, b.name) }

func (d *draft) missing() bool { return len(d.members) == 0 }

// waits lists the subcharts that the group waits for (R18).
func (d *draft) waits() []*chartNode {
	var nodes []*chartNode
	for _, m := range d.members {
		for _, c := range m.waits {
			if !slices.Contains(nodes, c) {
				nodes = append(nodes, c)
			}
		}
	}
	return nodes
}

// sequence divides the resources of a chart into groups, and those into
// sequenced ones and the unsequenced batch (R7 to R10).
//
// Rule R10: what has no group comes in one batch, after all groups of its chart.
func (p *planner) sequence(c *chartNode) {
	batch := newDraft(c, Unsequenced)
	drafts := draftsOf(c, batch)
	broken := p.demoteBroken(drafts)
	p.failGroupCycles(c, drafts)
	for _, d := range append(broken, p.demoteIsolated(drafts)...) {
		batch.members = append(batch.members, d.members...)
	}
	for _, d := range drafts {
		if d.unsequenced {
			continue
		}
		d.after = make([]string, len(d.needs))
		for i, n := range d.needs {
			d.after[i] = n.id
		}
		c.groups = append(c.groups, d)
		batch.after = append(batch.after, d.id)
	}
	if len(batch.members) > 0 {
		c.groups = append(c.groups, batch)
	}
}

// draftsOf returns the groups that the resources of a chart ask for, by name, with
// what they need. Those that ask for none are added to batch.
func draftsOf(c *chartNode, batch *draft) []*draft {
	drafts := make(map[string]*draft)
	weighted := false
	for _, m := range c.members {
		if m.group == "" {
			batch.members = append(batch.members, m)
			continue
		}
		d := drafts[m.group]
		if d == nil {
			d = newDraft(c, m.group)
			drafts[m.group] = d
		}
		d.members = append(d.members, m)
		d.jobs = d.jobs || m.uses[byLayer] != ""
		weighted = weighted || m.weight != nil
	}
	there := slices.SortedFunc(maps.Values(drafts), byName)
	if weighted {
		chainWeights(there)
	}
	var missing []*draft
	for _, d := range there {
		most := 1
		for _, m := range d.members {
			most += len(m.needs)
		}
		d.needs = make([]need, 0, most)
		if d.lower != nil {
			d.need(d.lower, d.members[0])
		}
		for _, m := range d.members {
			for _, name := range m.needs {
				other := drafts[name]
				if other == nil {
					other = newDraft(c, name)
					drafts[name] = other
					missing = append(missing, other)
				}
				d.need(other, m)
			}
		}
	}
	slices.SortFunc(missing, byName)
	for place, d := range append(slices.Clip(there), missing...) {
		d.place = place
	}
	for _, d := range there {
		slices.SortFunc(d.needs, func(a, b need) int { return cmp.Compare(a.place, b.place) })
	}
	return there
}

// need notes that a group waits for another. All that a group needs is noted before
// what the next one does.
func (d *draft) need(other *draft, by *member) {
	if other.neededBy != d {
		other.neededBy = d
		d.needs = append(d.needs, need{other, by})
	}
}

// chainWeights links the groups that weights make.
//
// Rule R19: each weight waits for the next lower one.
func chainWeights(drafts []*draft) {
	chain := slices.SortedFunc(slices.Values(drafts), func(a, b *draft) int {
		return cmp.Compare(*a.members[0].weight, *b.members[0].weight)
	})
	for i, d := range chain[1:] {
		d.lower = chain[i]
	}
}

// failGroupCycles refuses cycles of groups in a chart (R13). Groups that R8 has
// demoted wait for nothing in the plan, so a cycle through one is no error.
func (p *planner) failGroupCycles(c *chartNode, drafts []*draft) {
	names := make([]string, len(drafts))
	next := make([][]int, len(drafts))
	for i, d := range drafts {
		names[i] = d.name
		if d.unsequenced {
			continue
		}
		next[i] = make([]int, 0, len(d.needs))
		for _, n := range d.needs {
			next[i] = append(next[i], n.place)
		}
	}
	p.failCycles(c.path, "groups", names, next)
}

// demoteBroken finds the groups that have lost their gates.
//
// Rule R8: what waits for a missing group is unsequenced, and what waits for that.
func (p *planner) demoteBroken(drafts []*draft) []*draft {
	var demoted []*draft
	demote := func(d *draft) {
		if !d.unsequenced {
			d.unsequenced = true
			demoted = append(demoted, d)
		}
	}
	for _, d := range drafts {
		if slices.ContainsFunc(d.needs, func(n need) bool { return n.missing() }) {
			demote(d)
		}
	}
	if demoted == nil {
		return nil
	}
	waiters := make([][]*draft, len(drafts))
	for _, d := range drafts {
		for _, n := range d.needs {
			if !n.missing() {
				waiters[n.place] = append(waiters[n.place], d)
			}
		}
	}
	for at := 0; at < len(demoted); at++ {
		for _, d := range waiters[demoted[at].place] {
			demote(d)
		}
	}
	for _, d := range demoted {
		p.warnBroken(d)
	}
	return demoted
}

// warnBroken says which of the groups that d needs is missing.
func (p *planner) warnBroken(d *draft) {
	var missing, moved []need
	for _, n := range d.needs {
		switch {
		case n.missing():
			missing = append(missing, n)
		case n.unsequenced:
			moved = append(moved, n)
		}
	}
	blamed, why := missing, []string{"does not exist", "do not exist"}
	if len(missing) == 0 {
		blamed, why = moved, []string{"is unsequenced itself", "are unsequenced themselves"}
	}
	who := blamed[0].by
	quoted := make([]string, len(blamed))
	for i, n := range blamed {
		quoted[i] = strconv.Quote(n.name)
	}
	optional := ""
	if len(missing) > 0 {
		optional = "; if the group is optional, put the dependency inside the same {{ if }}"
	}
	p.warn("R8", d.chart, &who.Object, "group %q waits for %s, which %s (%s); the group is unsequenced%s",
		d.name, strings.Join(quoted, ", "), why[min(len(blamed), 2)-1], who.Object, optional)
}

// demoteIsolated finds the groups without any edge. To wait for a subchart is an
// edge.
//
// Rule R9: of several groups one without an edge is unsequenced.
func (p *planner) demoteIsolated(drafts []*draft) []*draft {
	needed := make([]bool, len(drafts))
	left := 0
	for _, d := range drafts {
		if d.unsequenced {
			continue
		}
		left++
		for _, n := range d.needs {
			needed[n.place] = true
		}
	}
	if left < 2 {
		return nil
	}
	var demoted []*draft
	for _, d := range drafts {
		if d.unsequenced || len(d.needs) > 0 || needed[d.place] || len(d.waits()) > 0 {
			continue
		}
		p.warn("R9", d.chart, nil, "group %q is isolated: it waits for no group and none waits for it; it is unsequenced", d.name)
		d.unsequenced = true
		demoted = append(demoted, d)
	}
	return demoted
}
