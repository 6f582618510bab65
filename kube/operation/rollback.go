package operation

import (
	"context"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/kube/connect"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// Rollback are the options of a rollback.
type Rollback struct {
	Common
	// Revision to roll back to, 0 for the one before the last.
	Revision       int
	ForceConflicts bool
	ForceReplace   bool
	// ServerSide is "true", "false" or "auto": as the revision was applied.
	ServerSide    string
	CleanupOnFail bool
	HistoryMax    int
	Description   string
}

// PrepareRollback checks and plans a rollback. It writes nothing.
func PrepareRollback(ctx context.Context, c *connect.Client, back Rollback) (*Operation, error) {
	return prepare(ctx, c, &back.Common, nil, back.prepare)
}

func (back *Rollback) prepare(s *preflight.Session, c *connect.Client) (*Operation, error) {
	revs, err := release.MustExist(findRelease(s))
	if err != nil {
		return nil, cannotRead(s, "rollback", err)
	}
	target, err := back.target(revs.Revisions, revs.dead)
	if err != nil {
		return nil, err
	}
	if err := checkForce(back.ForceReplace, back.ForceConflicts, serverSide(back.ServerSide, target)); err != nil {
		return nil, err
	}
	p, incoming, err := back.plan(s, revs, target)
	if err != nil {
		return nil, err
	}
	if p, err = s.Check(p, incoming); err != nil {
		return nil, err
	}
	run := func(a *attempt) (*rel1.Release, error) { return back.run(a, target.Version, revs.stored) }
	return newOperation(c, p, method{main: task{newSpec(p), run}}), nil
}

// plan plans a rollback.
//
// Rule R32: in the order of the target revision, if that was sequenced; removals in the
// reverse order of the current one.
// Rule R30a: the order comes from the records, whatever --wait is.
func (back *Rollback) plan(s *preflight.Session, revs *existing, target *rel1.Release) (*preflight.Prepared, *preflight.Incoming, error) {
	b := s.Builder(target.Chart.Name())
	old, held, warnings, err := readRevision(s.Context, b, revs.Last)
	if err != nil {
		return nil, nil, err
	}
	list, err := buildRevision(b, target)
	if err != nil {
		return nil, nil, err
	}
	_, later, err := s.WaitForAPIs(list)
	if err != nil {
		return nil, nil, err
	}
	b.Hide(list, later)
	b.Prefetch(s.Context, list, nil)
	warnings = append(warnings, preflight.OwnerWarnings(b, list)...)
	info := s.Info("rollback", target)
	info.Revision, info.ToRevision = revs.Last.Version+1, target.Version
	p, err := planning{
		found: revs, rendered: &rendered{release: target, builder: b, list: list, warnings: warnings, deferredAPIs: later}, old: old, held: held, others: revs.Others(revs.Last),
		target: preflight.Target{
			Release: target, Tree: release.TreeOf(target), Force: back.ForceConflicts, ClientSide: !serverSide(back.ServerSide, target), Replace: back.ForceReplace,
		},
		events: hookEvents(back.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback),
	}.plan(s, info)
	if err != nil {
		return nil, nil, fmt.Errorf("order revision %d: %w", target.Version, err)
	}
	return p, &preflight.Incoming{Builder: b, List: list}, nil
}

// target returns the revision to roll back to. dead is set if the last run was killed.
func (back *Rollback) target(revs *release.Revisions, dead bool) (*rel1.Release, error) {
	to := back.Revision
	if to == 0 {
		to = defaultTarget(revs, dead)
	}
	if to == 0 {
		return nil, fmt.Errorf("release %s has only revision 1 (%s), so there is nothing to roll back to", back.Release, revs.Last.Info.Status)
	}
	if i := slices.IndexFunc(revs.All, func(rel *rel1.Release) bool { return rel.Version == to }); i >= 0 {
		return revs.All[i], nil
	}
	return nil, fmt.Errorf("release %s has no revision %d; list revisions with: lockstep history %[1]s", back.Release, to)
}

// defaultTarget returns the revision to roll back to if the user names none: the target of a
// rollback that failed or was killed, else the last good revision before the latest one,
// else the one before it.
func defaultTarget(revs *release.Revisions, dead bool) int {
	last := revs.Last.Info
	if last.RollbackRevision > 0 && (dead || last.Status != rcommon.StatusDeployed) {
		return last.RollbackRevision
	}
	if good := revs.GoodBefore(revs.Last.Version); good > 0 {
		return good
	}
	return revs.Last.Version - 1
}

// asRollback plans the rollback of a failed upgrade on the objects that the upgrade left.
func (back *Rollback) asRollback(as *attempts) (task, error) {
	s, err := as.newSession()
	if err != nil {
		return task{}, err
	}
	revs, err := release.MustExist(release.Read(s.Releases(), back.Release))
	if err != nil {
		return task{}, cannotRead(s, "rollback", err)
	}
	target, err := back.target(revs, false)
	if err != nil {
		return task{}, err
	}
	b := s.Builder(target.Chart.Name())
	old, held, _, err := readRevision(s.Context, b, revs.Last)
	if err != nil {
		return task{}, err
	}
	list, err := buildRevision(b, target)
	if err != nil {
		return task{}, err
	}
	left, _ := leftoverSearch{s, b, event.RollbackPrefix, revs.Others(revs.Last), revs.Last, []helmkube.ResourceList{list, held}}.leftovers()
	run := func(a *attempt) (*rel1.Release, error) { return back.run(a, target.Version, revs.Last) }
	return task{spec{
		prefix: event.RollbackPrefix, wait: back.Strategy(), force: back.ForceConflicts, root: target.Chart.Name(),
		tree: release.TreeOf(target), old: old.Revision, leftovers: left, hooks: hookEvents(back.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback),
		preview: &preflight.Prepared{
			Common: s.Common, Info: event.Operation{Name: "rollback"}, Target: preflight.Target{Release: target, Force: back.ForceConflicts}, Old: preflight.Old{Release: revs.Last},
		},
	}, run}, nil
}

// run runs Helm's rollback, after a check, which Helm lacks, that no other revision was
// created since planning.
func (back *Rollback) run(a *attempt, to int, from *rel1.Release) (*rel1.Release, error) {
	if err := a.admitFirst(); err != nil {
		return nil, err
	}
	if _, err := a.mark(from); err != nil {
		return nil, fmt.Errorf("roll back: %w", err)
	}
	h := action.NewRollback(a.helm.Config)
	h.Version, h.Timeout = to, back.Timeout
	h.WaitStrategy, h.WaitForJobs, h.DisableHooks = back.Strategy(), back.WaitForJobs, back.NoHooks
	h.ForceConflicts, h.ForceReplace = back.ForceConflicts, back.ForceReplace
	if back.ServerSide != "" {
		h.ServerSideApply = back.ServerSide
	}
	h.CleanupOnFail, h.MaxHistory, h.Description = back.CleanupOnFail, back.HistoryMax, back.Description
	return nil, h.Run(back.Release)
}
