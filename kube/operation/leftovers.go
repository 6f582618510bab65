package operation

import (
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
)

// leaving is what leftovers are looked for with.
type leaving struct {
	session *preflight.Session
	builder *manifest.Builder
	prefix  string // of the names of phases
	// besides are the revisions that are looked at, the newest first.
	besides []*rel1.Release
	old     *rel1.Release // nil for none
	// stays is what the target has, and what the old revision has, which is
	// removed with that.
	stays []helmkube.ResourceList
}

// Rule R32a: what is removed is all that any revision has brought and the target
// does not have, those that failed or were cut off included.
//
// leftovers are the objects that are still in the cluster, and the release's. Each
// goes by the plan of the newest revision that has it.
func (l leaving) leftovers() (out helmclient.Leftovers, warnings []plan.Warning) {
	known, read := map[plan.Object]bool{}, map[string]bool{}
	for _, list := range l.stays {
		for _, r := range l.builder.Resources(list) {
			known[r.Object] = true
		}
	}
	if l.old != nil {
		read[l.old.Manifest] = true
	}
	for _, rel := range l.besides {
		if read[rel.Manifest] {
			continue
		}
		read[rel.Manifest] = true
		held, list, more, err := hold(l.session.Context, l.builder, rel)
		warnings = append(warnings, more...)
		if err != nil {
			warnings = append(warnings, plan.Warning{Rule: "R32a", Message: fmt.Sprintf("what only revision %d has brought stays: %v", rel.Version, err)})
			continue
		}
		goes := l.present(list.Filter(func(i *resource.Info) bool {
			f := l.builder.Fact(i)
			fresh := f != nil && !known[f.Resource.Object]
			if fresh {
				known[f.Resource.Object] = true
			}
			return fresh && !f.Late && !f.Generated && !manifest.Kept(i)
		}))
		if len(goes) == 0 {
			continue
		}
		order := helmclient.Ordering{Prefix: l.prefix, Root: rel.Chart.Name()}
		planned, more := order.RemoveOf(rel.Version, held.Revision, l.builder.Resources(goes))
		warnings = append(warnings, more...)
		left := helmclient.Leftover{Manifest: rel.Manifest, Planned: planned}
		if l.old != nil && rel.Version > l.old.Version {
			out.Newer = append(out.Newer, left)
		} else {
			out.Older = append(out.Older, left)
		}
	}
	return out, warnings
}

// present are those of a list that are in the cluster and say that they are the
// release's, as far as that can be looked up.
func (l leaving) present(list helmkube.ResourceList) helmkube.ResourceList {
	l.builder.LookAhead(l.session.Context, list, nil)
	return list.Filter(func(i *resource.Info) bool {
		f := l.builder.Fact(i)
		return !f.Before().Known || f.Before().Version != "" && f.Owner == l.builder.Scope().Owner()
	})
}
