package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// Rollback holds the options of a rollback.
type Rollback struct {
	Common
	// Revision is the revision to roll back to, 0 for the default (see defaultTarget).
	Revision       int
	ForceConflicts bool
	ForceReplace   bool
	// ServerSide is "true", "false", or "auto" to apply as the target revision was applied; "" is "auto".
	ServerSide    string
	CleanupOnFail bool
	TakeOwnership bool // Helm's rollback always takes over objects of others
	HistoryMax    int
	Description   string

	// IgnoreNoReturn is set by the rollback of a stack, which has asked for the reason (R33a).
	IgnoreNoReturn bool
	// Undoes is the operation that the rollback of a stack undoes: what that has not changed stays as it is (R33), and so does
	// what others have taken over or created again since (R31a).
	Undoes *Operation

	// replaced are the objects that the upgrade has replaced, or would have; an automatic rollback replaces them again.
	replaced []cluster.Replacement
}

// PrepareRollback checks and plans a rollback. It does not change the release.
func PrepareRollback(ctx context.Context, c *connect.Client, rb Rollback) (*Operation, error) {
	return prepare(ctx, c, &rb.Common, ending{operation: "rollback"}, nil, rb.prepare)
}

func (rb *Rollback) prepare(s *session.Session, c *connect.Client) (*Operation, error) {
	state, err := release.MustExist(loadRelease(s, "rollback"))
	if err != nil {
		return nil, wrapReadError(s, "rollback", err)
	}
	target, err := rb.target(state.Revisions, state.lastRunKilled)
	if errors.Is(err, errNoEarlierRevision) {
		err = rb.explainNoEarlierRevision(state)
	}
	if err != nil {
		return nil, err
	}
	if err := checkForce(rb.ForceReplace, rb.ForceConflicts, serverSide(rb.ServerSide, target)); err != nil {
		return nil, err
	}
	s = s.Recorded(target)
	p, incoming, err := rb.plan(s, state, target)
	if err != nil {
		return nil, err
	}
	if p, err = preflight.Check(s, p, incoming); err != nil {
		return nil, err
	}
	run := func(a *attempt) (*rel1.Release, error) { return rb.run(a, target.Version, state.stored) }
	t := task{prepared: p, do: run, options: rb}
	if rb.Undoes != nil {
		t.untouched = rb.Undoes.untouched(state.Revisions, target)
	}
	return newOperation(c, t), nil
}

// plan plans a rollback.
//
// Rule R32: in the order of the target revision, if that was ordered; removals in the reverse order of the current one.
// Rule R30a: the order comes from the records, whatever --wait is.
func (rb *Rollback) plan(s *session.Session, state *releaseState, target *rel1.Release) (*session.Prepared, *preflight.Incoming, error) {
	b := s.Builder(target.Chart.Name())
	old, _, warnings, err := readRevision(s.Context, b, state.Last)
	if err != nil {
		return nil, nil, err
	}
	list, moved, err := buildRevision(b, target)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(warnings, moved...)
	_, deferredAPIs, err := preflight.WaitForAPIs(s, list)
	if err != nil {
		return nil, nil, err
	}
	b.MarkUnreadable(list, deferredAPIs)
	b.Prefetch(s.Context, list, nil)
	claims, err := state.claims(rb.Common, b, target, list, rb.TakeOwnership)
	if err != nil {
		return nil, nil, err
	}
	claims.Needed = manifest.NeededBy(b, list, target.Hooks)
	info := s.Info("rollback", target)
	info.Revision = state.Last.Version + 1
	info.ToRevision = target.Version
	var conflicts []plan.Warning
	if rb.Undoes != nil { // as prepareRollback: what is not the release's any more is left
		claims.Skip = true
		rb.Undoes.setApplied(claims.Planned)
	} else {
		conflicts = preflight.CheckOwners(b, list, claims, nil)
	}
	barred, barredWarnings, err := rb.barred(s, state, target)
	if err != nil {
		return nil, nil, err
	}
	unread, unordered := refuseUnreadOrder(rb.Common, target, "all objects are applied at once")
	conflicts, warnings = slices.Concat(unread, conflicts, barred), slices.Concat(unordered, warnings, barredWarnings)
	if target.Version != state.Last.Version {
		warnings = append(warnings, unreadOrder(state.Last, "objects that only it has are deleted all at once")...)
	}
	p, err := planInput{
		state:    state,
		rendered: &rendered{release: target, builder: b, list: list, warnings: warnings, deferredAPIs: deferredAPIs},
		target: session.Target{
			Release: target, Stored: true, Tree: release.TreeOf(target), Method: rb.method(target), Claims: claims,
		},
		charts:    release.ChartsOf(target),
		conflicts: conflicts,
		old:       old, otherRevisions: state.Others(state.Last),
		hooks: hookEvents(rb.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback),
	}.plan(s, info)
	if err != nil {
		return nil, nil, fmt.Errorf("order revision %d: %w", target.Version, err)
	}
	incoming := &preflight.Incoming{Builder: b, List: list}
	if err := checkKinds(p, incoming); err != nil {
		return nil, nil, err
	}
	return p, incoming, nil
}

