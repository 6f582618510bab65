package operation

import (
	"context"
	"errors"
	"fmt"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
	"lockstep/kube/preview"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// Recovery is the result of Recover: the state of a release, and how the cluster differs from its revisions.
type Recovery struct {
	Release, Namespace string
	// Marked are the unfinished revisions that Recover has marked. Dead is the killed run that left its Lease, nil for
	// none.
	Marked []release.Mark
	Dead   *lease.Holder
	// Revision is the latest one, and Status its status after Recover. Interrupted is the operation that failed or was
	// interrupted: "install", "upgrade", "rollback" or "uninstall", "" for none.
	Revision    int
	Status      rcommon.Status
	Interrupted string
	// RollbackTarget is the target of the latest revision if that is a rollback. GoodRevision is the revision to roll
	// back to. Both are 0 for none.
	RollbackTarget, GoodRevision int
	// Changes would bring the cluster to the latest revision. MatchesGood has the objects that match GoodRevision.
	Changes     []inspect.Change
	MatchesGood map[plan.Object]bool
}

// Recover marks the revisions that a killed run or Helm left unfinished and, if the last operation did not succeed,
// compares the release with the cluster. The error is a *lease.LockedError if a run is active.
func Recover(ctx context.Context, c *connect.Client, common Common) (*Recovery, error) {
	common, err := common.Complete(c.Namespace())
	if err != nil {
		return nil, err
	}
	r, err := recoverRelease(ctx, c, common)
	return r, common.Mask.Error(err)
}

func recoverRelease(ctx context.Context, c *connect.Client, common Common) (*Recovery, error) {
	ctx, cancel := common.WithTimeout(ctx)
	defer cancel()
	s, err := session.OpenIfUnlocked(ctx, c, common)
	if err != nil {
		return nil, err
	}
	revs, found, err := release.Read(s.Releases(), common.Release)
	switch {
	case err != nil:
		return nil, wrapReadError(s, "recover", err)
	case !found:
		return nil, &release.NotFound{Name: common.Release, Namespace: common.Namespace}
	}
	r := &Recovery{Release: common.Release, Namespace: common.Namespace, Marked: revs.Interrupted()}
	if s.Lease.Status == lease.Dead {
		r.Dead = &s.Lease.Holder
	}
	r.Interrupted = interruptedOperation(revs)
	if len(r.Marked) > 0 || r.Dead != nil {
		if err := r.writeMarks(s, revs); err != nil {
			return nil, fmt.Errorf("recover %s: %w", common.Release, err)
		}
		if revs, err = release.MustExist(release.Read(s.Releases(), common.Release)); err != nil {
			return nil, fmt.Errorf("recover %s: %w", common.Release, err)
		}
	}
	r.Revision = revs.Last.Version
	r.Status = revs.Last.Info.Status
	r.RollbackTarget = revs.Last.Info.RollbackRevision
	r.GoodRevision = revs.LastGood()
	if r.Interrupted == "" {
		return r, nil
	}
	return r, r.compare(s, revs)
}

// interruptedOperation returns the operation that failed or was interrupted, "" for none.
func interruptedOperation(revs *release.Revisions) string {
	switch info := revs.Last.Info; {
	case info.Status == rcommon.StatusDeployed, info.Status == rcommon.StatusUninstalled:
		return ""
	case !info.Deleted.IsZero():
		return "uninstall"
	case info.RollbackRevision > 0:
		return "rollback"
	case revs.LastGood() == 0:
		return "install"
	}
	return "upgrade"
}

// writeMarks writes the marks, unless the release has changed since it was read.
func (r *Recovery) writeMarks(s *session.Session, read *release.Revisions) error {
	return withLease(s, func() error {
		last, err := release.MustExist(release.Last(s.Releases(), r.Release))
		if err != nil {
			return err
		}
		if !release.Same(last, read.Last) {
			return fmt.Errorf("the release has changed since it was read (now revision %d, %s); run the command again", last.Version, last.Info.Status)
		}
		for _, m := range r.Marked {
			if err := m.Write(s.Releases(), r.Release); err != nil {
				return err
			}
		}
		return nil
	})
}

// withLease calls do while it holds the Lease of the release, or without one if Leases are unavailable.
func withLease(s *session.Session, do func() error) error {
	if s.Lease.Status == lease.Unavailable {
		return do()
	}
	params := lease.Params{Namespace: s.Common.Namespace, Release: s.Common.Release, Operation: "recover"}
	l, _, err := acquireLease(s.Context, s.Client, params, s.Lease, s.Common.Lease)
	switch {
	case err != nil:
		return err
	case l == nil:
		return do()
	}
	err = do()
	return errors.Join(err, l.unlock())
}

// compare fills in Changes and MatchesGood.
func (r *Recovery) compare(s *session.Session, revs *release.Revisions) (err error) {
	r.Changes, err = changesTo(s, revs, r.Revision)
	if err != nil || r.GoodRevision == 0 || r.GoodRevision == r.Revision {
		return err
	}
	changes, err := changesTo(s, revs, r.GoodRevision)
	r.MatchesGood = map[plan.Object]bool{}
	for _, c := range changes {
		if c.Action == inspect.Unchanged {
			r.MatchesGood[c.Object] = true
		}
	}
	return err
}

// changesTo returns the changes that would bring the cluster to a revision, without hooks.
func changesTo(s *session.Session, revs *release.Revisions, revision int) ([]inspect.Change, error) {
	rb := Rollback{Common: s.Common, Revision: revision}
	rb.NoHooks, rb.PlanOnly = true, true
	target, err := rb.target(revs, false)
	if err != nil {
		return nil, err
	}
	p, _, err := rb.plan(s, &releaseState{Revisions: revs, stored: revs.Last}, target)
	if err != nil {
		return nil, err
	}
	return preview.Changes(s.Context, s.Client, p)
}
