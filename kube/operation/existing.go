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

// existing is a release with its revisions, as if marks were already written.
type existing struct {
	*release.Revisions
	stored   *rel1.Release // the latest revision, without the marks
	marks    []release.Mark
	warnings []plan.Warning
	// dead is set if the last run on the release was killed.
	dead bool
}

// Rule R52: a release left pending or uninstalling by a dead run blocks nobody.
//
// findRelease reads a release and makes the session's storage show the marks, which
// the operation writes first. It is an error if another run may be active. there is
// false if the release does not exist.
func findRelease(s *preflight.Session) (f *existing, there bool, err error) {
	revs, there, err := release.Read(s.Releases(), s.Common.Release)
	if err != nil || !there {
		return nil, false, err
	}
	f = &existing{Revisions: revs, stored: revs.Last, dead: s.Lease.Kind == lease.Dead}
	for _, m := range revs.Cut() {
		if !m.Ours && m.Revision != revs.Last.Version {
			continue // Helm was not stopped by it either
		}
		if s.Common.Own.Makes(m.Revision) {
			f.marks = append(f.marks, m)
			continue
		}
		if err := f.checkMark(s, m); err != nil {
			return nil, false, err
		}
		f.marks = append(f.marks, m)
	}
	return f, true, f.applyMarks(s)
}

// applyMarks reads the release again, with the marks.
func (f *existing) applyMarks(s *preflight.Session) (err error) {
	if len(f.marks) == 0 {
		return nil
	}
	s.Helm.Config.Releases = release.Marked(s.Releases(), f.marks)
	f.Revisions, err = release.There(release.Read(s.Releases(), s.Common.Release))
	return err
}

// killedBeforeUnlock reports whether the last run was of this operation and still held
// the Lease when it was killed: the operation may be complete.
func killedBeforeUnlock(s *preflight.Session, operation string) bool {
	return s.Lease.Kind == lease.Dead && s.Lease.Holder.Operation == operation
}

// checkMark warns about a mark, or refuses to write it.
func (f *existing) checkMark(s *preflight.Session, m release.Mark) error {
	message := m.String()
	switch {
	case m.To == rcommon.StatusSuperseded:
		message += "; it is marked superseded"
	case !m.Ours || s.Lease.Kind == lease.Unavailable:
		return fmt.Errorf("release %s: %s by another program, perhaps helm, which may still be running; if it is not, mark the release failed with: lockstep recover %s",
			s.Common.Release, message, s.Common.Release)
	case s.Lease.Kind == lease.Dead:
		message += fmt.Sprintf(" by a run that was killed: %s; it is marked failed, and this run resumes from it", s.Lease.Holder)
	case s.Common.PlanOnly:
		message += " by a run that was killed or is still running"
	default:
		message += " by a run that has ended; it is marked failed, and this run resumes from it"
	}
	f.warnings = append(f.warnings, plan.Warning{Rule: "R52", Message: message})
	return nil
}

// cannotList refuses an operation whose user may not list the revisions, with all other
// rights known to be missing. Other errors are returned unchanged.
func cannotList(s *preflight.Session, name string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return s.Refuse(&preflight.Prepared{Common: s.Common, Info: s.Info(name, nil)}, nil, err)
}

// cannotRead is the error of an operation that could not read its release.
func cannotRead(s *preflight.Session, operation string, err error) error {
	c := s.Common
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return &release.NotFound{Name: c.Release, Namespace: c.Namespace}
	}
	return fmt.Errorf("%s %s in namespace %s: %w", operation, c.Release, c.Namespace, cannotList(s, operation, err))
}

// basis is the state that an operation is planned on; made is the revision that it
// creates, 0 for none. f is nil if there is no release.
func (f *existing) basis(s *preflight.Session, made int) preflight.Basis {
	b := preflight.Basis{Lease: s.Lease, Records: f.records(made)}
	if f != nil {
		b.Last, b.Marks, b.Resumes, b.Usual = f.stored, f.marks, f.Last.Info.Status == rcommon.StatusFailed, f.Usual()
	}
	return b
}

// allWarnings are about the state of the release.
func (f *existing) allWarnings() []plan.Warning {
	if f == nil {
		return nil
	}
	return f.warnings
}

// records are the revisions whose records an operation may change: the one that it
// creates (made, 0 for none), those that it supersedes, and the marked ones. An
// uninstall, or the rollback of an install, deletes all.
func (f *existing) records(made int) (r preflight.Records) {
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

// mark takes the Lease and writes the marks: an operation's first writes.
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
	return release.There(release.Last(a.helm.Config.Releases, a.op.prepared.Common.Release))
}
