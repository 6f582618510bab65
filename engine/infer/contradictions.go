package infer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// Contradictions returns a finding for each reference between objects that the declared order of a
// plan contradicts: the referenced object comes later, or is not ordered.
//
// Rule R70: a declared order is kept; lint reports where it cannot work
func (o *Order) Contradictions(p *plan.Plan) []plan.Finding {
	byObject, byID := indexGroups(p.Groups)
	cache := map[string]map[string]bool{}
	earlier := func(g *plan.Group) map[string]bool { // the groups that end before g starts
		if cache[g.ID] == nil {
			cache[g.ID] = reach(g.After, func(id string) []string {
				if byID[id] == nil {
					return nil
				}
				return byID[id].After
			})
		}
		return cache[g.ID]
	}
	edges := slices.Clone(o.Edges)
	for _, d := range o.Dropped {
		edges = append(edges, d.Edge)
	}
	slices.SortStableFunc(edges, Edge.Compare)
	edges = slices.CompactFunc(edges, func(e, f Edge) bool { return e.Compare(f) == 0 && e.Strength == f.Strength }) // some are both kept and dropped
	findings := []plan.Finding{}
	for _, e := range edges {
		from, to := byObject[e.From], byObject[e.To]
		if e.Strength != Hard || from == nil || to == nil || from == to || earlier(from)[to.ID] {
			continue
		}
		later := earlier(to)[from.ID]
		if !later && (from.Name == plan.Unsequenced || slices.Equal(from.After, to.After)) {
			continue // not ordered; groups that start together are applied by kind (R15a)
		}
		findings = append(findings, contradiction(e, from, to, later))
	}
	slices.SortStableFunc(findings, func(a, b plan.Finding) int {
		return cmp.Or(strings.Compare(a.Severity, b.Severity), strings.Compare(a.Chart, b.Chart))
	})
	return findings
}

// contradiction returns the finding for an edge between two groups. later means that the referenced
// object comes later.
func contradiction(e Edge, from, to *plan.Group, later bool) plan.Finding {
	f := plan.Finding{Severity: plan.SeverityWarning, Rule: "R70", Chart: from.Chart, Object: &e.From}
	when := "is not ordered before it"
	if later {
		when = "comes after it"
		if requiredKinds[e.To.Kind] {
			f.Severity = plan.SeverityError
		}
	}
	f.Message = fmt.Sprintf("%s: %s waits for %s, but %s needs %s in %s, which %s: %s",
		from.Chart, from.Name, dependencyNames(from), e.From, e.To, groupName(from, to), when, e.Reason.Text)
	return f
}

// requiredKinds are the kinds of objects that must exist before the objects that name them: otherwise
// the API server refuses these, or their pods do not start, and their group never becomes ready.
var requiredKinds = map[string]bool{"Namespace": true, "CustomResourceDefinition": true, "ConfigMap": true, "Secret": true,
	"PersistentVolumeClaim": true, "ServiceAccount": true, "PriorityClass": true, "RuntimeClass": true}

// dependencyNames lists the groups that a group waits for, those of its own chart by name only.
func dependencyNames(g *plan.Group) string {
	var names []string
	for _, id := range g.After {
		names = append(names, strings.TrimPrefix(id, g.Chart+":"))
	}
	switch n := len(names) - 3; {
	case len(names) == 0:
		return "nothing"
	case n > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), n)
	}
	return text.JoinAnd(names)
}

// groupName names a group in a message about another one.
func groupName(from, to *plan.Group) string {
	switch {
	case from.Chart != to.Chart:
		return to.ID
	case to.Name == plan.Unsequenced:
		return "the unsequenced group"
	}
	return "group " + to.Name
}
