package phrase

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Changed names the objects that a run created, changed, replaced and deleted, a line for each: "changed: Deployment/api". In a stack the
// lines begin with the release. It returns nothing about a run that only created objects.
func Changed(s *event.State) []string {
	lines, onlyCreated := changed(s)
	if onlyCreated {
		return nil
	}
	return lines
}

func changed(s *event.State) (lines []string, onlyCreated bool) {
	onlyCreated = true
	if s.Operation.IsStack() {
		named := map[string]bool{} // a release that was rolled back has two groups
		for g := range s.GroupStates() {
			if inner := s.Scopes[g.ID]; inner != nil && !named[g.ID] {
				named[g.ID] = true
				own, created := changed(inner)
				onlyCreated = onlyCreated && created
				for _, l := range own {
					lines = append(lines, g.ID+" "+l)
				}
			}
		}
		return lines, onlyCreated
	}
	objects := s.Changed()
	for _, c := range []event.Change{event.Created, event.Configured, event.Replaced, event.Deleted} {
		if of := objects[c]; len(of) > 0 {
			lines = append(lines, c.Word()+": "+Objects(of))
			onlyCreated = onlyCreated && c == event.Created
		}
	}
	return lines, onlyCreated
}

// InAll follows the counts of a run's changes: they are those of all its revisions, not only of the last edit (R46). It is "" for a run
// without an edit.
func InAll(s *event.State) string {
	if !s.Edited() {
		return ""
	}
	return " in the whole run, edits included"
}

// Drift says who has changed fields of an object, and when: "changed by kubectl (2026-03-01 12:00:00): spec.replicas; removed by
// kubectl (…): data.a".
func Drift(drift []event.Drift) string {
	var heads []string
	fields := map[string][]string{}
	for _, d := range drift {
		head := "changed"
		if d.Gone {
			head = "removed"
		}
		head += " by " + cmp.Or(d.Manager, "somebody else")
		if !d.At.IsZero() {
			head += " (" + d.At.Local().Format(time.DateTime) + ")"
		}
		if fields[head] == nil {
			heads = append(heads, head)
		}
		fields[head] = append(fields[head], d.Field)
	}
	for i, head := range heads {
		heads[i] += ": " + strings.Join(fields[head], ", ")
	}
	return strings.Join(heads, "; ")
}

// maxOfKind is how many objects of a kind Objects names.
const maxOfKind = 5

// Objects names objects, kind by kind. Many of a kind are counted: "ConfigMap/a, 40 Deployments (api, db, web and 37 more)".
func Objects(objects []plan.Object) string {
	var kinds []string
	names := map[string][]string{}
	for _, o := range objects {
		if names[o.Kind] == nil {
			kinds = append(kinds, o.Kind)
		}
		if !slices.Contains(names[o.Kind], o.Name) { // in several namespaces
			names[o.Kind] = append(names[o.Kind], o.Name)
		}
	}
	var parts []string
	for _, k := range kinds {
		list := names[k]
		if n := len(list); n > maxOfKind {
			parts = append(parts, fmt.Sprintf("%d %s (%s and %d more)", n, plural(k), strings.Join(list[:maxOfKind-2], ", "), n-maxOfKind+2))
			continue
		}
		for _, name := range list {
			parts = append(parts, k+"/"+name)
		}
	}
	return strings.Join(parts, ", ")
}

// plural returns the plural of a kind: Deployments, Ingresses, NetworkPolicies.
func plural(kind string) string {
	switch {
	case strings.HasSuffix(kind, "ss"):
		return kind + "es"
	case strings.HasSuffix(kind, "s"):
		return kind
	case strings.HasSuffix(kind, "y") && !strings.HasSuffix(kind, "ay"):
		return strings.TrimSuffix(kind, "y") + "ies"
	}
	return kind + "s"
}
