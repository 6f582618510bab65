package annotate

import (
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// align renames objects whose names contain random text or the time, so that they have the
// same names as in the first rendering. It matches them by kind, chart and template if each
// rendering has exactly one such object there.
func align(first, r *charts.Rendered) {
	type place struct {
		kind  plan.GroupKind
		chart string
		file  string
	}
	unmatched := func(of, others *charts.Rendered) map[place][]int {
		known := map[plan.Object]bool{}
		for _, res := range others.Resources {
			known[res.Object] = true
		}
		out := map[place][]int{}
		for i, res := range of.Resources {
			if o := res.Object; !known[o] {
				at := place{plan.GroupKind{Group: o.Group, Kind: o.Kind}, res.Chart, of.Docs[i].Source}
				out[at] = append(out[at], i)
			}
		}
		return out
	}
	missing := unmatched(first, r)
	for at, here := range unmatched(r, first) {
		if len(here) == 1 && len(missing[at]) == 1 {
			name := first.Resources[missing[at][0]].Object.Name
			r.Resources[here[0]].Object.Name = name
			r.Docs[here[0]].Object.SetName(name)
		}
	}
}
