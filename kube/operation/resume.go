package operation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/documents"
	"lockstep/kube/helmclient"
	"lockstep/kube/journal"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// A killed run leaves its Lease, an unfinished revision, or both. The next run marks the revision and resumes from it
// (R52, R50), or finds that the killed run had completed the operation.

// releaseState is an existing release, with its revisions as they will be once the marks are written. A nil
// *releaseState is a release that does not exist.
type releaseState struct {
	*release.Revisions
	stored        *rel1.Release // the latest revision as it is stored now
	marks         []release.Mark
	warnings      []plan.Warning
	lastRunKilled bool // it left its Lease
	ledger        *release.Ledger
	start         *journal.Start // the state when the Job's run began; nil outside a cluster and in the first pod
}

// loadRelease reads a release and makes the session's storage show it as if the marks were already written; the
// operation writes them first. It returns an error if another program may be working on the release. found is false if
// the release does not exist. operation is the one that is being prepared.
//
// Rule R52: a release left pending or uninstalling by a dead run does not block the next run.
func loadRelease(s *session.Session, operation string) (state *releaseState, found bool, err error) {
	s.Ledger.ReadOnce()
	revs, found, err := release.Read(s.Releases(), s.Common.Release)
	if err != nil || !found {
		return nil, false, err
	}
	state = &releaseState{Revisions: revs, stored: revs.Last, lastRunKilled: s.Lease.Status == lease.Dead, start: s.Common.Journal.Before().Start, ledger: s.Ledger}
	if err := state.checkOwn(s); err != nil {
		return nil, false, err
	}
	for _, m := range revs.Interrupted() {
		if !m.Ours && m.Revision != revs.Last.Version {
			continue // Helm ignores older revisions too
		}
		if !s.Common.RunInProgress.Created(m.Revision) {
			if err := state.checkMark(s, operation, m); err != nil {
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

// checkMark adds a warning about a mark, or returns an error if it must not be written.
func (r *releaseState) checkMark(s *session.Session, operation string, m release.Mark) error {
	recoverAdvice := "if it has ended, mark the release failed with: " + text.Program + " recover %s -n %s"
	message, resumes := m.String(), repeats(operation, m.From)
	switch {
	case m.To == rcommon.StatusSuperseded && s.Common.PlanOnly:
		message += "; the operation would mark it superseded"
	case m.To == rcommon.StatusSuperseded:
		message += fmt.Sprintf("; before its first write, lockstep marks revision %d superseded", m.Revision)
	case !m.Ours:
		return fmt.Errorf("%s by another program, perhaps helm, which may still be running; "+recoverAdvice,
			message, s.Common.Release, s.Common.Namespace)
	case s.Lease.Status == lease.Unavailable:
		return fmt.Errorf("%s by a run of lockstep, which may still be active: its lock cannot be checked (%v); "+recoverAdvice,
			message, s.Lease.Err, s.Common.Release, s.Common.Namespace)
	case s.Common.PlanOnly:
		message = fmt.Sprintf("revision %d is %s: once its run has ended, the operation marks the revision failed", m.Revision, m.From)
		if resumes {
			message += " and resumes from it"
		}
	default:
		message += " by a run that has ended; before its first write, lockstep marks the revision failed"
		if s.Lease.Status == lease.Dead {
			message = fmt.Sprintf("%s by a run that was killed: %s; before its first write, lockstep marks the revision failed", m, s.Lease.Holder)
		}
		if resumes {
			message += ", and resumes from it"
		}
	}
	r.warnings = append(r.warnings, plan.Warning{Rule: "R52", Message: message})
	return nil
}

// repeats reports whether an operation repeats the interrupted one, which left a revision in the given status.
func repeats(operation string, left rcommon.Status) bool {
	switch left {
	case rcommon.StatusPendingRollback:
		return operation == "rollback"
	case rcommon.StatusUninstalling:
		return operation == "uninstall"
	}
	return operation == "install" || operation == "upgrade"
}

// passedNoReturn returns the reasons of the points of no return that runs since the revision to roll back to have passed.
func (r *releaseState) passedNoReturn() []string {
	if r == nil {
		return nil
	}
	if reason := r.NoReturnSince(r.goodRevision()); reason != "" {
		return []string{reason}
	}
	return nil
}

// stateWarnings returns the warnings about the state of the release.
func (r *releaseState) stateWarnings() []plan.Warning {
	if r == nil {
		return nil
	}
	return r.warnings
}

// stackWarnings warns if the newest record belongs to another stack than the target: that stack will not prune the release any
// more (S10).
func (r *releaseState) stackWarnings(target *rel1.Release) []plan.Warning {
	if r == nil || r.Last.Info.Status == rcommon.StatusUninstalled {
		return nil
	}
	from, to := r.Last.Labels[StackLabel], target.Labels[StackLabel]
	if from == "" || from == to {
		return nil
	}
	does := "takes it out of that stack; to keep it there, use: " + text.Program + " up --stack " + from
	if to != "" {
		does = "moves it to stack " + to + "; only one of the two files should define it"
	}
	return []plan.Warning{{Rule: "S10", Message: fmt.Sprintf("release %s belongs to stack %s: this run %s", r.Last.Name, from, does)}}
}

// resumable reports whether an install continues from the failed last revision.
//
// Rule R50: it does if no revision was ever deployed, or if an uninstall has started.
func resumable(revs *release.Revisions) bool {
	return revs.Last.Info.Status == rcommon.StatusFailed && revs.LastGood() == 0
}

// killedBeforeUnlock reports whether the last run was killed while it held the Lease, and was an operation of this kind. It
// may have completed that operation.
func killedBeforeUnlock(s *session.Session, operation string) bool {
	return s.Lease.Status == lease.Dead && s.Lease.Holder.Operation == operation
}

// completedByJob reports whether an earlier pod of the run's Job deployed the latest revision before it was killed.
func completedByJob(s *session.Session) bool {
	c := s.Common
	if c.Job == "" || c.PlanOnly || c.RunInProgress != nil || c.Stack != "" { // a stack passes it as unchanged
		return false
	}
	last, found, err := release.Last(s.Releases(), c.Release)
	if err != nil {
		return false // the operation reads the release again, and reports the error
	}
	return found && release.DeployedBy(last, c.Job) && !testsLeft(c, last)
}

// claims returns the existing objects that an operation on the release may write to (R31a): its own, those that hooks of
// its revisions have created, and, as in Helm, all of the deployed revision. With take, it may write to all. target is the
// revision that the operation deploys or uninstalls, list its objects as they have been read.
func (r *releaseState) claims(common session.Common, b *manifest.Builder, target *rel1.Release, list helmkube.ResourceList, take bool) (manifest.Claims, error) {
	c := manifest.Claims{Take: take, Advice: common.TakeAdvice(), Unmarked: map[plan.Object]bool{}}
	c.Kept = manifest.Kept{CRDs: charts.CRDNames(target), DeleteCRDs: common.DeleteCRDs}
	if r == nil {
		c.Brought = func(plan.Object, manifest.Seen) bool { return false }
		return c, nil
	}
	c.Brought = r.brought(b)
	c.GivenBack = r.givenBack(common.Job, b)
	c.MadeByHook = func(o plan.Object) bool { return madeByHook(common, r.All, o) != nil }
	if r.Current.Info.Status != rcommon.StatusDeployed { // a failed revision may never have applied an object
		return c, nil
	}
	deployed, _, err := b.BuildTarget(r.Current.Manifest)
	for _, res := range b.Resources(deployed) {
		c.Unmarked[res.Object] = true
	}
	c.Planned = c.PlannedFrom(b, list)
	return c, err
}

// brought returns Claims.Brought. It reads the manifests when it is called for the first time.
func (r *releaseState) brought(b *manifest.Builder) func(plan.Object, manifest.Seen) bool {
	since := r.SinceDeployed()
	revisions := sync.OnceValue(func() map[plan.Object][]*rel1.Release {
		all := map[plan.Object][]*rel1.Release{}
		for _, rel := range slices.Concat(r.All, r.Pruned()) {
			if !r.MayHaveLeft(rel) {
				continue
			}
			list, _, _ := b.BuildTarget(rel.Manifest) // what cannot be read has brought nothing, so no removal touches it
			for _, res := range b.Resources(list) {
				all[res.Object] = append(all[res.Object], rel)
			}
		}
		return all
	})
	return func(o plan.Object, s manifest.Seen) bool {
		return slices.ContainsFunc(revisions()[o], func(rel *rel1.Release) bool {
			return mayHaveCreated(r.ledger, rel, s) && (!s.Keep || slices.Contains(since, rel))
		})
	}
}

// mayHaveCreated reports whether an object that a revision contains, as it was last seen, may be the one that it created. All that a
// deployed revision contains is the release's, as in Helm. Another one has only what was created while its run was under way:
// somebody may have deleted that and created the object again.
func mayHaveCreated(ledger *release.Ledger, rel *rel1.Release, s manifest.Seen) bool {
	return release.WasDeployed(rel) || ledger.Span(rel).Has(s.Created)
}

// taken returns what failed revisions have taken over from others.
func (r *releaseState) taken(job string, b *manifest.Builder) []release.Taken {
	return r.Taken(job, func(rel *rel1.Release) map[plan.Object]bool {
		objects := map[plan.Object]bool{}
		list, _, _ := b.BuildTarget(rel.Manifest) // what cannot be read stays taken, so no removal touches it
		for _, res := range b.Resources(list) {
			objects[res.Object] = true
		}
		return objects
	})
}

// givenBack returns Claims.GivenBack.
func (r *releaseState) givenBack(job string, b *manifest.Builder) func(plan.Object, manifest.Seen) bool {
	taken := sync.OnceValue(func() []release.Taken { return r.taken(job, b) })
	return func(o plan.Object, s manifest.Seen) bool {
		return slices.ContainsFunc(taken(), func(t release.Taken) bool { return t.Object == o && t.UID == s.UID && t.Marks == s.Marks })
	}
}

// madeByHook returns the first of some stored revisions in the namespace that has a hook with an object, nil for none.
func madeByHook(common session.Common, revisions []*rel1.Release, o plan.Object) *rel1.Release {
	for _, rel := range revisions {
		for _, h := range rel.Hooks {
			if h.Kind != o.Kind || h.Name != o.Name {
				continue
			}
			_, doc := documents.CutSource(h.Manifest)
			value, _ := common.Reader().Parse(doc)
			u := &unstructured.Unstructured{}
			u.Object, _ = value.(map[string]any)
			inNamespace := o.Namespace == "" || o.Namespace == cmp.Or(u.GetNamespace(), common.Namespace)
			if inNamespace && u.GroupVersionKind().Group == o.Group {
				return rel
			}
		}
	}
	return nil
}

// hookConflicts looks for existing objects of hooks that the hooks may not write to, or that they would not replace. state is that
// of the release, nil if there is none. --skip-preflight leaves what a hook does not replace to the run.
func hookConflicts(s *session.Session, b *manifest.Builder, t session.Target, events helmclient.HookEvents, state *releaseState) (conflicts, warnings []plan.Warning, err error) {
	found, err := helmclient.HookConflicts(s.Context, b, t.Release, events, helmclient.HookChecks{
		Claims: t.Claims, Owner: hookOwner(s), Warn: s.Common.SkipPreflight,
		Continued: func(h *rel1.Hook, o plan.Object, seen manifest.Seen) bool {
			return state.continues(s.Common, t.Release) || !t.ClientSide && state.leftByRetried(operationOf(events), h, seen) && !hasFailed(s, o)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	checked := found.Replaced
	if !s.Common.SkipPreflight {
		checked = slices.Concat(found.Kept, found.Replaced)
	}
	conflicts = append(found.Conflicts, preflight.CheckOwners(b, checked, t.Claims, s.Common.Provided)...)
	b.Forget(found.Kept)
	b.Forget(found.Replaced)
	return conflicts, found.Warnings, nil
}

// operationOf returns the operation that runs hooks at the events, "" for a test.
func operationOf(events helmclient.HookEvents) string {
	return map[rel1.HookEvent]string{
		rel1.HookPreInstall: "install", rel1.HookPreUpgrade: "upgrade", rel1.HookPreRollback: "rollback", rel1.HookPreDelete: "uninstall",
	}[events.Before]
}

// leftByRetried reports whether a hook created an object in a run that this operation repeats: one that was killed, or an install or
// upgrade that failed if nothing was deployed since. It continues from there (R50).
func (r *releaseState) leftByRetried(operation string, h *rel1.Hook, seen manifest.Seen) bool {
	if r == nil {
		return false
	}
	same := func(x *rel1.Hook) bool { return strings.TrimSpace(x.Manifest) == strings.TrimSpace(h.Manifest) }
	return slices.ContainsFunc(r.All, func(rel *rel1.Release) bool {
		retried := rel.Info.Status == rcommon.StatusFailed && rel.Version > r.LastGood() && rel.Info.Deleted.IsZero() && (operation == "install" || operation == "upgrade")
		for _, m := range r.marks {
			if m.Revision == rel.Version {
				retried = m.To == rcommon.StatusFailed && m.From != rcommon.StatusSuperseded && repeats(operation, m.From)
			}
		}
		return retried && slices.ContainsFunc(rel.Hooks, same) && r.ledger.Span(rel).Has(seen.Created)
	})
}

// hasFailed reports whether the Job or Pod of a hook has failed, or cannot be read.
func hasFailed(s *session.Session, o plan.Object) bool {
	if o.Kind == "Pod" {
		pod, err := s.Client.Clientset.CoreV1().Pods(o.Namespace).Get(s.Context, o.Name, metav1.GetOptions{})
		return err != nil || pod.Status.Phase == corev1.PodFailed
	}
	job, err := s.Client.Clientset.BatchV1().Jobs(o.Namespace).Get(s.Context, o.Name, metav1.GetOptions{})
	return err != nil || slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
	})
}

// continues reports whether an operation is part of the run before it: an edit, or the next pod of a Job. A stack also passes a release
// that has not changed, whose hooks do not run.
func (r *releaseState) continues(common session.Common, target *rel1.Release) bool {
	return r != nil && (common.RunInProgress != nil || r.start != nil || common.Provided != nil && sameRelease(target, r.Last))
}

// hookOwner returns a function that names the release in the namespace that has a hook with an object, "" for none. It reads the
// releases when it is called for the first time.
func hookOwner(s *session.Session) func(plan.Object) (string, error) {
	read := sync.OnceValues(s.Releases().ListReleases)
	return func(o plan.Object) (string, error) {
		list, err := read()
		if err != nil {
			return "", fmt.Errorf("read the releases whose hooks may have made %s: %w", o, err)
		}
		var revisions []*rel1.Release
		for _, x := range list {
			if rel, ok := x.(*rel1.Release); ok && rel.Name != s.Common.Release {
				revisions = append(revisions, rel)
			}
		}
		if rel := madeByHook(s.Common, revisions, o); rel != nil {
			return rel.Name, nil
		}
		return "", nil
	}
}
