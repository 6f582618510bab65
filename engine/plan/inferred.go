package plan

import "maps"

// Inferred are annotations that resources of a chart are planned by besides their
// own. They are a part of the plan alone: neither the cluster nor a manifest has
// them. What a resource says itself counts before them.
type Inferred struct {
	Chart       string            `json:"chart"`
	Annotations map[string]string `json:"annotations"`
	Objects     []Object          `json:"objects"`
}

// Annotate returns resources as they are planned: with the annotations that were
// inferred for them. It shares with what it was given all that it does not change;
// the chart, which is that at the top, may be nil.
func (c *Chart) Annotate(resources []Resource) []Resource {
	if c == nil || len(c.Inferred) == 0 {
		return resources
	}
	type place struct {
		chart  string
		object Object
	}
	inferred := map[place]map[string]string{}
	for _, in := range c.Inferred {
		for _, o := range in.Objects {
			inferred[place{in.Chart, o}] = in.Annotations
		}
	}
	annotated := make([]Resource, len(resources))
	for i, r := range resources {
		chart := r.Chart
		if chart == "" {
			chart = c.Path // R6
		}
		if more := inferred[place{chart, r.Object}]; more != nil {
			r.Annotations = withOwn(more, r.Annotations)
		}
		annotated[i] = r
	}
	return annotated
}

// withOwn adds annotations to those that a resource has itself, in either spelling.
func withOwn(more, own map[string]string) map[string]string {
	all := maps.Clone(own)
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range more {
		if _, said := Annotation(own, key); !said {
			all[key] = value
		}
	}
	return all
}
