package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The severities of a Finding.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
	SeverityInfo    = "info" // needs no fix
)

// Finding is a mistake in a chart that Lint found.
type Finding struct {
	// Severity is SeverityError, SeverityWarning or SeverityInfo.
	Severity string `json:"severity"`
	// Rule is the number of the rule, "R8".
	Rule string `json:"rule"`
	// Chart is the chart path, Object the object that it is about, if there is one.
	Chart   string  `json:"chart,omitempty"`
	Object  *Object `json:"object,omitempty"`
	Message string  `json:"message"`
}

// SeverityOf returns the severity of a warning about a chart, by its rule. SeverityError means that objects lose their
// order or their readiness condition, which --strict refuses.
func SeverityOf(rule string) string {
	switch rule {
	case "R2", "R8", "R24":
		return SeverityError
	}
	return SeverityWarning
}

// Lint reports mistakes in the declared order (R37), errors first, and notes last. Errors are everything that makes
// Build fail, objects and groups that lose their order (R2, R8), and a readiness annotation without
// the other one (R24). The chart is deployed with this --wait-for-jobs.
//
// Rule R37: losing the order is an error, a probable mistake a warning
func (j Jobs) Lint(root *Chart, resources []Resource) []Finding {
	p := newPlanner(root, resources)
	plan := p.build()
	for _, c := range p.sortedCharts() {
		p.warnUndeclared(c)
	}
	if plan != nil {
		j.Complete(plan.Groups)
		p.warnReadyEarly(plan)
		p.warnNotAwaited(plan)
		p.warnNeverPassed(plan)
		p.warnUnprobed(plan)
	}
	var findings []Finding
	for _, e := range p.errors {
		findings = append(findings, Finding{SeverityError, e.Rule, e.Chart, e.Object, e.Chart + ": " + e.Message})
	}
	for _, w := range p.sortedWarnings() {
		findings = append(findings, Finding{SeverityOf(w.Rule), w.Rule, w.Chart, w.Object, w.Message})
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			strings.Compare(a.Severity, b.Severity),
			strings.Compare(a.Chart, b.Chart),
			compareRules(a.Rule, b.Rule),
			strings.Compare(a.Message, b.Message),
		)
	})
	if plan != nil {
		findings = append(findings, p.laterUpstream(plan)...)
	}
	return findings
}

// laterUpstream notes where a chart with any declared order would be deployed in another order with --order=upstream (R11a).
func (p *planner) laterUpstream(plan *Plan) (notes []Finding) {
	if p.upstream || !slices.ContainsFunc(plan.Groups, func(g *Group) bool { return len(g.After) > 0 }) {
		return nil
	}
	byID := map[string]*Group{}
	for _, g := range plan.Groups {
		byID[g.ID] = g
	}
	note := func(c *chartNode, format string, args ...any) {
		notes = append(notes, Finding{SeverityInfo, "R11a", c.path, nil, c.path + ": with --order=upstream, " + fmt.Sprintf(format, args...)})
	}
	hasGroups := func(c *chartNode) bool { return len(c.subtree()) > 0 }
	for _, c := range p.sortedCharts() {
		listed, others := c.listedChildren()
		if slices.ContainsFunc(listed, hasGroups) {
			for _, other := range others {
				if hasGroups(other) {
					note(c, "subchart %q, which Chart.yaml does not list, waits for those that it lists", other.name(c))
				}
			}
		}
		if len(c.children) == 0 || len(c.groups) == 0 {
			continue
		}
		var more []string
		waits := c.commonDependencies(byID)
		for _, child := range c.children {
			if slices.ContainsFunc(child.subtree(), func(id string) bool { return !waits[id] }) {
				more = append(more, strconv.Quote(child.name(c)))
			}
		}
		if len(more) > 0 {
			what := "subchart"
			if len(more) > 1 {
				what = "subcharts"
			}
			slices.Sort(more)
			note(c, "all of the chart's own objects also wait for %s %s; to get that order without the flag, use %s in Chart.yaml",
				what, strings.Join(more, ", "), AnnotationSubchartDependsOn)
		}
	}
	return notes
}

// name returns the last part of the path of a subchart of parent.
func (c *chartNode) name(parent *chartNode) string { return c.path[len(parent.path)+1:] }

// commonDependencies returns the groups that all groups of the chart wait for, directly or not.
func (c *chartNode) commonDependencies(byID map[string]*Group) map[string]bool {
	var common map[string]bool
	for _, d := range c.groups {
		next := slices.Clone(byID[d.id].After)
		if slices.ContainsFunc(next, func(id string) bool { return byID[id].Chart == c.path }) {
			continue // it waits for at least what that group waits for
		}
		reached := map[string]bool{}
		for len(next) > 0 {
			id := next[len(next)-1]
			if next = next[:len(next)-1]; !reached[id] {
				reached[id] = true
				next = append(next, byID[id].After...)
			}
		}
		if common == nil {
			common = reached
		}
		maps.DeleteFunc(common, func(id string, _ bool) bool { return !reached[id] })
	}
	return common
}

