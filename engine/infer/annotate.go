package infer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// inferred returns the annotations to add. Lists are JSON in a string.
func (o *Order) inferred() (all []plan.Inferred) {
	layers := map[string]bool{}
	for _, c := range o.Charts {
		layers[c.Path] = c.Layers
	}
	for _, g := range o.Groups {
		if g.Declared {
			continue
		}
		add := map[string]string{plan.AnnotationGroup: g.Name}
		needs := plan.AnnotationGroupDependsOn
		if layers[g.Chart] {
			add, needs = map[string]string{plan.AnnotationLayer: g.Name}, plan.AnnotationLayerDependsOn
		}
		if len(g.After) > 0 {
			add[needs] = jsonList(g.After)
		}
		if layers[g.Chart] && len(g.Subcharts) > 0 {
			add[plan.AnnotationLayerChart] = jsonList(g.Subcharts)
		}
		entries := map[readiness]*plan.Inferred{}
		for _, object := range g.Objects {
			ready := readiness{}
			switch {
			case o.jobs[object] && !layers[g.Chart]:
				ready = readiness{jobComplete, jobFailed}
			case o.claims[object]:
				ready = readiness{claimExists, claimLost}
			}
			if entries[ready] == nil {
				entries[ready] = &plan.Inferred{Chart: g.Chart, Annotations: ready.annotations(add)}
			}
			entries[ready].Objects = append(entries[ready].Objects, object)
		}
		for _, ready := range []readiness{{}, {jobComplete, jobFailed}, {claimExists, claimLost}} {
			if entries[ready] != nil {
				all = append(all, *entries[ready])
			}
		}
	}
	return all
}

// readiness are the readiness expressions of an object (R23), "" for none.
type readiness struct{ success, failure string }

// annotations returns a copy of annotations with the expressions.
func (r readiness) annotations(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	if r != (readiness{}) {
		out[plan.AnnotationReadinessSuccess], out[plan.AnnotationReadinessFailure] = jsonList([]string{r.success}), jsonList([]string{r.failure})
	}
	return out
}

// The readiness expressions of a Job that others wait for, and of a claim that several workloads use: it may be bound only
// once a pod uses it, so it need only exist.
const (
	jobComplete = `{.conditions[?(@.type=="Complete")].status} == True`
	jobFailed   = `{.conditions[?(@.type=="Failed")].status} == True`
	claimExists = `{.phase} != Lost`
	claimLost   = `{.phase} == Lost`
)

func jsonList(names []string) string {
	text, _ := json.Marshal(names) // strings never fail
	return string(text)
}

// Annotate returns the input of plan.Build with the order added. It does not modify its arguments.
func (o *Order) Annotate(tree *plan.Chart, resources []plan.Resource) (*plan.Chart, []plan.Resource) {
	root := plan.Chart{Inferred: o.inferred()}
	if tree != nil {
		root.Path = tree.Path
	}
	return o.withDependencies(tree), root.Annotate(resources)
}

// withDependencies returns a copy of the chart tree with the additions to Chart.yaml.
func (o *Order) withDependencies(tree *plan.Chart) *plan.Chart {
	if tree == nil {
		return nil
	}
	c := *tree
	i := slices.IndexFunc(o.Charts, func(x Chart) bool { return x.Path == tree.Path })
	if i >= 0 && len(o.Charts[i].DependsOn) > 0 {
		c.DependsOn = union(c.DependsOn, o.Charts[i].DependsOn)
	}
	c.Subcharts = slices.Clone(c.Subcharts)
	for n := range c.Subcharts {
		s := &c.Subcharts[n]
		if i >= 0 && s.Chart != nil {
			s.DependsOn = union(s.DependsOn, o.Charts[i].Subcharts[s.ID()])
		}
		s.Chart = o.withDependencies(s.Chart)
	}
	return &c
}

// union returns the names of a, then those of b that a lacks.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Check returns an error if the release cannot be installed in any order, because objects
// need each other to exist first.
func (o *Order) Check() error {
	var errs plan.Errors
	reported := map[string]bool{} // cycles
	for _, d := range o.Dropped {
		cycle := d.cycleText()
		if !d.Error || reported[cycle] {
			continue
		}
		reported[cycle] = true
		from := d.From
		errs = append(errs, &plan.Error{Rule: "R66", Chart: d.Chart, Object: &from,
			Message: fmt.Sprintf("objects need each other to exist first, in a cycle: %s; remove one of these references", cycle)})
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// Warnings returns the warnings about dropped edges. Edges that were dropped for the same reason, and
// are on the same cycle or from the same object, share one.
func (o *Order) Warnings() []plan.Warning {
	warningByCycle := map[string]int{}
	var warnings []plan.Warning
	count := map[int]int{}
	for _, d := range o.Dropped {
		if d.Error {
			continue
		}
		at, known := -1, false
		names := append(slices.Clip(d.Cycle), d.From.String())
		for _, name := range names {
			if n, ok := warningByCycle[d.Why+name]; ok {
				at, known = n, true
			}
		}
		if !known {
			at = len(warnings)
			from := d.From
			message := fmt.Sprintf("ignored: %s waits for %s (%s), because %s", d.From, d.To, d.Reason.Text, d.Why)
			if len(d.Cycle) > 0 {
				message = fmt.Sprintf("%s: %s; ignored: %s", d.Why, d.cycleText(), d.Edge)
			}
			warnings = append(warnings, plan.Warning{Rule: "R66", Chart: d.Chart, Object: &from, Message: message})
		}
		for _, name := range names {
			warningByCycle[d.Why+name] = at
		}
		count[at]++
	}
	for at, n := range count {
		if n > 1 {
			warnings[at].Message += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	return warnings
}

// cycleText returns the cycle with its first element repeated at the end.
func (d Dropped) cycleText() string {
	if len(d.Cycle) == 0 {
		return ""
	}
	return strings.Join(append(slices.Clip(d.Cycle), d.Cycle[0]), " → ")
}
