package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/text"
)

// draft is a group in a planner. A draft without members is a missing group that others wait for.
//
// Rule R7: a group waits for the groups that any of its objects names, in its own chart
type draft struct {
	chart, name, id string
	place           int // index in the chart's groups, sorted by name; missing groups come last
	members         []*member
	arranged        arrangement // of all members
	needs           []need      // the groups that it waits for in its chart, without duplicates, by place
	after           []string    // their ids
	lower           *draft      // the group with the next lower weight
	neededBy        *draft      // the last group that was found to need it
	layered         bool        // Group.layered
	unsequenced     bool        // its objects join the unsequenced group
}

// need is a group that another one waits for, and the first object that names it.
type need struct {
	*draft
	by *member
}

func groupID(chart, name string) string { return chart + ":" + name }

func newDraft(c *chartNode, name string) *draft {
	return &draft{chart: c.path, name: name, id: groupID(c.path, name)}
}

func compareNames(a, b *draft) int { return strings.Compare(a.name, b.name) }
func (d *draft) missing() bool     { return len(d.members) == 0 }

// waits returns the subcharts that the group waits for (R18).
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

// sequence finds the groups of a chart.
//
// Rule R10: objects without a group form the unsequenced group, which waits for all groups of its chart
func (p *planner) sequence(c *chartNode) {
	unsequenced := newDraft(c, Unsequenced)
	drafts := newDrafts(c, unsequenced)
	broken := p.demoteBroken(drafts)
	p.failGroupCycles(c, drafts)
	for _, d := range append(broken, p.demoteIsolated(drafts)...) {
		unsequenced.members = append(unsequenced.members, d.members...)
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
		unsequenced.after = append(unsequenced.after, d.id)
	}
	if len(unsequenced.members) > 0 {
		c.groups = append(c.groups, unsequenced)
	}
}

// newDrafts returns the declared groups of a chart, sorted by name, with their needs. It adds objects
// without a group to the unsequenced one.
func newDrafts(c *chartNode, unsequenced *draft) []*draft {
	drafts := make(map[string]*draft)
	weighted := false
	for _, m := range c.members {
		if m.group == "" {
			unsequenced.members = append(unsequenced.members, m)
			continue
		}
		d := drafts[m.group]
		if d == nil {
			d = newDraft(c, m.group)
			drafts[m.group] = d
		}
		d.members = append(d.members, m)
		d.layered = d.layered || m.uses[byLayer] != ""
		weighted = weighted || m.weight != nil
	}
	existing := slices.SortedFunc(maps.Values(drafts), compareNames)
	if weighted {
		chainWeights(existing)
	}
	findNeeds(c, existing, drafts)
	return existing
}

// findNeeds sets the needs of the existing drafts. It adds a draft for each missing group to drafts, which
// has all drafts by name.
func findNeeds(c *chartNode, existing []*draft, drafts map[string]*draft) {
	var missing []*draft
	for _, d := range existing {
		capacity := 1 // for d.lower
		for _, m := range d.members {
			capacity += len(m.needs)
		}
		d.needs = make([]need, 0, capacity)
		if d.lower != nil {
			d.addNeed(d.lower, d.members[0])
		}
		for _, m := range d.members {
			for _, name := range m.needs {
				other := drafts[name]
				if other == nil {
					other = newDraft(c, name)
					drafts[name] = other
					missing = append(missing, other)
				}
				d.addNeed(other, m)
			}
		}
	}
	slices.SortFunc(missing, compareNames)
	for place, d := range append(slices.Clip(existing), missing...) {
		d.place = place
	}
	for _, d := range existing {
		slices.SortFunc(d.needs, func(a, b need) int { return cmp.Compare(a.place, b.place) })
	}
}

// addNeed records that a group waits for another one. All needs of a group must be recorded before
// those of the next.
func (d *draft) addNeed(other *draft, by *member) {
	if other.neededBy != d {
		other.neededBy = d
		d.needs = append(d.needs, need{other, by})
	}
}

