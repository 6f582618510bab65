package operation

import (
	"cmp"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/release"
)

// lastApplied returns the objects of a list as the release has applied them before, for client-side apply.
//
// Rule R32a, for fields: what any revision brought is removed if the target lacks it, also if that revision failed. Helm compares
// with the deployed revision alone, and so keeps what those that failed since have added. For an object that a rollback brings
// back, it takes the live object instead, and so removes the fields of everybody else.
func lastApplied(b *manifest.Builder, revs *release.Revisions, list helmkube.ResourceList) (*manifest.Applied, error) {
	applied := manifest.NewApplied(b, list)
	all := slices.SortedFunc(slices.Values(slices.Concat(revs.All, revs.Pruned())), func(x, y *rel1.Release) int { return cmp.Compare(y.Version, x.Version) })
	for _, rel := range all {
		if applied.Complete() {
			break
		}
		old, err := buildRevision(b, rel)
		if err != nil {
			continue // its kinds are no longer served
		}
		if err := applied.Add(reached(b, rel, old), release.WasDeployed(rel)); err != nil {
			return nil, err
		}
	}
	return applied, nil
}

// reached returns the objects of a revision whose groups its run has started, all of them if its record does not say that.
func reached(b *manifest.Builder, rel *rel1.Release, list helmkube.ResourceList) helmkube.ResourceList {
	course := release.CourseOf(rel)
	if len(course.Groups) == 0 {
		return list
	}
	planned, _, err := helmclient.Ordering{Root: rel.Chart.Name()}.PlanApply(release.TreeOf(rel), b.Resources(list), nil)
	if err != nil {
		return list
	}
	started := map[plan.Object]bool{}
	for _, g := range planned.Phase.Groups {
		if slices.ContainsFunc(course.Groups, func(t release.Timing) bool { return t.Phase == planned.Phase.Name && t.Group == g.ID }) {
			for _, o := range g.Objects {
				started[o] = true
			}
		}
	}
	return list.Filter(func(i *resource.Info) bool { return started[cluster.ObjectOf(i)] })
}
