package operation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	helmrelease "helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// barred returns a conflict if a revision is before a point of no return that the release, or another one of its stack, has passed,
// unless the user has given the reason.
func (rb *Rollback) barred(s *session.Session, state *releaseState, target *rel1.Release) (conflicts, warnings []plan.Warning, err error) {
	if rb.IgnoreNoReturn {
		return nil, nil, nil
	}
	inStack, releases, warnings, err := passedInStack(s, state, target)
	if err != nil {
		return nil, nil, err
	}
	reason := plan.JoinReasons(append([]string{state.NoReturnSince(target.Version)}, inStack...)...)
	if reason == "" || reason == rb.PastNoReturn {
		return nil, warnings, nil
	}
	passed := ""
	if len(releases) > 0 {
		passed = ", which its stack has passed in release " + strings.Join(releases, ", ")
	}
	return []plan.Warning{{Rule: "R33a", Message: fmt.Sprintf("revision %d is before the point of no return (%s)%s; to roll back anyway, add --past-no-return %q",
		target.Version, reason, passed, reason)}}, warnings, nil
}

// addStackPoints adds the points of no return that other releases of the release's stack have passed to the plan of an upgrade that
// would roll back by itself. A run of the stack knows them.
func (d *Deploy) addStackPoints(s *session.Session, state *releaseState, p *session.Prepared) error {
	good := state.Find(state.goodRevision())
	if !d.RollbackOnFailure || d.Stack != "" || good == nil {
		return nil
	}
	reasons, _, warnings, err := passedInStack(s, state, good)
	p.NoReturn, p.Warnings = append(p.NoReturn, reasons...), append(p.Warnings, warnings...)
	return err
}

// passedInStack returns the reasons of the points of no return that runs of the release's stack have passed in other releases since
// they found a revision, or a later one, deployed, and these releases. It looks in the namespace of the release and, if the stack has
// a name, in all others.
func passedInStack(s *session.Session, state *releaseState, target *rel1.Release) (reasons, releases []string, warnings []plan.Warning, err error) {
	list, err := s.Releases().ListReleases()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read the releases in namespace %s for points of no return: %w", s.Common.Namespace, err)
	}
	stack := state.Last.Labels[StackLabel]
	if stack != "" && connect.RecordResource(connect.StorageDriver()) != "" {
		elsewhere, err := stackReleases(s, stack)
		if err != nil {
			warnings = append(warnings, plan.Warning{Rule: "R33a", Message: fmt.Sprintf(
				"the releases of stack %s in other namespaces cannot be read, so whether one has passed a point of no return is unknown: %v", stack, err)})
		}
		list = append(list, elsewhere...)
	}
	others := map[string]*release.Revisions{} // by namespace and name
	for _, x := range list {
		rel, err := release.AsV1(x)
		if err != nil {
			return nil, nil, nil, err
		}
		id := rel.Namespace + "/" + rel.Name
		if others[id] == nil {
			others[id] = &release.Revisions{}
		}
		others[id].All = append(others[id].All, rel)
	}
	delete(others, s.Common.Namespace+"/"+s.Common.Release)
	for _, id := range slices.Sorted(maps.Keys(others)) {
		revisions := others[id]
		slices.SortFunc(revisions.All, func(a, b *rel1.Release) int { return a.Version - b.Version })
		for _, p := range revisions.StackPoints() {
			if isBefore(target, p, s.Common.Namespace) {
				reasons, releases = append(reasons, p.Reasons...), append(releases, id)
			}
		}
	}
	return reasons, slices.Compact(releases), warnings, nil
}

// stackReleases returns the revisions of a stack's releases in all namespaces.
func stackReleases(s *session.Session, stack string) ([]helmrelease.Releaser, error) {
	helm, err := s.Client.Helm("")
	if err != nil {
		return nil, err
	}
	list, err := release.Checked(helm.Config.Releases.Driver, s.Common.Mask).Query(map[string]string{"owner": "helm", StackLabel: stack})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		err = nil
	}
	return list, err
}

// isBefore reports whether a revision was deployed before the run of a stack, of which its release is one, has passed points of no
// return in another one. A later one may have the same number, because the release was uninstalled.
func isBefore(rel *rel1.Release, p release.StackPoint, namespace string) bool {
	if rel.Info.LastDeployed.After(p.Begun) {
		return false
	}
	full := namespace + "/" + rel.Name
	for id, good := range p.Others { // the ID may have a context and a namespace
		if rel.Version <= good && (id == rel.Name || id == full || strings.HasSuffix(id, "/"+full)) {
			return true
		}
	}
	return false
}
