package plan

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// draft is a group while a plan is made.
//
// Rule R7: a group waits for what any of its resources names, in its own chart.
type draft struct {
	chart, name, id string
	members         []*member
	needs           map[string]*member // groups it waits for, with who names them
	after           []string           // ids of groups it waits for in its chart
	jobs            bool
}

func groupID(chart, name string) string { return chart + ":" + name }

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
	drafts := make(map[string]*draft)
	batch := &draft{chart: c.path, name: Unsequenced, id: groupID(c.path, Unsequenced)}
	weighted := false
	for _, m := range c.members {
		if m.group == "" {
			batch.members = append(batch.members, m)
			continue
		}
		d := drafts[m.group]
		if d == nil {
			d = &draft{chart: c.path, name: m.group, id: groupID(c.path, m.group), needs: make(map[string]*member)}
			drafts[m.group] = d
		}
		d.members = append(d.members, m)
		d.jobs = d.jobs || m.uses[byLayer] != ""
		weighted = weighted || m.weight != nil
		for _, need := range m.needs {
			if d.needs[need] == nil {
				d.needs[need] = m
			}
		}
	}
	if weighted {
		chainWeights(drafts)
	}
	p.failGroupCycles(c, drafts)
	for _, d := range append(p.demoteBroken(drafts), p.demoteIsolated(drafts)...) {
		batch.members = append(batch.members, d.members...)
	}
	for _, name := range slices.Sorted(maps.Keys(drafts)) {
		d := drafts[name]
		for need := range d.needs {
			d.after = append(d.after, groupID(c.path, need))
		}
		c.groups = append(c.groups, d)
		batch.after = append(batch.after, d.id)
	}
	if len(batch.members) > 0 {
		c.groups = append(c.groups, batch)
	}
}

// chainWeights links the groups that weights make.
//
// Rule R19: each weight waits for the next lower one.
func chainWeights(drafts map[string]*draft) {
	chain := slices.SortedFunc(maps.Values(drafts), func(a, b *draft) int {
		return cmp.Compare(*a.members[0].weight, *b.members[0].weight)
	})
	for i, d := range chain[1:] {
		d.needs[chain[i].name] = d.members[0]
	}
}

// failGroupCycles refuses cycles of groups in a chart (R13). What names a
// missing group besides is refused as well: the cycle is a mistake either way.
func (p *planner) failGroupCycles(c *chartNode, drafts map[string]*draft) {
	names := slices.Sorted(maps.Keys(drafts))
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	next := make([][]int, len(names))
	for i, name := range names {
		for need := range drafts[name].needs {
			if j, ok := index[need]; ok {
				next[i] = append(next[i], j)
			}
		}
		slices.Sort(next[i])
	}
	p.failCycles(c.path, "resource-groups", names, next)
}

// demoteBroken takes groups that have lost their gates out of drafts.
//
// Rule R8: what waits for a missing group is unsequenced, and what waits for that.
func (p *planner) demoteBroken(drafts map[string]*draft) []*draft {
	all := maps.Clone(drafts)
	waiters := make(map[string][]*draft)
	var demoted []*draft
	for _, name := range slices.Sorted(maps.Keys(drafts)) {
		d, missing := drafts[name], false
		for need := range d.needs {
			waiters[need] = append(waiters[need], d)
			missing = missing || all[need] == nil
		}
		if missing {
			demoted = append(demoted, d)
			delete(drafts, name)
		}
	}
	for at := 0; at < len(demoted); at++ {
		for _, d := range waiters[demoted[at].name] {
			if drafts[d.name] != nil {
				demoted = append(demoted, d)
				delete(drafts, d.name)
			}
		}
	}
	for _, d := range demoted {
		p.warnBroken(d, all, drafts)
	}
	return demoted
}

// warnBroken says which of the groups that d needs is missing.
func (p *planner) warnBroken(d *draft, all, left map[string]*draft) {
	var missing, moved []string
	for _, need := range slices.Sorted(maps.Keys(d.needs)) {
		switch {
		case all[need] == nil:
			missing = append(missing, need)
		case left[need] == nil:
			moved = append(moved, need)
		}
	}
	blamed, why := missing, []string{"does not exist", "do not exist"}
	if len(missing) == 0 {
		blamed, why = moved, []string{"is unsequenced itself", "are unsequenced themselves"}
	}
	who := d.needs[blamed[0]]
	quoted := make([]string, len(blamed))
	for i, need := range blamed {
		quoted[i] = strconv.Quote(need)
	}
	optional := ""
	if len(missing) > 0 {
		optional = "; what is optional has to be named under the same condition as it is rendered"
	}
	p.warn("R8", d.chart, &who.Object, "group %q waits for %s, which %s (%s); the group is unsequenced%s",
		d.name, strings.Join(quoted, ", "), why[min(len(blamed), 2)-1], who.Object, optional)
}

// demoteIsolated takes groups without any edge out of drafts. To wait for a
// subchart is an edge.
//
// Rule R9: of several groups one without an edge is unsequenced.
func (p *planner) demoteIsolated(drafts map[string]*draft) []*draft {
	if len(drafts) < 2 {
		return nil
	}
	needed := make(map[string]bool)
	for _, d := range drafts {
		for need := range d.needs {
			needed[need] = true
		}
	}
	var demoted []*draft
	for _, name := range slices.Sorted(maps.Keys(drafts)) {
		d := drafts[name]
		if len(d.needs) > 0 || needed[name] || len(d.waits()) > 0 {
			continue
		}
		p.warn("R9", d.chart, nil, "group %q is isolated: it waits for no other group, and none for it; it is unsequenced", name)
		demoted = append(demoted, d)
		delete(drafts, name)
	}
	return demoted
}
