package release

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// Revisions are the revisions of a release; there is at least one.
type Revisions struct {
	All     []*rel1.Release // oldest first
	Last    *rel1.Release   // the latest
	Current *rel1.Release   // the latest deployed one, else Last
}

// Read reads the revisions of a release. found is false, with a nil error, if there are none.
func Read(s *storage.Storage, name string) (r *Revisions, found bool, err error) {
	history, err := s.History(name)
	if found, err := checkFound(err); !found {
		return nil, false, err
	}
	r = &Revisions{}
	for _, x := range history {
		rel, err := AsV1(x)
		if err != nil {
			return nil, false, err
		}
		r.All = append(r.All, rel)
	}
	if len(r.All) == 0 {
		return nil, false, nil
	}
	slices.SortFunc(r.All, func(a, b *rel1.Release) int { return a.Version - b.Version })
	r.Last = r.All[len(r.All)-1]
	r.Current = cmp.Or(r.deployed(), r.Last)
	return r, true, nil
}

// checkFound returns false and no error for driver.ErrReleaseNotFound, and other errors unchanged.
func checkFound(err error) (found bool, _ error) {
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return false, nil
	}
	return err == nil, err
}

// MustExist returns driver.ErrReleaseNotFound if found is false.
func MustExist[T any](v T, found bool, err error) (T, error) {
	if err == nil && !found {
		err = driver.ErrReleaseNotFound
	}
	return v, err
}

// NotFound is the error for a release without revisions, or without one. It wraps driver.ErrReleaseNotFound.
type NotFound struct {
	Name, Namespace string
	Revision        int    // the missing revision; 0 if there are none
	Advice          string // what to do next; "" for how to list releases
}

func (e *NotFound) Error() string {
	if e.Revision > 0 {
		return fmt.Sprintf("revision %d of release %s not found in namespace %s; list revisions with: "+text.Program+" history %[2]s -n %[3]s", e.Revision, e.Name, e.Namespace)
	}
	return fmt.Sprintf("release %s not found in namespace %s; %s", e.Name, e.Namespace, cmp.Or(e.Advice, "list releases with: "+text.Program+" list -A"))
}

func (e *NotFound) Unwrap() error { return driver.ErrReleaseNotFound }

// Keys returns the names of the records of revisions in the storage.
func Keys(name string, revisions []int) (keys []string) {
	for _, v := range revisions {
		keys = append(keys, fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, name, v))
	}
	return keys
}

// Last reads the latest revision of a release. found is as in Read.
func Last(s *storage.Storage, name string) (rel *rel1.Release, found bool, err error) {
	return Get(s, name, 0)
}

// Same reports whether a and b, read at different times, are the same unchanged revision.
func Same(a, b *rel1.Release) bool {
	return a.Version == b.Version && a.Info.Status == b.Info.Status && a.Info.LastDeployed.Equal(b.Info.LastDeployed)
}

// Get reads a revision; 0 means the latest. found is as in Read.
func Get(s *storage.Storage, name string, revision int) (rel *rel1.Release, found bool, err error) {
	var x release.Releaser
	if revision == 0 {
		x, err = s.Last(name)
	} else {
		x, err = s.Get(name, revision)
	}
	if found, err := checkFound(err); !found {
		return nil, false, err
	}
	rel, err = AsV1(x)
	return rel, err == nil, err
}

// Find returns a revision by its number, nil if it does not exist.
func (r *Revisions) Find(version int) *rel1.Release {
	for _, rel := range r.All {
		if rel.Version == version {
			return rel
		}
	}
	return nil
}

// deployed returns the latest deployed revision, nil for none. Revisions before an uninstall do not count.
func (r *Revisions) deployed() *rel1.Release {
	for _, rel := range slices.Backward(r.All) {
		switch {
		case rel.Info.Status == rcommon.StatusDeployed:
			return rel
		case uninstallStarted(rel):
			return nil
		}
	}
	return nil
}

// uninstallStarted reports whether an uninstall of a revision has started: it may have deleted the objects of all revisions.
func uninstallStarted(rel *rel1.Release) bool {
	return !rel.Info.Deleted.IsZero() && rel.Info.Status != rcommon.StatusDeployed
}

// LastGood returns the revision to roll back to when an operation fails: the latest that was ever
// deployed, 0 for none.
func (r *Revisions) LastGood() int { return r.LastGoodBefore(r.Last.Version + 1) }

// LastGoodBefore returns the latest revision before version that was ever deployed, 0 for none. Revisions
// before an uninstall do not count.
func (r *Revisions) LastGoodBefore(version int) int {
	for _, rel := range slices.Backward(r.All) {
		switch {
		case uninstallStarted(rel):
			return 0
		case rel.Version < version && WasDeployed(rel):
			return rel.Version
		}
	}
	return 0
}

