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

// existing is a release with its revisions as they will be once the marks are written.
type existing struct {
	*release.Revisions
	stored   *rel1.Release // the latest revision as stored, without marks
	marks    []release.Mark
	warnings []plan.Warning
	// dead is set if the last run on the release was killed.
	dead bool
}

// findRelease reads a release and makes the session's storage show the marks, which
// the operation writes before anything else. It returns an error if another run may be
// active. there is false if the release does not exist.
//
// Rule R52: a release left pending or uninstalling by a dead run blocks nobody.
func findRelease(s *preflight.Session) (f *existing, there bool, err error) {
	revs, there, err := release.Read(s.Releases(), s.Common.Release)
	if err != nil || !there {
		return nil, false, err
	}
	f = &existing{Revisions: revs, stored: revs.Last, dead: s.Lease.Status == lease.Dead}
	for _, m := range revs.Interrupted() {
		if !m.Ours && m.Revision != revs.Last.Version {
			continue // Helm ignores it too
		}
		if !s.Common.Edited.Created(m.Revision) {
			if err := f.checkMark(s, m); err != nil {
				return nil, false, err
			}
		}
		f.marks = append(f.marks, m)
	}
	if len(f.marks) > 0 { // read the release as it will be
		s.Helm.Config.Releases = release.Marked(s.Releases(), f.marks)
		f.Revisions, err = release.MustExist(release.Read(s.Releases(), s.Common.Release))
	}
	return f, true, err
}

// killedBeforeUnlock reports whether the last run was the same operation and was killed while
// it held the Lease. It may have been complete by then.
func killedBeforeUnlock(s *preflight.Session, operation string) bool {
	return s.Lease.Status == lease.Dead && s.Lease.Holder.Operation == operation
}

// checkMark adds a warning about a mark, or returns an error if it must not be written.
func (f *existing) checkMark(s *preflight.Session, m release.Mark) error {
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
	f.warnings = append(f.warnings, plan.Warning{Rule: "R52", Message: message})
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

// basis returns the state that the plan is based on. made is the revision that the operation
// creates, 0 for none. f is nil if the release does not exist.
func (f *existing) basis(s *preflight.Session, made int) preflight.Basis {
	b := preflight.Basis{Lease: s.Lease, Records: f.records(made)}
	if f != nil {
		b.Last, b.Marks, b.Resumes, b.UsualDurations = f.stored, f.marks, f.Last.Info.Status == rcommon.StatusFailed, f.Usual()
	}
	return b
}

// allWarnings returns the warnings about the state of the release; f may be nil.
func (f *existing) allWarnings() []plan.Warning {
	if f == nil {
		return nil
	}
	return f.warnings
}

// records returns the revisions whose records an operation may update: the one that it
// creates (made, 0 for none), those that it supersedes, and the marked ones. Deleted
// are all, for an uninstall and for the rollback of an install.
func (f *existing) records(made int) (r preflight.RecordChanges) {
	if made > 0 {
		r.Updated, r.Deleted = append(r.Updated, made), append(r.Deleted, made)
	}
	if f == nil {
		return r
	}
	for _, rel := range f.All {
		r.Deleted = append(r.Deleted, rel.Version)
		if rel == f.Last || rel == f.Current || rel.Info.Status == rcommon.StatusDeployed {
			r.Updated = append(r.Updated, rel.Version)
		}
	}
	for _, m := range f.marks {
		if !slices.Contains(r.Updated, m.Revision) {
			r.Updated = append(r.Updated, m.Revision)
		}
	}
	return r
}

// mark takes the Lease and writes the marks, before all other writes of an operation.
func (a *attempt) mark(planned *rel1.Release) (*rel1.Release, error) {
	last, err := a.lockRelease(planned)
	if err != nil || a.spec.prefix != "" || len(a.op.prepared.Marks) == 0 {
		return last, err
	}
	for _, m := range a.op.prepared.Marks {
		if err := m.Write(a.helm.Config.Releases, a.op.prepared.Common.Release); err != nil {
			return nil, err
		}
	}
	return release.MustExist(release.Last(a.helm.Config.Releases, a.op.prepared.Common.Release))
}
