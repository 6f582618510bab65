package annotate

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"lockstep/engine/plan"
)

// check renders the chart with all insertions. It has to be what it was, and its
// plan, with what is left put in, the one that is wanted.
func (w *writer) check(order Order, wanted *plan.Plan) error {
	insert := map[string][]insertion{}
	for name, f := range w.files {
		if len(f.insert) > 0 {
			insert[name] = f.insert
		}
	}
	r, err := w.render(insert)
	if err != nil {
		return err
	}
	if err := w.same(r); err != nil {
		return err
	}
	left := map[plan.Object]bool{}
	for _, l := range w.left {
		for _, o := range l.Objects {
			left[o] = true
		}
	}
	to := map[plan.Object]plan.Resource{}
	for _, res := range order.Resources {
		to[res.Object] = res
	}
	resources := slices.Clone(r.Resources)
	for i, res := range resources {
		if target, ok := to[res.Object]; ok && left[res.Object] {
			resources[i].Annotations = maps.Clone(target.Annotations)
		}
	}
	tree := r.Tree
	if slices.ContainsFunc(w.left, func(l Left) bool { return l.Objects == nil }) {
		tree = order.Tree
	}
	got, err := plan.Build(tree, resources)
	if err != nil {
		return err
	}
	return equal(got, wanted)
}

// equal tells, as an error, where one plan is not the other.
func equal(got, wanted *plan.Plan) error {
	for _, g := range wanted.Groups {
		is := got.Group(g.ID)
		switch {
		case is == nil:
			return fmt.Errorf("there would be no group %s", g.ID)
		case !slices.Equal(is.After, g.After):
			return fmt.Errorf("group %s would wait for %v in place of %v", g.ID, is.After, g.After)
		case !reflect.DeepEqual(is.Objects, g.Objects) || is.JobsComplete != g.JobsComplete:
			return fmt.Errorf("group %s would have other objects: %v", g.ID, is.Objects)
		}
	}
	if len(got.Groups) != len(wanted.Groups) {
		return errors.New("there would be more groups")
	}
	return nil
}
