package plan

import "maps"

// Inferred are additional annotations of some objects of a chart, used only for planning: neither
// the cluster nor a manifest has them. An object's own annotations take precedence.
type Inferred struct {
	Chart       string            `json:"chart"`
	Annotations map[string]string `json:"annotations"`
	Objects     []Object          `json:"objects"`
}

// Annotate returns the objects with their inferred annotations. It does not modify its
// arguments. c is the root chart and may be nil.
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
			r.Annotations = mergeAnnotations(more, r.Annotations)
		}
		annotated[i] = r
	}
	return annotated
}

// mergeAnnotations adds annotations to an object's own, which take precedence in either spelling.
func mergeAnnotations(more, own map[string]string) map[string]string {
	all := maps.Clone(own)
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range more {
		if _, ok := Annotation(own, key); !ok {
			all[key] = value
		}
	}
	return all
}
