package operation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// Uninstall holds the options of an uninstall. Without a readiness timeout, only the timeout of the operation limits
// how long an object takes to be deleted.
type Uninstall struct {
	Common
	KeepHistory         bool
	IgnoreNotFound      bool
	DeletionPropagation string
	Description         string
}

// PrepareUninstall checks and plans an uninstall. It does not change the release. If the release does not exist and
// IgnoreNotFound is set, or if a run was killed just after it uninstalled the release, PrepareUninstall deletes the Lease of
// the killed run, if there is one, and returns nil, nil.
func PrepareUninstall(ctx context.Context, c *connect.Client, u Uninstall) (*Operation, error) {
	deletionTimeout := u.ReadinessTimeout // Complete replaces 0, which here means no limit
	return prepare(ctx, c, &u.Common, ending{operation: "uninstall"}, nil, func(s *session.Session, c *connect.Client) (*Operation, error) {
		return u.prepare(s, c, deletionTimeout)
	})
}

func (u *Uninstall) prepare(s *session.Session, c *connect.Client, deletionTimeout time.Duration) (*Operation, error) {
	state, found, err := loadRelease(s, "uninstall")
	begun := killedBeforeUnlock(s, "uninstall") || u.Journal.Before().Start != nil
	uninstalled := err == nil && found && u.KeepHistory && state.Last.Info.Status == rcommon.StatusUninstalled
	if err == nil && (begun && uninstalled || !found && (begun || u.IgnoreNotFound)) {
		if err := s.Lease.DeleteStale(s.Context, s.Client.Leases(u.Namespace)); err != nil {
			return nil, fmt.Errorf("uninstall %s: delete the lock of a killed run: %w", u.Release, err)
		}
		return nil, nil
	}
	if _, err = release.MustExist(state, found, err); err != nil {
		return nil, wrapReadError(s, "uninstall", err)
	}
	if uninstalled {
		return nil, fmt.Errorf("uninstall %s: already uninstalled; to delete its history too, run uninstall without --keep-history", u.Release)
	}
	p, err := u.plan(s, state)
	if err != nil {
		return nil, err
	}
	p.Info.ReadinessTimeout = deletionTimeout
	if p, err = preflight.Check(s, p, nil); err != nil {
		return nil, err
	}
	run := func(a *attempt) (*rel1.Release, error) { return u.run(a, state.stored) }
	op := newOperation(c, task{prepared: p, do: run, options: u, uninstalling: true, deletionTimeout: deletionTimeout})
	if state.Last.Info.Status == rcommon.StatusUninstalled {
		op.doneMessage = "the release was already uninstalled; its history was deleted"
	}
	return op, nil
}

// plan plans the removal of the latest revision's objects, then of leftovers of earlier revisions (R32a). If the release
// is already uninstalled, there is only its history to delete, so the plan has no phases.
func (u *Uninstall) plan(s *session.Session, state *releaseState) (*session.Prepared, error) {
	rel := state.Last
	p := &session.Prepared{
		Common: s.Common, Info: s.Info("uninstall", rel), Target: session.Target{Release: rel, Stored: true},
		Work: helmclient.Work{Hooks: u.hookEvents(rel)}, Basis: state.basis(s, 0), Warnings: state.warnings,
	}
	if rel.Info.Status == rcommon.StatusUninstalled {
		return p, nil
	}
	b := s.Builder(p.Target.Root())
	old, list, warnings, err := readRevision(s.Context, b, rel)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, u.checkHistory(list)...)
	if _, _, err := preflight.WaitForAPIs(s, list); err != nil {
		return nil, err
	}
	b.Prefetch(s.Context, list, nil)
	if u.SkipPreflight { // otherwise the permission check refuses the uninstall
		warnings = append(warnings, helmclient.MarkUnread(s.Context, b, list)...)
	}
	p.Target.Claims, _ = state.claims(u.Common, b, rel, list, false) // if the deployed revision cannot be read, objects without marks are kept
	skip := "skip the hooks of the release with --no-hooks"
	if u.Provided != nil {
		skip = "set disableHooks: true for release " + u.Release
	}
	p.Target.Claims.Advice = manifest.TakeAdvice{One: skip, Many: skip}
	conflicts, more, err := hookConflicts(s, b, p.Target, p.Hooks, state)
	if err != nil {
		return nil, err
	}
	unread, unordered := refuseUnreadOrder(u.Common, rel, "all objects are deleted at once")
	p.Conflicts, warnings = append(unread, conflicts...), slices.Concat(unordered, warnings, more)
	removable, more := helmclient.Removable(b, p.Target.Claims, list)
	warnings = append(warnings, more...)
	warnings = slices.Concat(warnings, warnOfClaims(s, removable), helmclient.WarnOfDependents(b, removable))
	p.Old = old
	p.Remove, more = helmclient.Ordering{Root: p.Target.Root()}.PlanRemoval(old.Revision, b.Resources(removable))
	warnings = append(warnings, more...)
	search := leftoverSearch{
		session: s, builder: b, revisions: state.Others(rel), old: rel, claims: p.Target.Claims, planned: []helmkube.ResourceList{list},
	}
	p.Leftovers, more = search.leftovers()
	p.Warnings = uniqueWarnings(slices.Concat(state.warnings, warnings, more))
	pre, post := helmclient.HookPhases(rel, "", p.Hooks, nil)
	_, older := p.Leftovers.Planned()
	p.Phases = slices.Concat(pre, helmclient.Phases(append([]helmclient.Planned{p.Remove}, older...)...), post)
	return p, nil
}

