package charts

import "lockstep/engine/infer"

// Ordered returns the chart as if its author had written down the order that its
// objects imply, and that order. What is written stands.
func (r *Rendered) Ordered() (*Rendered, *infer.Order) {
	objects := make([]infer.Object, len(r.Docs))
	for i, d := range r.Docs {
		objects[i] = infer.Object{Resource: r.Resources[i], Fields: d.Object.Object}
	}
	order := infer.From(r.Release.Name, r.Tree, objects)
	ordered := *r
	ordered.Tree, ordered.Resources = order.Annotate(r.Tree, r.Resources)
	return &ordered, order
}