// warnUndeclared warns about subcharts without an order if other subcharts have one. It ignores
// subcharts that render nothing, such as libraries.
func (p *planner) warnUndeclared(c *chartNode) {
	if !slices.ContainsFunc(c.entries, func(e *entry) bool { return e.ordered }) {
		return
	}
	for _, e := range c.entries {
		if !e.ordered && e.node != nil && len(e.node.subtree()) > 0 {
			p.warn("R11", c.path, nil, "subchart %q waits for nothing and nothing waits for it, unlike other subcharts; "+
				"it is deployed in parallel with the other subcharts", e.ID())
		}
	}
}

// warnReadyEarly warns about dependencies that may count as ready earlier than expected: Jobs once
// they have started (StartedJobs), and LoadBalancer Services without an address (R22).
func (p *planner) warnReadyEarly(plan *Plan) {
	custom, loadBalancer := make(map[Object]bool), make(map[Object]bool)
	for _, c := range p.sortedCharts() {
		for _, m := range c.members {
			custom[m.Object], loadBalancer[m.Object] = m.hasCustomReadiness(), m.LoadBalancer
		}
	}
	dependencies := plan.Dependencies()
	for _, g := range plan.Groups {
		if !dependencies[g.ID] {
			continue
		}
		for _, o := range g.Objects {
			switch {
			case custom[o]:
			case loadBalancer[o]:
				p.warn("R22", g.Chart, &o, "%s: other groups wait for it, but a LoadBalancer Service counts as ready without an address; "+
					"to wait for the address, annotate the Service with both %s, such as {.loadBalancer.ingress[0].ip} != none, and %s, such as {.loadBalancer.error} == true",
					o, AnnotationReadinessSuccess, AnnotationReadinessFailure)
			case o.IsJob() && !g.JobsComplete:
				layer := AnnotationLayer + " or with "
				if p.charts[g.Chart].mixesWithLayers() {
					layer = ""
				}
				p.warn("R22", g.Chart, &o, "%s: other groups wait for it, but with --wait-for-jobs=false they start once it has started; "+
					"to wait until it completes, leave out that flag, or annotate the Job with %sboth %s and %s",
					o, layer, AnnotationReadinessSuccess, AnnotationReadinessFailure)
			}
		}
	}
}

// warnHeldBack warns about dependencies that their own spec keeps from getting further (R22).
func (p *planner) warnHeldBack(groups []*Group) {
	held := make(map[Object]string)
	for _, c := range p.sortedCharts() {
		for _, m := range c.members {
			if m.HeldBack != "" && !m.hasCustomReadiness() {
				held[m.Object] = m.HeldBack
			}
		}
	}
	dependencies := (&Plan{Groups: groups}).Dependencies()
	for _, g := range groups {
		for _, o := range g.Objects {
			switch why := held[o]; {
			case why == "" || !dependencies[g.ID]:
			case o.Kind == "Job" && g.JobsComplete:
				p.warn("R22", g.Chart, &o, "%s: other groups wait until it completes, but it never starts (%s); "+
					"resume it, or let no group wait for it", o, why)
			default:
				p.warn("R22", g.Chart, &o, "%s: other groups wait for it, but it counts as ready as it is (%s)", o, why)
			}
		}
	}
}

// warnUnprobed warns about workloads that others wait for, but that show only that they have started (R22c). That the other
// objects of a chart come last (R10) does not count: nobody has declared it.
func (p *planner) warnUnprobed(plan *Plan) {
	byID, awaited := map[string]*Group{}, map[string]bool{}
	for _, g := range plan.Groups {
		byID[g.ID] = g
	}
	for _, g := range plan.Groups {
		for _, id := range g.After {
			if g.Name != Unsequenced || byID[id].Chart != g.Chart {
				awaited[id] = true
			}
		}
	}
	unprobed := map[Object]string{}
	for _, c := range p.sortedCharts() {
		for _, m := range c.members {
			if m.HeldBack == "" && !m.Wait.Never && m.Wait.StableFor == 0 && !m.hasCustomReadiness() {
				unprobed[m.Object] = m.Unprobed
			}
		}
	}
	for _, g := range plan.Groups {
		for _, o := range g.Objects {
			if container := unprobed[o]; container != "" && awaited[g.ID] {
				p.warn("R22c", g.Chart, &o, "%s: other groups wait for it, but its container %s has neither a readiness nor a startup probe, "+
					"so they start as soon as it has started; add a readinessProbe, or annotate it with %s, such as 10s", o, container, AnnotationStableFor)
			}
		}
	}
}

// mixesWithLayers reports whether a layer would be a second method of ordering the chart's objects (R20).
func (c *chartNode) mixesWithLayers() bool {
	return slices.ContainsFunc(c.members, func(m *member) bool { return m.uses[byGroup] != "" || m.uses[byWeight] != "" })
}
