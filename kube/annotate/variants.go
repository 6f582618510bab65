package annotate

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	chartcommon "helm.sh/helm/v4/pkg/chart/common/util"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// maxVariants limits the number of flipped values.
const maxVariants = 24

// variants renders the new chart with each boolean value flipped. It returns the groups that then lose
// their order (R69a): groups that are rendered but unsequenced, or that no longer wait for a rendered
// group. It also returns the lines with which a template that accepts a value would not be valid any more.
func (w *writer) variants(wanted *plan.Plan) ([]ManualEdit, error) {
	flips, err := w.flips()
	if err != nil {
		return nil, err
	}
	insert := w.insertions()
	if len(insert) == 0 {
		return nil, nil
	}
	found := make([][]ManualEdit, len(flips))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range flips {
		group.Go(func() (err error) {
			found[i], err = w.variant(f, insert, wanted)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	same := func(a, b ManualEdit) bool { return a.Chart == b.Chart && slices.Equal(a.Objects, b.Objects) }
	var manual []ManualEdit
	for _, m := range slices.Concat(found...) { // each group once, with the first value
		if !slices.ContainsFunc(manual, func(other ManualEdit) bool { return same(m, other) }) {
			manual = append(manual, m)
		}
	}
	return manual, nil
}

// variant returns the groups that lose their order with one flipped value.
func (w *writer) variant(f flip, insert map[string][]insertion, wanted *plan.Plan) (manual []ManualEdit, err error) {
	problem := func(g *plan.Group, why string, args ...any) {
		manual = append(manual, ManualEdit{Chart: g.Chart, Objects: g.Objects, Why: "with --set " + f.setting + " " + fmt.Sprintf(why, args...), Lines: []string{}})
	}
	var got *plan.Plan
	after, err := w.renderWith(insert, f.values)
	if err == nil {
		got, err = after.Plan()
	}
	if err != nil {
		if before, failed := w.renderWith(nil, f.values); failed != nil {
			return nil, w.ctx.Err() // the unchanged chart does not accept this value either
		} else if _, failed := before.Plan(); failed != nil {
			return nil, nil
		}
		if manual = w.broken(f); len(manual) == 0 {
			return nil, fmt.Errorf("with --set %s: %w", f.setting, err)
		}
		return manual, w.ctx.Err()
	}
	present := renderedGroups(after, wanted)
	for _, g := range wanted.Groups {
		if g.Name == plan.Unsequenced || !present[g.ID] {
			continue
		}
		actual := got.Group(g.ID)
		switch {
		case actual == nil && isolated(g, present, wanted): // it is unsequenced anyway (R9)
			continue
		case actual == nil:
			problem(g, "it would come last, with the objects that have no group")
			continue
		}
		for _, id := range g.After {
			if present[id] && !slices.Contains(actual.After, id) {
				problem(g, "it would not wait for %s", id)
				break
			}
		}
	}
	return manual, nil
}

// broken returns the lines that break the template of their place with one flipped value.
func (w *writer) broken(f flip) (manual []ManualEdit) {
	breaks := func(places []placed) bool {
		insert := map[string][]insertion{}
		for _, p := range places {
			insert[p.file] = append(insert[p.file], p.insert...)
		}
		_, err := w.renderWith(insert, f.values)
		return err != nil
	}
	for _, p := range bisect(w.placed, breaks) {
		m := ManualEdit{Chart: p.edits[0].doc.Chart, File: p.file, Line: p.line, Lines: p.edits[0].lines}
		m.Why = fmt.Sprintf("with --set %s %v", f.setting, errBroken)
		for _, e := range p.edits {
			m.Objects = append(m.Objects, e.object)
		}
		manual = append(manual, m)
	}
	return manual
}

// bisect returns the elements of a list that fail alone.
func bisect[T any](list []T, fails func([]T) bool) []T {
	switch {
	case len(list) == 0 || !fails(list):
		return nil
	case len(list) == 1:
		return list
	}
	half := len(list) / 2
	return slices.Concat(bisect(list[:half], fails), bisect(list[half:], fails))
}

// isolated reports whether a group has no rendered dependencies or dependents.
func isolated(g *plan.Group, present map[string]bool, wanted *plan.Plan) bool {
	return !slices.ContainsFunc(g.After, func(id string) bool { return present[id] }) &&
		!slices.ContainsFunc(wanted.Groups, func(h *plan.Group) bool { return present[h.ID] && slices.Contains(h.After, g.ID) })
}

// renderedGroups returns the ids of the groups of a plan that have rendered objects.
func renderedGroups(r *charts.Rendered, p *plan.Plan) map[string]bool {
	objects := objectsOf(r)
	out := map[string]bool{}
	for _, g := range p.Groups {
		out[g.ID] = slices.ContainsFunc(g.Objects, func(o plan.Object) bool { return objects[o] })
	}
	return out
}

// flip are the values of the chart with one boolean flipped.
type flip struct {
	setting string // for --set
	values  map[string]any
}

// flips returns a flip for each boolean value, at most maxVariants, in the order of rank.
func (w *writer) flips() ([]flip, error) {
	c, err := charts.LoadPath(w.src.Dir)
	if err != nil {
		return nil, err
	}
	h, err := c.Helm()
	if err != nil {
		return nil, err
	}
	all, err := chartcommon.CoalesceValues(h, charts.CopyValues(w.src.Values))
	if err != nil {
		return nil, err
	}
	paths := booleanPaths(all, nil)
	slices.SortStableFunc(paths, func(a, b []string) int { return cmp.Compare(rank(a), rank(b)) })
	var out []flip
	for _, path := range paths[:min(len(paths), maxVariants)] {
		values := charts.CopyValues(w.src.Values)
		flipped := flipValue(values, all, path)
		out = append(out, flip{fmt.Sprintf("%s=%v", strings.Join(path, "."), flipped), values})
	}
	return append(out, w.guardFlips(all)...), nil
}

// guardFlips returns a flip for each value that a guard depends on: it has annotations if it had none, and none if it had
// some.
func (w *writer) guardFlips(all map[string]any) (out []flip) {
	seen := map[string]bool{}
	for _, path := range w.guarded {
		name := strings.Join(path, ".")
		if seen[name] || len(out) == maxVariants {
			continue
		}
		seen[name] = true
		now := any(all)
		for _, key := range path {
			in, _ := now.(map[string]any)
			now = in[key]
		}
		old, _ := now.(map[string]any)
		values, is, shown := charts.CopyValues(w.src.Values), any(map[string]any{"example.com/other": "x"}), "{example.com/other: x}"
		if len(old) > 0 {
			is, shown = nil, "null"
		}
		setValue(values, path, is)
		out = append(out, flip{name + "=" + shown, values})
	}
	return out
}

// setValue sets the value at a path.
func setValue(values map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		next, ok := values[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			values[key] = next
		}
		values = next
	}
	values[path[len(path)-1]] = value
}

// rank orders values named enabled, create or install before others, and shallow values before deep
// ones.
func rank(path []string) int {
	switch path[len(path)-1] {
	case "enabled", "create", "install":
		return len(path)
	}
	return 100 + len(path)
}

// booleanPaths returns the paths of boolean values, sorted.
func booleanPaths(values map[string]any, above []string) (paths [][]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path := append(slices.Clone(above), key)
		switch v := values[key].(type) {
		case bool:
			paths = append(paths, path)
		case map[string]any:
			if key == "global" && len(above) > 0 {
				continue // copied from the parent
			}
			paths = append(paths, booleanPaths(v, path)...)
		}
	}
	return paths
}

// flipValue flips the boolean at a path in values and returns the new boolean. all are the values with
// the defaults of the chart.
func flipValue(values, all map[string]any, path []string) bool {
	for _, key := range path[:len(path)-1] {
		all, _ = all[key].(map[string]any)
	}
	was, _ := all[path[len(path)-1]].(bool)
	setValue(values, path, !was)
	return !was
}
