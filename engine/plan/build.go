package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/parallel"
)

// Build makes the DAG of groups from the chart tree and the rendered objects without hooks
// (R7 to R20). The plan does not depend on the order of objects or subcharts. Each object
// is in exactly one group. Probable mistakes become warnings.
//
// With a nil root, charts do not order their subcharts. The error is of type Errors and has all mistakes.
func Build(root *Chart, resources []Resource) (*Plan, error) {
	p := newPlanner(root, resources)
	plan := p.build()
	if len(p.errors) > 0 {
		return nil, p.errors
	}
	return plan, nil
}

// Flat returns the plan of the strategies other than ordered (R27), and of revisions without an order: one unsequenced group
// in Helm's order of kinds. It ignores annotations about order, but keeps what else objects and charts ask for: approvals
// (R42a) and points of no return (R33a). root may be nil if the charts are unknown.
func Flat(root *Chart, resources []Resource, chart string) *Plan {
	p := newPlanner(root, resources)
	members := ungrouped(resources)
	unsequenced := &draft{chart: chart, name: Unsequenced, id: groupID(chart, Unsequenced), members: members, arranged: arrange(members)}
	groups := []*Group{}
	if len(resources) > 0 {
		all := p.group(unsequenced)
		charts := slices.DeleteFunc(p.sortedCharts(), func(c *chartNode) bool { return len(c.members) == 0 })
		all.WaitFor, all.Approve = nil, nil
		all.addApprovals(members, charts...)
		for _, c := range charts {
			all.NoReturn = JoinReasons(all.NoReturn, c.noReturn)
		}
		groups = append(groups, all)
	}
	return &Plan{Groups: groups, Warnings: p.sortedWarnings()}
}

// ungrouped returns the members of a group without annotations about groups. Only install-before counts.
func ungrouped(resources []Resource) []*member {
	members := make([]*member, len(resources))
	for i := range resources {
		r := &resources[i]
		members[i] = &member{Resource: r, ordering: ordering{before: r.Annotations[AnnotationInstallBefore]}}
	}
	return members
}

// Check reports mistakes that matter even without an order: misspelt keys, invalid readiness annotations
// (R2, R2b, R24), and the faults of Chart.yaml, such as malformed lists. It is for plans made by Flat.
func Check(root *Chart, resources []Resource) ([]Warning, error) {
	p := newPlanner(root, resources)
	for _, c := range p.sortedCharts() {
		for _, m := range c.members {
			p.checkKeys(c, m)
			p.checkReadiness(c, m)
		}
	}
	if len(p.errors) > 0 {
		p.errors.sort()
		return nil, p.errors
	}
	return p.sortedWarnings(), nil
}

// planner makes one plan. It collects all errors that it can find.
type planner struct {
	charts   map[string]*chartNode
	upstream bool     // Chart.Upstream of the root chart
	members  []member // sorted by object, then by chart
	errors   Errors
	warnings []Warning
}

// member is an object with its declared order.
type member struct {
	*Resource
	ordering
	chart     *chartNode
	waits     []*chartNode // the subcharts that it waits for (R18)
	duplicate bool         // it is applied as part of another chart
}

func newPlanner(root *Chart, resources []Resource) *planner {
	p := &planner{charts: make(map[string]*chartNode)}
	rootPath := ""
	if root != nil {
		p.addTree(root)
		rootPath, p.upstream = root.Path, root.Upstream
	}
	resources = root.Annotate(resources)
	sorted := make([]*Resource, len(resources))
	for i := range resources {
		sorted[i] = &resources[i]
	}
	slices.SortFunc(sorted, compareResources)
	paths := map[string]bool{}
	for _, r := range sorted {
		paths[cmp.Or(r.Chart, rootPath)] = true // R6
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) { // parents come first
		p.getOrAddNode(path)
	}
	p.members = make([]member, len(sorted))
	for i, r := range sorted {
		m := &p.members[i]
		m.Resource, m.chart = r, p.charts[cmp.Or(r.Chart, rootPath)]
		m.chart.members = append(m.chart.members, m)
	}
	return p
}

// compareResources is a total order: resources that compare equal are equal.
func compareResources(a, b *Resource) int {
	if c := a.Object.compare(&b.Object); c != 0 {
		return c
	}
	if c := strings.Compare(a.Chart, b.Chart); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(fmt.Sprint(*a), fmt.Sprint(*b)))
}

// fail adds an error. The message does not name the chart; Error adds it.
func (p *planner) fail(rule, chart string, object *Object, format string, args ...any) {
	p.errors = append(p.errors, &Error{rule, chart, cloned(object), fmt.Sprintf(format, args...)})
}

// warn adds a warning, and the chart to its message.
func (p *planner) warn(rule, chart string, object *Object, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{
		Rule: rule, Chart: chart, Object: cloned(object),
		Message: chart + ": " + fmt.Sprintf(format, args...),
	})
}

