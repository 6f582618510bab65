package operation

import (
	"errors"
	"fmt"
	"slices"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/plan"
	"lockstep/kube/lease"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// releaseState is an existing release with its revisions as they will be once the marks are
// written. Its methods accept nil, for a release that does not exist.
type releaseState struct {
	*release.Revisions
	stored   *rel1.Release // the latest revision as stored, without marks
	marks    []release.Mark
	warnings []plan.Warning
	// lastRunKilled is set if the last run on the release was killed.
	lastRunKilled bool
}

// findRelease reads a release and makes the session's storage show the marks, which
// the operation writes before anything else. It returns an error if another run may be
// active. found is false if the release does not exist.
//
// Rule R52: a release left pending or uninstalling by a dead run blocks nobody.
func findRelease(s *preflight.Session) (state *releaseState, found bool, err error) {
	revs, found, err := release.Read(s.Releases(), s.Common.Release)
	if err != nil || !found {
		return nil, false, err
	}
	state = &releaseState{Revisions: revs, stored: revs.Last, lastRunKilled: s.Lease.Status == lease.Dead}
	for _, m := range revs.Interrupted() {
		if !m.Ours && m.Revision != revs.Last.Version {
			continue // Helm ignores it too
		}
		if !s.Common.Edited.Created(m.Revision) {
			if err := state.checkMark(s, m); err != nil {
				return nil, false, err
			}
		}
		state.marks = append(state.marks, m)
	}
	if len(state.marks) > 0 { // read the release as it will be
		s.Helm.Config.Releases = release.Marked(s.Releases(), state.marks)
		state.Revisions, err = release.MustExist(release.Read(s.Releases(), s.Common.Release))
	}
	return state, true, err
}

// lastFailed reports whether the latest revision is failed.
func (r *releaseState) lastFailed() bool {
	return r != nil && r.Last.Info.Status == rcommon.StatusFailed
}

// killedBeforeUnlock reports whether the last run was the same operation and was killed while
// it held the Lease. It may have been complete by then.
func killedBeforeUnlock(s *preflight.Session, operation string) bool {
	return s.Lease.Status == lease.Dead && s.Lease.Holder.Operation == operation
}

// checkMark adds a warning about a mark, or returns an error if it must not be written.
func (r *releaseState) checkMark(s *preflight.Session, m release.Mark) error {
	message := m.String()
	switch {
	case m.To == rcommon.StatusSuperseded:
		message += "; it is marked superseded"
	case !m.Ours || s.Lease.Status == lease.Unavailable:
		return fmt.Errorf("release %s: %s by another program, perhaps helm, which may still be running; if it is not, mark the release failed with: lockstep recover %s",
			s.Common.Release, message, s.Common.Release)
	case s.Lease.Status == lease.Dead:
		message += fmt.Sprintf(" by a run that was killed: %s; it is marked failed, and this run resumes from it", s.Lease.Holder)
	case s.Common.PlanOnly:
		message += " by a run that was killed or is still running"
	default:
		message += " by a run that has ended; it is marked failed, and this run resumes from it"
	}
	r.warnings = append(r.warnings, plan.Warning{Rule: "R52", Message: message})
	return nil
}

// cannotList turns a forbidden error from listing revisions into a refusal that names all
// missing rights. It returns other errors unchanged.
func cannotList(s *preflight.Session, name string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return s.Refuse(&preflight.Prepared{Common: s.Common, Info: s.Info(name, nil)}, nil, err)
}

// cannotRead wraps the error of an operation that could not read its release.
func cannotRead(s *preflight.Session, operation string, err error) error {
	c := s.Common
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return &release.NotFound{Name: c.Release, Namespace: c.Namespace}
	}
	return fmt.Errorf("%s %s in namespace %s: %w", operation, c.Release, c.Namespace, cannotList(s, operation, err))
}

// basis returns the state that the plan is based on. newRevision is the revision that the
// operation creates, 0 for none.
func (r *releaseState) basis(s *preflight.Session, newRevision int) preflight.Basis {
	b := preflight.Basis{Lease: s.Lease, Records: r.records(newRevision)}
	if r != nil {
		b.Last, b.Marks, b.Resumes, b.UsualDurations = r.stored, r.marks, r.lastFailed(), r.Usual()
	}
	return b
}

// allWarnings returns the warnings about the state of the release.
func (r *releaseState) allWarnings() []plan.Warning {
	if r == nil {
		return nil
	}
	return r.warnings
}

// records returns the revisions whose records an operation may update: the one that it
// creates (newRevision, 0 for none), those that it supersedes, and the marked ones. All of
// them may be deleted, by an uninstall or the rollback of an install.
func (r *releaseState) records(newRevision int) (c preflight.RecordChanges) {
	if newRevision > 0 {
		c.Updated, c.Deleted = append(c.Updated, newRevision), append(c.Deleted, newRevision)
	}
	if r == nil {
		return c
	}
	for _, rel := range r.All {
		c.Deleted = append(c.Deleted, rel.Version)
		if rel == r.Last || rel == r.Current || rel.Info.Status == rcommon.StatusDeployed {
			c.Updated = append(c.Updated, rel.Version)
		}
	}
	for _, m := range r.marks {
		if !slices.Contains(c.Updated, m.Revision) {
			c.Updated = append(c.Updated, m.Revision)
		}
	}
	return c
}

// lockAndWriteMarks takes the Lease, verifies that the latest revision is the expected one, and
// writes the marks, before all other writes of an operation.
func (a *attempt) lockAndWriteMarks(expected *rel1.Release) (*rel1.Release, error) {
	last, err := a.lockRelease(expected)
	if err != nil || a.spec.prefix != "" || len(a.op.prepared.Marks) == 0 {
		return last, err
	}
	name := a.op.prepared.Common.Release
	for _, m := range a.op.prepared.Marks {
		if err := m.Write(a.helm.Config.Releases, name); err != nil {
			return nil, err
		}
	}
	return release.MustExist(release.Last(a.helm.Config.Releases, name))
}