// method returns how the rollback to a revision updates objects, as in Helm.
func (rb *Rollback) method(target *rel1.Release) helmclient.Method {
	return helmclient.Method{
		ClientSide: !serverSide(rb.ServerSide, target), Replace: rb.ForceReplace, Force: rb.ForceConflicts, Migrate: true,
	}
}

// errNoEarlierRevision means that the release has only one revision.
var errNoEarlierRevision = errors.New("there is no earlier revision")

// explainNoEarlierRevision says why there is nothing to roll back to, with the status that is stored in the cluster, and
// what to do instead.
func (rb *Rollback) explainNoEarlierRevision(state *releaseState) error {
	status, next := string(state.stored.Info.Status), "fix the chart and upgrade"
	interrupted := state.stored.Info.Status != state.Last.Info.Status
	switch {
	case interrupted && state.lastRunKilled:
		status += ", left by a killed run"
	case interrupted:
		status += ", left by a run that has ended"
	}
	switch {
	case state.stored.Info.Status == rcommon.StatusUninstalled:
		return fmt.Errorf("release %s is uninstalled and has no earlier revision; restore it with: "+text.Program+" rollback %[1]s 1 -n %[2]s, or delete its history with: "+text.Program+" uninstall %[1]s -n %[2]s",
			rb.Release, rb.Namespace)
	case state.stored.Info.Status == rcommon.StatusDeployed:
		next = "upgrade it"
	case !state.Last.Info.Deleted.IsZero(): // an uninstall has ended or was interrupted
		next = "install it again"
	case interrupted:
		next = "run the install again"
	}
	remove := fmt.Sprintf(", or remove the release with: "+text.Program+" uninstall %s -n %s", rb.Release, rb.Namespace)
	return fmt.Errorf("release %s has only revision 1 (%s), so there is nothing to roll back to; %s%s", rb.Release, status, next, remove)
}

// target returns the revision to roll back to.
func (rb *Rollback) target(revs *release.Revisions, lastRunKilled bool) (*rel1.Release, error) {
	to := rb.Revision
	if to == 0 {
		to = defaultTarget(revs, lastRunKilled)
	}
	if to == 0 {
		return nil, errNoEarlierRevision
	}
	if i := slices.IndexFunc(revs.All, func(rel *rel1.Release) bool { return rel.Version == to }); i >= 0 {
		return revs.All[i], nil
	}
	return nil, fmt.Errorf("release %s has no revision %d; list revisions with: "+text.Program+" history %[1]s -n %[3]s", rb.Release, to, rb.Namespace)
}

// defaultTarget returns the revision to roll back to if the user names none: the target of a rollback that failed or was
// killed, else the last good revision before the latest one, else the revision before the latest one.
func defaultTarget(revs *release.Revisions, lastRunKilled bool) int {
	last := revs.Last.Info
	if last.RollbackRevision > 0 && (lastRunKilled || last.Status != rcommon.StatusDeployed) {
		return last.RollbackRevision
	}
	if good := revs.LastGoodBefore(revs.Last.Version); good > 0 {
		return good
	}
	return revs.Last.Version - 1
}