func cloned(o *Object) *Object {
	if o == nil {
		return nil
	}
	c := *o
	return &c
}

// build returns the plan, or nil if there are errors.
func (p *planner) build() *Plan {
	charts := p.sortedCharts()
	parallel.Each(len(p.members), func(i int) { p.members[i].ordering.read(p.members[i].Annotations) })
	for _, c := range charts {
		p.orderSubcharts(c)
		p.read(c)
		if p.upstream {
			c.subchartsFirst()
		}
	}
	p.resolveDuplicates(charts)
	p.checkWaitFor()
	p.warnIgnoredDrift(charts)
	for _, c := range charts {
		p.sequence(c)
	}
	var plan *Plan
	if len(p.errors) == 0 {
		plan = p.link(charts)
	}
	p.errors.sort()
	if len(p.errors) > 0 {
		return nil
	}
	return plan
}

// read checks the annotations of a chart's objects, resolves the subcharts that they name, and turns
// weights into groups (R18 to R20).
//
// Rule R2: an invalid list is a warning, or an error where order or readiness would be lost silently
func (p *planner) read(c *chartNode) {
	var uses [methods]*member
	weighted := false
	for _, m := range c.members {
		for by, key := range m.uses {
			if key != "" && uses[by] == nil {
				uses[by] = m
			}
		}
		p.checkKeys(c, m)
		p.checkReadiness(c, m)
		for _, fault := range m.faults {
			p.warn("R2", c.path, &m.Object, "%s: %s, so the object is %s", m.Object, fault, deployedLast)
		}
		if len(m.faults) == 0 && m.group == "" && len(m.needs)+len(m.charts) > 0 && m.weight == nil {
			missing := AnnotationGroup
			if m.uses[byLayer] != "" {
				missing = AnnotationLayer
			}
			p.warn("R10", c.path, &m.Object, "%s has %s but belongs to no group, so the object is %s; add %s",
				m.Object, cmp.Or(m.needsKey, m.chartsKey), deployedLast, missing)
		}
		for _, ref := range m.charts {
			if e := p.resolve(c, ref, fmt.Sprintf("%s: %s names", m.Object, m.chartsKey), &m.Object); e != nil {
				m.waits = append(m.waits, e.node)
			}
		}
		weighted = weighted || m.weight != nil
	}
	p.failMixedMethods(c, uses)
	if weighted {
		for _, m := range c.members {
			if m.weight == nil && len(m.faults) == 0 {
				m.weight = new(int64)
			}
			if m.weight != nil {
				m.group = strconv.FormatInt(*m.weight, 10)
			}
		}
	}
}

// checkKeys reports unknown and misplaced annotations.
//
// Rule R2b: a misspelt key is a warning, or an error if the API server would refuse it
func (p *planner) checkKeys(c *chartNode, m *member) {
	for key := range m.Annotations {
		hint, near := "", Misspelt(key)
		if near != "" {
			hint = "; did you mean " + near + "?"
		}
		switch {
		case strings.Count(key, "/") > 1 && near != "":
			p.fail("R2b", c.path, &m.Object, "%s: annotation %s is unknown, and the API server would refuse it%s", m.Object, key, hint)
		case strings.Count(key, "/") > 1 && storedKeys[key] == "":
			p.fail("R2b", c.path, &m.Object, "%s: the API server would refuse annotation %s, because its key has more than one slash", m.Object, key)
		case near != "":
			p.warn("R2b", c.path, &m.Object, "%s: annotation %s is unknown and has no effect%s", m.Object, key, hint)
		case StoredKey(key) == storedKeys[AnnotationSubchartDependsOn]:
			p.warn("R2b", c.path, &m.Object, "%s: annotation %s has no effect on an object; set it in Chart.yaml", m.Object, key)
		}
	}
}

// Rule R20: a chart orders its objects by one method: groups, layers or weights
func (p *planner) failMixedMethods(c *chartNode, uses [methods]*member) {
	var seen []string
	for by, m := range uses {
		if m != nil {
			seen = append(seen, fmt.Sprintf("%s has %s", m.Object, m.uses[by]))
		}
	}
	if len(seen) > 1 {
		p.fail("R20", c.path, nil, "the chart mixes methods of ordering objects; use only one: %s", strings.Join(seen, ", "))
	}
}

// resolveDuplicates refuses objects that are in two groups (R13). Helm accepts an object that several charts render, so one
// that is unsequenced in all of them stays in the chart that is last in the manifest: its version is applied (R2a).
func (p *planner) resolveDuplicates(charts []*chartNode) {
	for rest := p.members; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Object == rest[0].Object {
			n++
		}
		p.resolveDuplicate(rest[:n])
		rest = rest[n:]
	}
	for _, c := range charts {
		c.members = slices.DeleteFunc(c.members, func(m *member) bool { return m.duplicate })
	}
}