// Rule R19: each weight waits for the next lower one
func chainWeights(drafts []*draft) {
	chain := slices.SortedFunc(slices.Values(drafts), func(a, b *draft) int {
		return cmp.Compare(*a.members[0].weight, *b.members[0].weight)
	})
	for i, d := range chain[1:] {
		d.lower = chain[i]
	}
}

// failGroupCycles refuses cycles of groups in a chart (R13). Groups that demoteBroken has made
// unsequenced have lost their dependencies, so they do not count.
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

// demoteBroken makes groups with missing dependencies unsequenced, and returns them.
//
// Rule R8: groups that wait for a missing or unsequenced group are unsequenced
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

// warnBroken warns that d is unsequenced, and names the missing or unsequenced groups that it waits for.
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
	for _, n := range missing {
		if m := p.faultyMember(d.chart, n.name); m != nil {
			p.warn("R8", d.chart, &n.by.Object, "%s: group %q waits for %q, which has no objects because an annotation of %s is invalid, "+
				"so %q is %s; correct that annotation", n.by.Object, d.name, n.name, m.Object, d.name, deployedLast)
			return
		}
	}
	blamed, why := missing, []string{"which does not exist", "which do not exist"}
	if len(missing) == 0 {
		blamed, why = moved, []string{"which is itself deployed last", "which are themselves deployed last"}
	}
	by := blamed[0].by
	quoted := make([]string, len(blamed))
	for i, n := range blamed {
		quoted[i] = strconv.Quote(n.name)
	}
	fix := ""
	switch len(missing) {
	case 0:
	case 1:
		fix = fmt.Sprintf("; check the spelling; if %s is optional, put its entry in the list inside the same {{ if }} as the group", quoted[0])
	default:
		fix = "; check the spelling; if they are optional, put each entry in the list inside the same {{ if }} as its group"
	}
	p.warn("R8", d.chart, &by.Object, "%s: group %q waits for %s, %s, so %q is %s%s",
		by.Object, d.name, strings.Join(quoted, ", "), why[min(len(blamed), 2)-1], d.name, deployedLast, fix)
}

// faultyMember returns an object that declares a group of a chart but has an invalid annotation (R2), or nil.
func (p *planner) faultyMember(chart, group string) *member {
	for _, m := range p.charts[chart].members {
		for _, key := range []string{AnnotationGroup, AnnotationLayer} {
			if name, ok := Annotation(m.Annotations, key); ok && strings.TrimSpace(name) == group && len(m.faults) > 0 {
				return m
			}
		}
	}
	return nil
}

// deployedLast describes in messages what happens to an unsequenced group or object (R10).
const deployedLast = "deployed last, as part of " + Unsequenced

// demoteIsolated makes isolated groups unsequenced, and returns them. A group that waits for a
// subchart is not isolated.
//
// Rule R9: a group that waits for no other, and that no other waits for, is unsequenced if the chart has several
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
		d.unsequenced = true
		demoted = append(demoted, d)
	}
	p.warnIsolated(demoted)
	return demoted
}

// warnIsolated warns about the isolated groups of a chart. One warning names them all, because they become one group.
func (p *planner) warnIsolated(isolated []*draft) {
	switch len(isolated) {
	case 0:
	case 1:
		p.warn("R9", isolated[0].chart, nil, "group %q waits for no group, and no group waits for it, so its objects are deployed last, as %s; "+
			"if its order matters, make it wait for a group, or make a group wait for it", isolated[0].name, Unsequenced)
	default:
		quoted := make([]string, len(isolated))
		for i, d := range isolated {
			quoted[i] = strconv.Quote(d.name)
		}
		p.warn("R9", isolated[0].chart, nil, "groups %s wait for no group, and no group waits for them, so their objects are deployed last, together, as %s; "+
			"if their order matters, make them wait for a group, or make a group wait for them", text.JoinAnd(quoted), Unsequenced)
	}
}
