package infer

import (
	"encoding/json"
	"maps"
	"slices"

	"lockstep/engine/plan"
)

// Place is an object of a chart.
type Place struct {
	Chart  string
	Object plan.Object
}

// Annotations returns what to add to the annotations of objects, for those that
// get any. Lists are JSON in a string.
func (o *Order) Annotations() map[Place]map[string]string {
	layers := map[string]bool{}
	for _, c := range o.Charts {
		layers[c.Path] = c.Layers
	}
	out := map[Place]map[string]string{}
	for _, g := range o.Groups {
		if g.Name == plan.Unsequenced || g.Written {
			continue
		}
		add := map[string]string{plan.AnnotationGroup: g.Name}
		needs := plan.AnnotationGroupDependsOn
		if layers[g.Chart] {
			add, needs = map[string]string{plan.AnnotationLayer: g.Name}, plan.AnnotationLayerDependsOn
		}
		if len(g.After) > 0 {
			add[needs] = list(g.After)
		}
		if layers[g.Chart] && len(g.Subcharts) > 0 {
			add[plan.AnnotationLayerChart] = list(g.Subcharts)
		}
		for _, object := range g.Objects {
			own := maps.Clone(add)
			if o.jobs[object] && !layers[g.Chart] {
				own[plan.AnnotationReadinessSuccess] = list([]string{jobComplete})
				own[plan.AnnotationReadinessFailure] = list([]string{jobFailed})
			}
			out[Place{g.Chart, object}] = own
		}
	}
	return out
}

// The end of a Job, whatever its number of completions and retries (R23).
const (
	jobComplete = `{.conditions[?(@.type=="Complete")].status} == True`
	jobFailed   = `{.conditions[?(@.type=="Failed")].status} == True`
)

func list(names []string) string {
	text, _ := json.Marshal(names) // strings always can be
	return string(text)
}

// Annotate returns the input of plan.Build with the order written into it. It
// shares with what it was given only what it does not change.
func (o *Order) Annotate(tree *plan.Chart, resources []plan.Resource) (*plan.Chart, []plan.Resource) {
	add := o.Annotations()
	annotated := slices.Clone(resources)
	for i, r := range annotated {
		path := r.Chart
		if path == "" && tree != nil {
			path = tree.Path
		}
		more := add[Place{path, r.Object}]
		if more == nil {
			continue
		}
		all := maps.Clone(r.Annotations)
		if all == nil {
			all = map[string]string{}
		}
		for key, value := range more {
			if _, written := all[key]; !written {
				all[key] = value
			}
		}
		annotated[i].Annotations = all
	}
	return o.tree(tree), annotated
}

// tree is a copy of the chart tree with what Chart.yaml is to say.
func (o *Order) tree(tree *plan.Chart) *plan.Chart {
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
			s.DependsOn = union(s.DependsOn, o.Charts[i].Subcharts[subchartName(*s)])
		}
		s.Chart = o.tree(s.Chart)
	}
	return &c
}

// union are the names of both lists, in their order.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// subchartName is what a subchart is called within its parent.
func subchartName(s plan.Subchart) string {
	if s.Alias != "" {
		return s.Alias
	}
	return s.Name
}
