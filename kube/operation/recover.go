package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/drift"
	"lockstep/kube/helmclient"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
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
	p.Resumes = false // a failed Job is compared like any other object, although the next run replaces it
	return preview.Changes(s.Context, s.Client, p)
}

// Repair holds the options of a repair. It applies the objects of the deployed revision again that the cluster has otherwise
// (S18).
type Repair struct{ Common }

// PrepareRepair checks and plans a repair. It does not change the release. It returns nil, nil if it would apply nothing.
func PrepareRepair(ctx context.Context, c *connect.Client, r Repair) (*Operation, error) {
	return prepare(ctx, c, &r.Common, ending{}, nil, r.prepare)
}

func (r *Repair) prepare(s *session.Session, c *connect.Client) (*Operation, error) {
	state, err := release.MustExist(loadRelease(s, "repair"))
	if err != nil {
		return nil, wrapReadError(s, "repair", err)
	}
	rel := state.Last
	if rel.Info.Status != rcommon.StatusDeployed {
		return nil, drift.NotDeployed(rel)
	}
	found, err := drift.Compare(s.Context, s.Client, s.Common.Mask, []*rel1.Release{rel}, nil)
	if err != nil {
		return nil, err
	}
	if !found[0].Repairable() {
		return nil, nil
	}
	p, err := r.check(s.Recorded(rel), c, state, found[0])
	if err != nil {
		return nil, err
	}
	run := func(a *attempt) (*rel1.Release, error) { return r.run(a, found[0]) }
	return newOperation(c, task{prepared: p, do: run}), nil
}

// check plans and checks the repair. Objects that the cluster or the checks refuse are left out, unless that leaves none.
func (r *Repair) check(s *session.Session, c *connect.Client, state *releaseState, found *drift.Release) (*session.Prepared, error) {
	p, incoming, err := r.plan(s, c, state, found)
	if err != nil {
		return nil, fmt.Errorf("order revision %d: %w", state.Last.Version, err)
	}
	checked, err := preflight.Check(s, p, incoming)
	refusal := (*preflight.Refusal)(nil)
	if !errors.As(err, &refusal) {
		return checked, err
	}
	for _, w := range refusal.Conflicts {
		if w.Object == nil || !found.Repairs(*w.Object) {
			return nil, err
		}
	}
	for _, w := range refusal.Conflicts {
		found.LeaveOut(*w.Object, w.Message)
	}
	if !slices.ContainsFunc(found.Compared, found.Repairs) {
		return nil, err
	}
	return r.check(s, c, state, found)
}

// plan plans the groups of the objects that differ, in the order of all groups.
func (r *Repair) plan(s *session.Session, c *connect.Client, state *releaseState, found *drift.Release) (*session.Prepared, *preflight.Incoming, error) {
	target := *state.Last
	target.Hooks = nil
	b := s.Builder(target.Chart.Name())
	all, _, err := b.BuildTarget(target.Manifest) // what is no longer served cannot be compared, so it does not differ
	if err != nil {
		return nil, nil, err
	}
	info := s.Info("repair", &target)
	ordering := helmclient.Ordering{
		Root: target.Chart.Name(), Jobs: s.Common.WaitForJobs, WaitFor: firstOutside(b, s.Common, info), WaitOutside: b.WaitOutside, Charts: release.ChartsOf(&target),
	}
	apply, _, err := ordering.PlanApply(release.TreeOf(&target), b.Resources(all), nil)
	if err != nil {
		return nil, nil, err
	}
	list := differing(b, all, found)
	apply.Phase.Groups = plan.Subset(apply.Phase.Groups, found.Repairs)
	for _, g := range apply.Phase.Groups {
		g.ContinueOnError = true // an object that is refused when it is written keeps only those from their repair that wait for it
	}
	apply.Resources = b.Resources(list)
	b.Prefetch(s.Context, list, nil)
	claims, err := state.claims(r.Common, b, &target, list, false)
	if err != nil {
		return nil, nil, err
	}
	claims.Advice = manifest.TakeAdvice{}
	warnings := slices.Concat(state.warnings, found.Warnings, unreadOrder(&target, "objects are repaired all at once"))
	for _, o := range found.Objects {
		if o.Owner != "" {
			warnings = append(warnings, plan.Warning{Rule: "S18", Object: &o.Object, Message: fmt.Sprintf("%s is not repaired: it belongs to %s now", o.Object, o.Owner)})
		}
	}
	for _, o := range found.LeftOut {
		warnings = append(warnings, plan.Warning{Rule: "S18", Object: &o.Object, Message: o.Error()})
	}
	server := serverSide("", &target)
	method := helmclient.Method{ClientSide: !server, Force: server, MergeCustom: true, Adapter: drift.Repair{Release: found, Client: c}}
	return &session.Prepared{
		Common: s.Common, Info: info, Old: session.OldRevision{Release: &target},
		Target: session.Target{Release: &target, Tree: release.TreeOf(&target), Method: method, Claims: claims},
		Work:   helmclient.Work{Apply: apply}, Phases: helmclient.Phases(apply), Warnings: warnings,
		Conflicts: preflight.CheckOwners(b, list, claims, nil),
		Basis:     session.Basis{Last: state.stored, Lease: s.Lease, UsualDurations: state.Usual()},
	}, &preflight.Incoming{Builder: b, List: list}, nil
}

