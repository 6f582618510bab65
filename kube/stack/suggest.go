package stack

import (
	"cmp"
	"fmt"
	"slices"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// RenderedRelease is a release of a helmfile, rendered without a cluster.
type RenderedRelease struct {
	ID    string
	Needs []string
	*charts.Rendered
}

// Need is a dependency between releases that their objects imply.
type Need struct {
	Release string `json:"release"`
	Needs   string `json:"needs"`
	// Why is the strongest reason: "Deployment/a waits for Service/b: …".
	Why string `json:"why"`
}

// SuggestNeeds returns the needs that the objects of releases imply and the file lacks: calls of
// another release's Service, objects of a kind that another release defines, and references to
// objects of another release (R60). It omits needs that would form a cycle.
func SuggestNeeds(releases []RenderedRelease) []Need {
	owner, objects := map[plan.Object]string{}, []infer.Object{}
	add := func(id string, docs []charts.Document, resources []plan.Resource) {
		for i, r := range resources {
			if _, taken := owner[r.Object]; !taken {
				owner[r.Object] = id
				r.Chart, r.Annotations = "stack", nil // as one chart without a declared order
				objects = append(objects, infer.Object{Resource: r, Fields: docs[i].Object.Object})
			}
		}
	}
	needs := map[string]map[string]bool{}
	for _, r := range releases {
		needs[r.ID] = map[string]bool{}
		for _, n := range r.Needs {
			needs[r.ID][n] = true
		}
		add(r.ID, r.CRDs, charts.Resources(r.CRDs, r.Release.Namespace, charts.OfflineScope(r.CRDs...)))
		add(r.ID, r.Docs, r.Resources)
	}
	edges := infer.From("stack", nil, objects).Edges
	slices.SortStableFunc(edges, func(a, b infer.Edge) int { return cmp.Compare(b.Strength, a.Strength) })
	var found []Need
	for _, e := range edges {
		from, to := owner[e.From], owner[e.To]
		if e.Strength == infer.Soft || from == "" || to == "" || from == to || reaches(needs, from, to) || reaches(needs, to, from) {
			continue
		}
		needs[from][to] = true
		found = append(found, Need{from, to, fmt.Sprintf("%s waits for %s: %s", e.From, e.To, e.Reason.Text)})
	}
	// Remove needs that other needs imply.
	found = slices.DeleteFunc(found, func(n Need) bool {
		delete(needs[n.Release], n.Needs)
		if reaches(needs, n.Release, n.Needs) {
			return true
		}
		needs[n.Release][n.Needs] = true
		return false
	})
	slices.SortFunc(found, func(a, b Need) int { return cmp.Or(cmp.Compare(a.Release, b.Release), cmp.Compare(a.Needs, b.Needs)) })
	return found
}

// reaches reports whether a release needs another one, directly or not.
func reaches(needs map[string]map[string]bool, from, to string) bool {
	seen := map[string]bool{}
	var visit func(id string) bool
	visit = func(id string) bool {
		for n := range needs[id] {
			if n == to {
				return true
			}
			if !seen[n] {
				seen[n] = true
				if visit(n) {
					return true
				}
			}
		}
		return false
	}
	return visit(from)
}
