package plan

import "slices"

// RemovalOrder returns the graph for removing groups: each group waits for the groups that waited
// for it, and its objects are in reverse order. The result is in plan order and shares nothing with
// groups.
//
// Rule R31: a group is deleted once all groups that depend on it are gone
func RemovalOrder(groups []*Group) []*Group {
	reversed := make([]*Group, len(groups))
	for i, g := range groups {
		r := *g
		r.After, r.Why, r.Waits, r.WaitFor, r.Approve = []string{}, nil, nil, nil, nil
		r.NoReturn = ""
		r.Objects = slices.Clone(g.Objects)
		slices.Reverse(r.Objects)
		r.Waves = g.completeWaves()
		slices.Reverse(r.Waves)
		for n := range r.Waves {
			r.Waves[n].Established = nil
		}
		reversed[i] = &r
	}
	for i, dependencies := range dependencyIndexes(groups) {
		for _, j := range dependencies {
			reversed[j].After = append(reversed[j].After, groups[i].ID)
		}
	}
	normalize(reversed)
	return reversed
}
