package release

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
)

// StackPoint are points of no return that the run of a stack has passed in one of its releases.
type StackPoint struct {
	Reasons []string
	Others  map[string]int // Record.Others
	Begun   time.Time      // when the revision was created
}

// StackPoints returns the points of no return that runs of a stack have passed in the release since it was installed.
func (r *Revisions) StackPoints() (all []StackPoint) {
	for _, rel := range r.All {
		if rel.Info.Status == rcommon.StatusUninstalled {
			all = nil
		} else if reasons := PassedNoReturn(rel); len(reasons) > 0 {
			if record := ReadRecord(rel); record != nil && record.Authored == rel.Version && len(record.Others) > 0 {
				all = append(all, StackPoint{reasons, record.Others, rel.Info.LastDeployed})
			}
		}
	}
	return all
}

// stackPointsLabel finds the revisions with Record.Others without a look at all others. Helm copies it to the next revision.
const stackPointsLabel = "lockstep/stack-points"

// labelStackPoints labels a revision by its record.
func labelStackPoints(rel *rel1.Release, r *Record) {
	rel.Labels = maps.Clone(rel.Labels)
	delete(rel.Labels, stackPointsLabel)
	if r.Authored != rel.Version || len(r.Others) == 0 {
		return
	}
	if rel.Labels == nil {
		rel.Labels = map[string]string{}
	}
	rel.Labels[stackPointsLabel] = "true"
}

// StackSearch looks for points of no return that runs of a stack have passed in other releases.
type StackSearch struct {
	// Own is the storage of the release, In that of another namespace, or of all if it is "".
	Own *storage.Storage
	In  func(namespace string) (*storage.Storage, error)
	// Stack is the name of the stack, "" for none, and Label the label of its records, which may be in all namespaces.
	Stack, Label string
}

// Passed returns the reasons of the points of no return that have been passed since the runs found a revision, or a later one,
// deployed, and the releases in which they were passed. It sends one or two requests, however many other releases there are, and one
// for each release with such points.
func (s StackSearch) Passed(target *rel1.Release) (reasons, releases []string, warnings []plan.Warning, err error) {
	found, warnings, err := s.labelled(target.Namespace)
	if err != nil {
		return nil, nil, nil, err
	}
	delete(found, target.Namespace+"/"+target.Name)
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if len(found[id].pointsAfter(target)) == 0 {
			continue
		}
		all, err := s.read(found[id].All[0], target.Namespace) // it may have been uninstalled since
		if err != nil {
			return nil, nil, nil, err
		}
		for _, p := range all.pointsAfter(target) {
			reasons, releases = append(reasons, p.Reasons...), append(releases, id)
		}
	}
	return reasons, slices.Compact(releases), warnings, nil
}

// labelled returns the revisions in which a run of a stack may have passed points of no return, by namespace and name of the release:
// those in the namespace, and those of the stack in all others. In a database, which finds no labels, it reads all releases.
func (s StackSearch) labelled(namespace string) (found map[string]*Revisions, warnings []plan.Warning, err error) {
	query := map[string]string{"owner": "helm", stackPointsLabel: "true"}
	inCluster := connect.RecordResource(connect.StorageDriver()) != ""
	var list []release.Releaser
	if inCluster {
		list, err = s.Own.Query(query)
	} else {
		list, err = s.Own.ListReleases()
	}
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil, fmt.Errorf("read the releases in namespace %s for points of no return: %w", namespace, err)
	}
	if inCluster && s.Stack != "" {
		query[s.Label] = s.Stack
		more, err := s.everywhere(query)
		if err != nil {
			warnings = append(warnings, plan.Warning{Rule: "R33a", Message: fmt.Sprintf(
				"the releases of stack %s in other namespaces cannot be read, so whether one has passed a point of no return is unknown: %v", s.Stack, err)})
		}
		list = append(list, more...)
	}
	found = map[string]*Revisions{}
	for _, x := range list {
		rel, err := AsV1(x)
		if err != nil {
			return nil, nil, err
		}
		id := rel.Namespace + "/" + rel.Name
		if found[id] == nil {
			found[id] = &Revisions{}
		}
		found[id].All = append(found[id].All, rel)
	}
	for _, r := range found {
		slices.SortFunc(r.All, func(a, b *rel1.Release) int { return a.Version - b.Version })
	}
	return found, warnings, nil
}

// everywhere returns the revisions in all namespaces that a query finds.
func (s StackSearch) everywhere(query map[string]string) ([]release.Releaser, error) {
	all, err := s.In("")
	if err != nil {
		return nil, err
	}
	list, err := all.Query(query)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		err = nil
	}
	return list, err
}

// read returns all revisions of a release.
func (s StackSearch) read(rel *rel1.Release, own string) (r *Revisions, err error) {
	in := s.Own
	if rel.Namespace != own {
		in, err = s.In(rel.Namespace)
	}
	if err == nil {
		r, err = MustExist(Read(in, rel.Name))
	}
	if err != nil {
		return nil, fmt.Errorf("read release %s in namespace %s for points of no return: %w", rel.Name, rel.Namespace, err)
	}
	return r, nil
}

// pointsAfter returns the points of no return before which a revision of another release was deployed.
func (r *Revisions) pointsAfter(target *rel1.Release) []StackPoint {
	return slices.DeleteFunc(r.StackPoints(), func(p StackPoint) bool { return !p.isAfter(target) })
}

// isAfter reports whether a revision was deployed before the run of a stack, of which its release is one, has passed the points in
// another one. A later one may have the same number, because the release was uninstalled.
func (p StackPoint) isAfter(rel *rel1.Release) bool {
	if rel.Info.LastDeployed.After(p.Begun) {
		return false
	}
	full := rel.Namespace + "/" + rel.Name
	for id, good := range p.Others { // the ID may have a context and a namespace
		if rel.Version <= good && (id == rel.Name || id == full || strings.HasSuffix(id, "/"+full)) {
			return true
		}
	}
	return false
}