// checkHistory warns if the history that --keep-history keeps is deleted with the release's own namespace.
func (u *Uninstall) checkHistory(list helmkube.ResourceList) []plan.Warning {
	for _, i := range list {
		o := plan.Object{Kind: "Namespace", Name: u.Namespace}
		if u.KeepHistory && i.Name == o.Name && i.Mapping.GroupVersionKind.GroupKind() == (schema.GroupKind{Kind: o.Kind}) && !manifest.HasKeepPolicy(i) {
			return []plan.Warning{{Rule: "R31", Object: &o, Message: fmt.Sprintf(
				"the release contains its own namespace %s, so its history is deleted with it, despite --keep-history", o.Name)}}
		}
	}
	return nil
}

// hookEvents returns the hook events of the uninstall, none if the release is already uninstalled.
func (u *Uninstall) hookEvents(rel *rel1.Release) helmclient.HookEvents {
	noHooks := u.NoHooks || rel.Info.Status == rcommon.StatusUninstalled
	return hookEvents(noHooks, rel1.HookPreDelete, rel1.HookPostDelete)
}

// prepareRollback prepares the uninstall as the rollback of an install that has just failed.
func (u *Uninstall) prepareRollback(r *runner) (task, error) {
	s, err := r.newSession()
	if err != nil {
		return task{}, err
	}
	revs, err := release.MustExist(release.Read(s.Releases(), u.Release))
	if err != nil {
		return task{}, fmt.Errorf("read release %s: %w", u.Release, err)
	}
	rel := revs.Last
	b := s.Builder(rel.Chart.Name())
	old, list, _, err := readRevision(s.Context, b, rel)
	if err != nil {
		return task{}, err
	}
	search := leftoverSearch{
		session: s, builder: b, prefix: event.RollbackPrefix, revisions: revs.Others(rel), old: rel, planned: []helmkube.ResourceList{list},
	}
	leftovers, _ := search.leftovers()
	prepared := &session.Prepared{
		Common: s.Common, Info: event.Operation{Name: "uninstall"}, Target: session.Target{Release: rel, Stored: true},
		Old: old, Work: helmclient.Work{Leftovers: leftovers, Hooks: u.hookEvents(rel)},
	}
	run := func(a *attempt) (*rel1.Release, error) { return u.run(a, rel) }
	return task{prepared: prepared, do: run, rollbackOnFailure: true, uninstalling: true}, nil
}

// run runs Helm's uninstall. plan.RemovalOrder decides the order of the removals (R31).
func (u *Uninstall) run(a *attempt, last *rel1.Release) (*rel1.Release, error) {
	if err := a.admitFirst(); err != nil {
		return nil, err
	}
	rel, err := a.acquireLockAndWriteMarks(last)
	if err != nil {
		return nil, err
	}
	if err := a.client.ExpectHooks(rel); err != nil {
		return nil, err
	}
	h := action.NewUninstall(a.helm.Config)
	h.DisableHooks = u.NoHooks
	h.IgnoreNotFound = u.IgnoreNotFound
	h.KeepHistory = u.KeepHistory
	h.WaitStrategy = u.WaitStrategy()
	h.Timeout = u.Timeout
	h.DeletionPropagation = u.DeletionPropagation
	h.Description = u.Description
	if _, err := h.Run(u.Release); err != nil {
		if removeErr := a.client.RemoveErr(); removeErr != nil { // Helm's error does not say why
			return nil, removeErr
		}
		return nil, err
	}
	return nil, nil
}

// warnOfClaims says what becomes of the claims that StatefulSets have made when these are deleted (R31).
func warnOfClaims(s *session.Session, removed helmkube.ResourceList) (warnings []plan.Warning) {
	removed = removed.Filter(func(i *resource.Info) bool { return !manifest.HasKeepPolicy(i) })
	kept, deleted := cluster.ClaimsOfSets(s.Context, s.Client.Clientset, removed)
	for _, m := range append(kept, deleted...) {
		warnings = append(warnings, plan.Warning{Rule: "R31", Message: m})
	}
	return warnings
}

// warnOfScaledSets says which claims are deleted because the operation scales their StatefulSets down (R30).
func warnOfScaledSets(s *session.Session, applied helmkube.ResourceList) (warnings []plan.Warning) {
	for _, m := range cluster.ClaimsOfScaledSets(s.Context, s.Client.Clientset, applied) {
		warnings = append(warnings, plan.Warning{Rule: "R30", Message: m})
	}
	return warnings
}
