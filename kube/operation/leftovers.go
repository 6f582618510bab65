package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// leftoverSearch finds objects of earlier revisions that still exist.
type leftoverSearch struct {
	session *session.Session
	builder *manifest.Builder
	prefix  string // "" or event.RollbackPrefix
	// revisions are the revisions to search, the newest first.
	revisions []*rel1.Release
	old       *rel1.Release // nil for none
	claims    manifest.Claims
	// planned are the objects of the target and of the old revision, which are already in the plan.
	planned []helmkube.ResourceList
	// built are the manifests that were read, and contains their objects.
	built    map[string]builtManifest
	contains map[string]map[plan.Object]bool
}

// builtManifest is the result of buildRevision.
type builtManifest struct {
	list helmkube.ResourceList
	err  error
}

// build returns the objects of a revision. It reads each manifest once.
func (l *leftoverSearch) build(rel *rel1.Release) (helmkube.ResourceList, error) {
	b, known := l.built[rel.Manifest]
	if !known {
		if l.built == nil {
			l.built = map[string]builtManifest{}
		}
		b.list, _, b.err = buildRevision(l.builder, rel)
		l.built[rel.Manifest] = b
	}
	return b.list, b.err
}

// leftovers returns the leftovers of all revisions. Each object is planned with the newest revision that has it.
//
// Rule R32a: all objects that any revision created, even a failed or interrupted one, are
// removed if the target lacks them and they still exist and belong to the release.
func (l *leftoverSearch) leftovers() (out helmclient.Leftovers, warnings []plan.Warning) {
	l.contains = map[string]map[plan.Object]bool{}
	known := map[plan.Object]bool{}
	for _, list := range l.planned {
		for _, r := range l.builder.Resources(list) {
			known[r.Object] = true
		}
	}
	read := map[string]bool{}
	if l.old != nil {
		read[l.old.Manifest] = true
	}
	for _, rel := range l.revisions {
		if read[rel.Manifest] {
			continue
		}
		read[rel.Manifest] = true
		left, newer, more := l.leftoversOf(rel, known)
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

// leftoversOf returns the leftovers of one revision, and adds its objects to known. newer reports whether the revision is
// newer than the old one.
func (l *leftoverSearch) leftoversOf(rel *rel1.Release, known map[plan.Object]bool) (left helmclient.Leftover, newer bool, warnings []plan.Warning) {
	newer = l.old != nil && rel.Version > l.old.Version
	var revision session.OldRevision
	list, err := l.build(rel)
	if err == nil {
		revision, list, warnings, err = resolveRevision(l.session.Context, l.builder, rel, list)
	}
	if err != nil {
		message := fmt.Sprintf("objects that only revision %d created are kept: %v; delete them yourself if they are no longer needed", rel.Version, err)
		return left, newer, append(warnings, plan.Warning{Rule: "R32a", Message: message})
	}
	objects := l.builder.Resources(list)
	l.contains[rel.Manifest] = addUnknown(map[plan.Object]bool{}, objects)
	added := addUnknown(known, objects)
	removable := l.present(list.Filter(func(i *resource.Info) bool {
		f := l.builder.Fact(i)
		return f != nil && added[f.Resource.Object] && !f.Late && !f.Generated && !manifest.HasKeepPolicy(i)
	}), l.old == nil || newer)
	if len(removable) == 0 {
		return left, newer, warnings
	}
	ordering := helmclient.Ordering{Prefix: l.prefix, Root: rel.Chart.Name()}
	planned, more := ordering.PlanLeftovers(rel.Version, revision.Revision, l.builder.Resources(removable))
	warnings = append(warnings, unreadOrder(rel, "objects that only it created are deleted all at once")...)
	return helmclient.Leftover{Manifest: rel.Manifest, Planned: planned, Created: l.created}, newer, append(warnings, more...)
}

// created reports whether an object, as it was last seen, may be what one of the revisions created.
func (l *leftoverSearch) created(o plan.Object, s manifest.Seen) bool {
	return slices.ContainsFunc(l.revisions, func(rel *rel1.Release) bool {
		return l.contains[rel.Manifest][o] && mayHaveCreated(l.session.Ledger, rel, s)
	})
}

// addUnknown adds to known the objects that are not in it, and returns them.
func addUnknown(known map[plan.Object]bool, resources []plan.Resource) map[plan.Object]bool {
	added := map[plan.Object]bool{}
	for _, r := range resources {
		if !known[r.Object] {
			known[r.Object], added[r.Object] = true, true
		}
	}
	return added
}

// present returns the objects of a list that exist and belong to the release and, if includeUnreadable is set, those that
// the user may not read.
func (l *leftoverSearch) present(list helmkube.ResourceList, includeUnreadable bool) helmkube.ResourceList {
	l.builder.Prefetch(l.session.Context, list, nil)
	return list.Filter(func(i *resource.Info) bool {
		f := l.builder.Fact(i)
		if !f.Before().Known {
			return includeUnreadable
		}
		o, givenBack := f.Resource.Object, l.claims.GivenBack
		return f.Before().Version != "" && l.claims.Removes(l.builder.Scope(), f) && !l.claims.InCRDs(o) && (givenBack == nil || !givenBack(o, f.Seen()))
	})
}

// lastApplied returns the objects of a list as the release has applied them before, for client-side apply; nil for server-side apply.
//
// Rule R32a, for fields: what any revision brought is removed if the target lacks it, also if that revision failed. Helm compares
// with the deployed revision alone, and so keeps what those that failed since have added. For an object that a rollback brings
// back, it takes the live object instead, and so removes the fields of everybody else.
func (l *leftoverSearch) lastApplied(m helmclient.Method, revs *release.Revisions, list helmkube.ResourceList) *manifest.Applied {
	if !m.ClientSide {
		return nil
	}
	applied := manifest.NewApplied(l.builder, list)
	all := slices.SortedFunc(slices.Values(slices.Concat(revs.All, revs.Pruned())), func(x, y *rel1.Release) int { return cmp.Compare(y.Version, x.Version) })
	for _, rel := range all {
		if applied.Complete() {
			break
		}
		old, err := l.build(rel)
		if err != nil {
			continue // its kinds are no longer served
		}
		deployed := release.WasDeployed(rel)
		if !deployed {
			old = sent(l.builder, rel, old)
		}
		applied.Add(l.formerHooks(rel, list), false) // perhaps it did not run
		applied.Add(old, deployed)
	}
	return applied
}

// formerHooks returns the hooks of a revision whose names the objects of a list have, which are no hooks any more.
func (l *leftoverSearch) formerHooks(rel *rel1.Release, list helmkube.ResourceList) (hooks helmkube.ResourceList) {
	for _, h := range rel.Hooks {
		if !slices.ContainsFunc(list, func(i *resource.Info) bool { return i.Name == h.Name && i.Mapping.GroupVersionKind.Kind == h.Kind }) {
			continue
		}
		if built, _, err := l.builder.Build(h.Manifest); err == nil { // else its kind is no longer served
			hooks = append(hooks, built...)
		}
	}
	return hooks
}

// sent returns the objects of a revision that its run has sent, all of them if its record does not say that.
func sent(b *manifest.Builder, rel *rel1.Release, list helmkube.ResourceList) helmkube.ResourceList {
	course := release.CourseOf(rel)
	if len(course.Groups) == 0 {
		return list
	}
	planned, _, err := helmclient.Ordering{Root: rel.Chart.Name()}.PlanApply(release.TreeOf(rel), b.Resources(list), nil)
	if err != nil {
		return list
	}
	sent := map[plan.Object]bool{}
	for _, g := range planned.Phase.Groups {
		for _, t := range course.Groups {
			if t.Phase != planned.Phase.Name || t.Group != g.ID {
				continue
			}
			for _, o := range g.Objects {
				sent[o] = !slices.Contains(t.Unsent, o)
			}
		}
	}
	return list.Filter(func(i *resource.Info) bool { return sent[cluster.ObjectOf(i)] })
}

// unreadOrder warns that the order of a revision is ignored because its record cannot be read. does says what happens instead.
//
// An order that cannot be read is never silently no order (R28).
func unreadOrder(rel *rel1.Release, does string) []plan.Warning {
	why := release.UnreadOrder(rel)
	if why == "" {
		return nil
	}
	return []plan.Warning{{Rule: "R28", Message: fmt.Sprintf("the order of revision %d cannot be read: %s; %s", rel.Version, why, does)}}
}

// refuseUnreadOrder returns a conflict for an operation that depends on the order of a revision that cannot be read, a warning with
// --skip-preflight. does says what that makes of it.
func refuseUnreadOrder(c session.Common, rel *rel1.Release, does string) (conflicts, warnings []plan.Warning) {
	if c.SkipPreflight {
		return nil, unreadOrder(rel, does)
	}
	return unreadOrder(rel, "use the version of lockstep that deployed it, or restore its record from a backup; with --skip-preflight, "+does), nil
}

// buildRevision returns the objects in the manifest of a revision, and warnings about those that are sent in another version.
func buildRevision(b *manifest.Builder, rel *rel1.Release) (helmkube.ResourceList, []plan.Warning, error) {
	list, warnings, err := b.BuildStored(rel.Manifest)
	if err != nil {
		return nil, nil, fmt.Errorf("read the manifest of revision %d: %w", rel.Version, err)
	}
	return list, warnings, nil
}

// readRevision returns a revision with its objects. Lists among them are expanded.
func readRevision(ctx context.Context, b *manifest.Builder, rel *rel1.Release) (session.OldRevision, helmkube.ResourceList, []plan.Warning, error) {
	list, _, err := buildRevision(b, rel)
	if err != nil {
		return session.OldRevision{}, nil, nil, err
	}
	return resolveRevision(ctx, b, rel, list)
}

// resolveRevision is readRevision for a manifest that has been built.
func resolveRevision(ctx context.Context, b *manifest.Builder, rel *rel1.Release, list helmkube.ResourceList) (session.OldRevision, helmkube.ResourceList, []plan.Warning, error) {
	if err := b.ResolveStored(list...); err != nil {
		return session.OldRevision{}, nil, nil, err
	}
	list, warnings := b.Expand(ctx, list)
	revision := helmclient.Revision{Tree: release.TreeOf(rel), Resources: b.Resources(list)}
	return session.OldRevision{Release: rel, Revision: revision, List: list}, list, warnings, nil
}
