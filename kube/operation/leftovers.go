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
type leftoverSearch struct {
	session *preflight.Session
	builder *manifest.Builder
	prefix  string // of the names of phases
	// besides are the revisions that are looked at, the newest first.
	others []*rel1.Release
	old    *rel1.Release // nil for none
	// stays is what the target has, and what the old revision has, which is
	// removed with that.
	stays []helmkube.ResourceList
}

// Rule R32a: what is removed is all that any revision has brought and the target
// does not have, those that failed or were cut off included.
//
// leftovers are the objects that are still in the cluster, and the release's. Each
// goes by the plan of the newest revision that has it.
func (l leftoverSearch) leftovers() (out helmclient.Leftovers, warnings []plan.Warning) {
	known := map[plan.Object]bool{}
	for _, list := range l.stays {
		for _, r := range l.builder.Resources(list) {
			known[r.Object] = true
		}
	}
	read := map[string]bool{}
	if l.old != nil {
		read[l.old.Manifest] = true
	}
	for _, rel := range l.others {
		if read[rel.Manifest] {
			continue
		}
		read[rel.Manifest] = true
		left, newer, more := l.leftBy(rel, known)
		warnings = append(warnings, more...)
		switch {
		case left.Planned.Empty():
		case newer:
			out.Newer = append(out.Newer, left)
		default:
			out.Older = append(out.Older, left)
		}
	}
	return out, warnings
}

// of are the leftovers of one revision; newer tells that it has come after the old one.
// What it has is known from then on.
func (l leftoverSearch) leftBy(rel *rel1.Release, known map[plan.Object]bool) (left helmclient.Leftover, newer bool, warnings []plan.Warning) {
	newer = l.old != nil && rel.Version > l.old.Version
	held, list, warnings, err := readRevision(l.session.Context, l.builder, rel)
	if err != nil {
		return left, newer, append(warnings, plan.Warning{Rule: "R32a", Message: fmt.Sprintf("objects created by revision %d alone are kept: %v", rel.Version, err)})
	}
	only := orphans(known, l.builder.Resources(list))
	goes := l.present(list.Filter(func(i *resource.Info) bool {
		f := l.builder.Fact(i)
		return f != nil && only[f.Resource.Object] && !f.Late && !f.Generated && !manifest.Kept(i)
	}), l.old == nil || newer)
	if len(goes) == 0 {
		return left, newer, warnings
	}
	order := helmclient.Ordering{Prefix: l.prefix, Root: rel.Chart.Name()}
	planned, more := order.RemoveOf(rel.Version, held.Revision, l.builder.Resources(goes))
	return helmclient.Leftover{Manifest: rel.Manifest, Planned: planned}, newer, append(warnings, more...)
}

// orphans are those objects of a revision that are not known: neither the target nor a
// revision that was looked at before has them. They are known from then on.
func orphans(known map[plan.Object]bool, resources []plan.Resource) map[plan.Object]bool {
	only := map[plan.Object]bool{}
	for _, r := range resources {
		if !known[r.Object] {
			known[r.Object], only[r.Object] = true, true
		}
	}
	return only
}

// present are those of a list that are in the cluster and say that they are the
// release's. Of the rest nothing may be known, for want of rights: unseen tells that it
// goes as well.
func (l leftoverSearch) present(list helmkube.ResourceList, unseen bool) helmkube.ResourceList {
	l.builder.LookAhead(l.session.Context, list, nil)
	return list.Filter(func(i *resource.Info) bool {
		f := l.builder.Fact(i)
		if !f.Before().Known {
			return unseen
		}
		return f.Before().Version != "" && f.Owner == l.builder.Scope().Owner()
	})
}