// resolveDuplicate resolves the duplicates of one object.
func (p *planner) resolveDuplicate(all []member) {
	first, last := &all[0], &all[0]
	for i := range all[1:] {
		m := &all[i+1]
		inOne := m.chart == first.chart && m.group == first.group // planner.group warns about it
		if !inOne && (first.group != "" || m.group != "") {
			p.fail("R13", m.chart.path, &m.Object, "%s is in two groups: %s and %s; keep it in one", describe(m.Object),
				groupID(first.chart.path, cmp.Or(first.group, Unsequenced)), groupID(m.chart.path, cmp.Or(m.group, Unsequenced)))
			return
		}
		if m.Source > last.Source { // Helm sorts templates by their names
			last = m
		}
	}
	for i := range all {
		if m := &all[i]; m.chart != last.chart {
			p.warn("R13", m.chart.path, &m.Object, "%s is also in %s, and only that one is applied, because it is last in the manifest; remove one of the two", m.Object, last.chart.path)
			m.duplicate = true
		}
	}
}

// describe names an object, with its namespace if it has one.
func describe(o Object) string {
	if o.Namespace == "" {
		return o.String()
	}
	return fmt.Sprintf("%s (namespace %s)", o, o.Namespace)
}

// maxDependencies limits the dependencies of all groups, because they take memory: if a chart with
// thousands of groups waits for another one, there are millions.
const maxDependencies = 4_000_000

// link makes the groups of the plan from the drafts of all charts (R11, R14).
func (p *planner) link(charts []*chartNode) *Plan {
	groups := []*Group{}
	dependencies := 0
	var drafts []*draft
	for _, c := range charts {
		drafts = append(drafts, c.groups...)
	}
	parallel.Each(len(drafts), func(i int) { drafts[i].arranged = arrange(drafts[i].members) })
	for _, c := range charts {
		inherited := append(slices.Clip(c.inheritedDependencies()), allWaitTargets(c.ownWaits)...)
		for _, d := range c.groups {
			g := p.group(d)
			g.After = append(g.After, d.after...)
			g.After = append(g.After, inherited...)
			g.After = append(g.After, allWaitTargets(d.waits())...)
			groups = append(groups, g)
			if dependencies += len(g.After); dependencies > maxDependencies {
				p.fail("R11", c.path, nil, "the plan is too large: more than %d dependencies between groups; "+
					"use fewer groups, or fewer dependencies between large charts", maxDependencies)
				return nil
			}
		}
	}
	if !normalize(groups) {
		p.failGraph(charts[0].path, groups)
	}
	p.markNoReturn(groups)
	AwaitedJobs.Complete(groups)
	p.warnHeldBack(groups)
	return &Plan{Groups: groups, Warnings: p.sortedWarnings()}
}

// failGraph reports cycles between groups of several charts, which exist only if a chart is part of itself.
func (p *planner) failGraph(root string, groups []*Group) {
	names := make([]string, len(groups))
	slices.SortFunc(groups, func(a, b *Group) int { return strings.Compare(a.ID, b.ID) })
	for i, g := range groups {
		names[i] = g.ID
	}
	p.failCycles(root, "groups", names, dependencyIndexes(groups))
}

// group makes a group of the plan from an arranged draft, without its dependencies (R15).
func (p *planner) group(d *draft) *Group {
	a := d.arranged
	for _, o := range a.duplicates {
		p.warn("R13", d.chart, &o, "%s is rendered more than once; the last one in the manifest is applied; remove the others", describe(o))
	}
	for _, r := range a.refused {
		p.warn("R16", d.chart, &r.object, "%s: %s is ignored, because %s", r.object, AnnotationInstallBefore, r.why)
	}
	g := &Group{
		ID: d.id, Chart: d.chart, Name: d.name,
		After: []string{}, Objects: a.objects, Waves: a.waves, layered: d.layered,
	}
	g.addWaits(d.members)
	g.addWaitFor(d.members)
	g.addApprovals(d.members, p.charts[d.chart])
	for _, m := range d.members {
		g.NoReturn = JoinReasons(g.NoReturn, ReadNoReturn(m.Annotations))
	}
	return g
}

// sortedWarnings returns the warnings sorted and without duplicates.
func (p *planner) sortedWarnings() []Warning {
	slices.SortStableFunc(p.warnings, func(a, b Warning) int {
		return cmp.Or(strings.Compare(a.Chart, b.Chart), compareRules(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
	unique := slices.CompactFunc(p.warnings, func(a, b Warning) bool {
		return a.Rule == b.Rule && a.Message == b.Message && (a.Object == nil) == (b.Object == nil) &&
			(a.Object == nil || *a.Object == *b.Object)
	})
	return append([]Warning{}, unique...)
}

func compareRules(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