// prepareRollback prepares the rollback of an upgrade that has just failed.
func (rb *Rollback) prepareRollback(r *runner) (task, error) {
	s, err := r.newSession()
	if err != nil {
		return task{}, err
	}
	revs, err := release.MustExist(release.Read(s.Releases(), rb.Release))
	if err != nil {
		return task{}, wrapReadError(s, "rollback", err)
	}
	target, err := rb.target(revs, false)
	if err != nil {
		return task{}, err
	}
	s = s.Recorded(target)
	b := s.Builder(target.Chart.Name())
	old, oldObjects, _, err := readRevision(s.Context, b, revs.Last)
	if err != nil {
		return task{}, err
	}
	list, _, err := buildRevision(b, target)
	if err != nil {
		return task{}, err
	}
	search := leftoverSearch{
		session: s, builder: b, prefix: event.RollbackPrefix, revisions: revs.Others(revs.Last), old: revs.Last,
		planned: []helmkube.ResourceList{list, oldObjects},
	}
	leftovers, _ := search.leftovers()
	method := rb.method(target)
	method.Applied = search.lastApplied(method, revs, list)
	planned := maps.Clone(r.op.prepared.Target.Claims.Planned)
	r.op.setApplied(planned)
	prepared := &session.Prepared{
		Common: s.Common, Info: event.Operation{Name: "rollback"},
		Target: session.Target{
			Release: target, Stored: true, Tree: release.TreeOf(target), Method: method,
			Claims: manifest.Claims{
				Take: rb.TakeOwnership, Skip: true, Unmarked: r.op.prepared.Target.Claims.Unmarked, Planned: planned, MadeByHook: func(o plan.Object) bool { return madeByHook(rb.Common, revs.All, o) != nil },
				Kept: manifest.Kept{CRDs: charts.CRDNames(target), Needed: manifest.NeededBy(b, list, target.Hooks)},
			},
		},
		Old: old, Work: helmclient.Work{Leftovers: leftovers, Hooks: hookEvents(rb.NoHooks, rel1.HookPreRollback, rel1.HookPostRollback)},
		Basis: session.Basis{Replaced: rb.replaced},
	}
	run := func(a *attempt) (*rel1.Release, error) { return rb.run(a, target.Version, revs.Last) }
	return task{prepared: prepared, do: run, rollbackOnFailure: true, untouched: r.op.untouched(revs, target)}, nil
}

// run runs Helm's rollback. Unlike Helm, it first checks that no revision was created since planning.
func (rb *Rollback) run(a *attempt, to int, from *rel1.Release) (*rel1.Release, error) {
	if err := a.admitFirst(); err != nil {
		return nil, err
	}
	a.op.ledger.ReadOnce()
	if _, err := a.acquireLockAndWriteMarks(from); err != nil {
		return nil, fmt.Errorf("roll back: %w", err)
	}
	h := action.NewRollback(a.helm.Config)
	h.Version = to
	h.Timeout = rb.Timeout
	h.WaitStrategy = rb.WaitStrategy()
	h.WaitForJobs = rb.WaitForJobs == plan.AllJobs
	h.DisableHooks = rb.NoHooks
	h.ForceConflicts = rb.ForceConflicts
	h.ForceReplace = rb.ForceReplace
	if rb.ServerSide != "" {
		h.ServerSideApply = rb.ServerSide
	}
	h.CleanupOnFail = rb.CleanupOnFail
	h.MaxHistory = rb.HistoryMax
	h.Description = rb.Description
	return nil, h.Run(rb.Release)
}

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
	search := release.StackSearch{Own: s.Releases(), Stack: state.Last.Labels[StackLabel], Label: StackLabel}
	search.In = func(namespace string) (*storage.Storage, error) {
		helm, err := s.Client.Helm(namespace)
		if err != nil {
			return nil, err
		}
		helm.Config.Releases.Driver = release.Checked(helm.Config.Releases.Driver, s.Common.Mask)
		return helm.Config.Releases, nil
	}
	return search.Passed(target)
}