// SinceDeployed returns the last revision that was deployed and those after it, all if none was. After a complete uninstall there
// is nothing of the revisions before it but what it kept.
func (r *Revisions) SinceDeployed() (out []*rel1.Release) {
	for _, rel := range slices.Backward(r.All) {
		// An install over an uninstalled revision makes that one superseded.
		if gone := rel.Info.Status == rcommon.StatusUninstalled || rel.Info.Status == rcommon.StatusSuperseded; gone && !rel.Info.Deleted.IsZero() {
			break
		}
		if out = append(out, rel); WasDeployed(rel) {
			break
		}
	}
	return out
}

// Taken returns the objects that revisions have taken over, and that no revision has had since when it was deployed: those of a
// deployed revision are the release's, unless the Job whose pod this is has deployed it, if any, because a stack may still roll
// it back. objectsOf returns the objects of a revision.
func (r *Revisions) Taken(job string, objectsOf func(*rel1.Release) map[plan.Object]bool) (all []Taken) {
	for _, rel := range r.All {
		record := ReadRecord(rel)
		switch {
		case !WasDeployed(rel) || CreatedBy(rel, job):
			if record != nil && record.Authored == rel.Version {
				all = append(all, record.Taken...)
			}
		case len(all) > 0:
			deployed := objectsOf(rel)
			all = slices.DeleteFunc(all, func(t Taken) bool { return deployed[t.Object] })
		}
	}
	return all
}

// NoReturnSince returns the reasons of the points of no return that later revisions than a given one have passed, as one text;
// "" for none.
func (r *Revisions) NoReturnSince(version int) string {
	var reasons []string
	for _, p := range r.PassedSince(version) {
		reasons = append(reasons, p.Reason)
	}
	return plan.JoinReasons(reasons...)
}

// PassedSince returns the points of no return that later revisions than a given one have passed: the last one for each reason. The
// limit of the history may have deleted the records of these revisions. Those before an uninstall do not count.
func (r *Revisions) PassedSince(version int) (all []Passed) {
	for _, rel := range r.All {
		if rel.Info.Status == rcommon.StatusUninstalled {
			all = nil
			continue
		}
		var passed []Passed
		if record := ReadRecord(rel); record != nil && record.Authored == rel.Version {
			passed = slices.Clone(record.Passed)
		}
		for _, reason := range PassedNoReturn(rel) {
			passed = append(passed, Passed{rel.Version, reason})
		}
		for _, p := range passed {
			if i := slices.IndexFunc(all, func(a Passed) bool { return a.Reason == p.Reason }); i >= 0 {
				all[i].Revision = max(all[i].Revision, p.Revision)
			} else {
				all = append(all, p)
			}
		}
	}
	return slices.DeleteFunc(all, func(p Passed) bool { return p.Revision <= version })
}

// WasDeployed reports whether a revision was ever deployed. Helm also marks a failed revision as
// superseded if the rollback from it fails, but does not change its description.
func WasDeployed(rel *rel1.Release) bool {
	switch rel.Info.Status {
	case rcommon.StatusDeployed:
		return true
	case rcommon.StatusSuperseded:
		return !describedAsFailed(rel)
	}
	return false
}

// describedAsFailed reports whether a description is one that Helm or lockstep gives a failed revision, and no other text of a user.
func describedAsFailed(rel *rel1.Release) bool {
	return slices.ContainsFunc([]string{"Release", "Upgrade", "Rollback", "Uninstall of"}, func(what string) bool {
		return strings.HasPrefix(rel.Info.Description, fmt.Sprintf("%s %q failed: ", what, rel.Name))
	})
}

// Others returns the revisions except old that may have left objects behind, newest first, and then those that were pruned.
func (r *Revisions) Others(old *rel1.Release) (out []*rel1.Release) {
	for _, rel := range slices.Backward(r.All) {
		if (old == nil || rel.Version != old.Version) && r.MayHaveLeft(rel) {
			out = append(out, rel)
		}
	}
	return append(out, r.Pruned()...)
}

// MayHaveLeft reports whether objects may exist that a revision brought and a later one lacks: that of one that was deployed were
// removed by the next one that was, or by the uninstall. Somebody may have restored them since.
func (r *Revisions) MayHaveLeft(rel *rel1.Release) bool {
	return !WasDeployed(rel) && rel.Info.Status != rcommon.StatusUninstalled || slices.Contains(r.SinceDeployed(), rel)
}