// differing returns the objects of a list that the cluster has otherwise.
func differing(b *manifest.Builder, all helmkube.ResourceList, found *drift.Release) (list helmkube.ResourceList) {
	for _, i := range all {
		f := b.Fact(i)
		if f == nil || f.Generated || !found.Repairs(f.Resource.Object) {
			continue
		}
		b.Scope().Mark(i) // as Helm's action does
		list = append(list, i)
	}
	return list
}

// run applies the objects. Client-side apply also needs to know what is to be removed.
func (r *Repair) run(a *attempt, found *drift.Release) (*rel1.Release, error) {
	target := a.op.prepared.Target.Release
	if err := a.client.ExpectHooks(target); err != nil {
		return nil, err
	}
	if err := a.admitFirst(); err != nil {
		return nil, err
	}
	if _, err := a.acquireLock(a.op.prepared.Last); err != nil {
		return nil, err
	}
	all, err := a.client.BuildRecorded(target.Manifest)
	if err != nil {
		return nil, err
	}
	list := differing(a.session.Builder, all, found)
	var old helmkube.ResourceList
	for _, i := range list {
		recorded := *i
		recorded.Object = i.Object.DeepCopyObject()
		old = append(old, &recorded)
	}
	if _, err = a.client.Update(old, list); err != nil {
		return nil, err
	}
	if err := r.confirm(a, found); err != nil {
		return nil, err
	}
	return nil, a.op.checkRecords(a.op.lock.ctx) // it writes no record, so nothing else notices a new revision after its last write
}

// confirm compares the objects again, and names those that were left out. Client-side apply may have no patch for a difference, such
// as a lost port that has the number of another one, and somebody may have changed an object again.
func (r *Repair) confirm(a *attempt, found *drift.Release) error {
	target := a.op.prepared.Target.Release
	var repaired []plan.Object
	for _, o := range found.Objects {
		if found.Repairs(o.Object) {
			repaired = append(repaired, o.Object)
		}
	}
	again, err := drift.Compare(a.op.lock.ctx, a.op.client, r.Mask, []*rel1.Release{target}, repaired)
	if err != nil {
		return fmt.Errorf("compare with revision %d after the repair: %w", target.Version, err)
	}
	for _, o := range again[0].Objects {
		err = errors.Join(err, repairError(o, target))
	}
	for _, o := range found.LeftOut {
		err = errors.Join(err, o)
	}
	return err
}

// repairError returns the error of an object that a repair has applied and that differs all the same.
func repairError(o inspect.DriftedObject, target *rel1.Release) error {
	if o.Unread != "" {
		return fmt.Errorf("%s cannot be compared after it was applied: %s", o.Object, o.Unread)
	}
	what := cmp.Or(o.Message, "it is gone")
	if len(o.Fields) > 0 {
		what = o.Fields[0].Field
	}
	advice := "somebody has changed it again"
	if !serverSide("", target) {
		advice += ", or client-side apply cannot change it: " + text.Program + " upgrade --server-side=true can"
	}
	return fmt.Errorf("%s still differs from revision %d after it was applied (%s): %s", o.Object, target.Version, what, advice)
}
