package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/event"
	"lockstep/engine/infer"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/planfile"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// firstOutside returns the objects outside the release that its first groups wait for (--wait-for). A rollback waits for what
// the objects of its target say.
func firstOutside(b *manifest.Builder, c Common, op event.Operation) []plan.Object {
	if op.Name == "rollback" {
		return nil
	}
	return b.Outside(c.Outside())
}

// planInput is the input for the plan of an operation that applies objects.
type planInput struct {
	*rendered
	state          *releaseState // nil if there is no release
	target         session.Target
	charts         *plan.Chart  // of the target, also if they do not order it
	inferredOrder  *infer.Order // of the target, nil if its order is declared
	old            session.OldRevision
	otherRevisions []*rel1.Release // more revisions whose objects may still exist (R32a)
	hooks          helmclient.HookEvents
	conflicts      []plan.Warning
	crdWarnings    []plan.Warning // about the upgrade of crds/
	prelude        []event.Phase  // phases to run first
	tests          bool           // run the tests of the target at the end (S11)
}

// plan plans all phases: the prelude, pre hooks, the target's objects, removals (including leftovers, R32a) and post hooks.
func (p planInput) plan(s *session.Session, info event.Operation) (*session.Prepared, error) {
	warnings := slices.Concat(p.state.stateWarnings(), p.state.stackWarnings(p.target.Release), p.warnings)
	conflicts, more, err := hookConflicts(s, p.builder, p.target, p.hooks, p.state)
	if err != nil {
		return nil, err
	}
	p.conflicts, warnings = append(p.conflicts, conflicts...), append(warnings, more...)
	var tests []event.Phase
	if p.tests {
		if conflicts, more, err = hookConflicts(s, p.builder, p.target, testHooks, p.state); err != nil {
			return nil, err
		}
		p.conflicts, warnings = append(p.conflicts, conflicts...), append(warnings, more...)
		tests, more = planTests(s.Common, p.target.Release)
		warnings = append(warnings, more...)
	}
	scoped, _, more, err := helmclient.ScopedHooks(p.builder, p.target.Release, p.target.Tree, p.list, p.hooks)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	var subchartHooks []plan.SubchartHook
	for _, h := range scoped {
		subchartHooks = append(subchartHooks, h.SubchartHook)
	}
	ordering := helmclient.Ordering{
		Root: p.target.Root(), Jobs: s.Common.WaitForJobs, WaitFor: firstOutside(p.builder, s.Common, info), Inferred: p.inferredOrder, Charts: p.charts,
	}
	if s.Common.WaitStrategy() == helmclient.WaitOrdered {
		ordering.WaitOutside = p.builder.WaitOutside
	}
	apply, more, err := ordering.PlanApply(p.target.Tree, p.builder.Resources(p.list), subchartHooks)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	removed := manifest.Without(p.old.List, p.list)
	removed = manifest.Without(removed, helmclient.CreatedBefore(p.builder, p.target.Release, p.hooks, scoped, removed))
	remove, more := ordering.PlanRemoval(p.old.Revision, p.builder.Resources(removed))
	warnings = slices.Concat(warnings, more, warnOfClaims(s, removed), warnOfScaledSets(s, p.list), helmclient.WarnOfDependents(p.builder, removed))
	search := leftoverSearch{
		session: s, builder: p.builder, revisions: p.otherRevisions, old: p.old.Release, claims: p.target.Claims,
		planned: []helmkube.ResourceList{p.list, p.old.List},
	}
	leftovers, more := search.leftovers()
	warnings = append(warnings, more...)
	if p.state != nil {
		p.target.Applied = search.lastApplied(p.target.Method, p.state.Revisions, p.list)
	}
	newer, older := leftovers.Planned()
	pre, post := helmclient.HookPhases(p.target.Release, "", p.hooks, scoped)
	main := helmclient.Phases(slices.Concat([]helmclient.Planned{apply}, newer, []helmclient.Planned{remove}, older)...)
	return &session.Prepared{
		Common: s.Common, Info: info, Target: p.target, Old: p.old,
		Work:     helmclient.Work{Apply: apply, Remove: remove, Leftovers: leftovers, Hooks: p.hooks, DeferredAPIs: p.deferredAPIs},
		Phases:   slices.Concat(p.prelude, pre, main, post, tests),
		Warnings: uniqueWarnings(warnings), Conflicts: p.conflicts, Basis: p.state.basis(s, info.Revision),
	}, nil
}

// SavePlan returns the plan of the operation for a file with the given salt. It writes nothing.
func (op *Operation) SavePlan(ctx context.Context, salt []byte) (planfile.Release, error) {
	options := planfile.Options(op.main.options)
	for name, value := range options {
		options[name] = op.Mask().Text(value)
	}
	saved, err := preview.Save(ctx, op.client, op.prepared, options, salt)
	return saved, op.Mask().Error(err)
}

// phasesWithDurations returns the phases with the usual durations of their groups.
func (op *Operation) phasesWithDurations() []event.Phase {
	phases := slices.Clone(op.prepared.Phases)
	for n, p := range phases {
		usual := map[string]time.Duration{}
		for _, g := range p.Groups {
			if took, known := op.prepared.UsualDurations[event.Unit{Phase: p.Name, Group: g.ID}]; known {
				usual[g.ID] = took
			}
		}
		if len(usual) > 0 {
			phases[n].Usual = usual
		}
	}
	return phases
}

// Username returns the name under which the API server knows the user, "" if it is unknown.
func (op *Operation) Username(ctx context.Context) string { return preflight.Username(ctx, op.client) }

// checkSavedPlan returns a *planfile.NotAsPlanned if an operation must follow a saved plan and would do something else. op is nil if
// there is nothing to do. A run that began in an earlier pod was checked there (S13).
func (op *Operation) checkSavedPlan(ctx context.Context, common Common) error {
	approved := common.SavedPlan
	if approved == nil || common.Journal.Before().Start != nil {
		return nil
	}
	title := approved.Operation.Title()
	if op == nil {
		gone := inspect.Moved{What: inspect.MovedRevision, Field: common.Release, Was: planfile.Revision(approved.Last)}
		return &planfile.NotAsPlanned{Title: title, Late: common.Begun(), Moved: []inspect.Moved{gone}}
	}
	now, err := op.SavePlan(ctx, approved.Salt)
	if err != nil {
		return err
	}
	if moved := approved.Compare(now, common.Continues != nil); len(moved) > 0 {
		return &planfile.NotAsPlanned{Title: title, Late: common.Begun(), Moved: moved}
	}
	return nil
}

// planCheck returns what compares an object with the saved plan before it is written, nil without a plan. A rollback on failure is not part of the plan.
func (r *runner) planCheck(t task) func(context.Context, *plan.Group, plan.Object, bool) error {
	if t.prepared.Common.SavedPlan == nil || t.rollbackOnFailure {
		return nil
	}
	return preview.NewPlanCheck(r.op.client, t.prepared).Check
}

// uniqueWarnings drops warnings with the message of an earlier one.
func uniqueWarnings(warnings []plan.Warning) []plan.Warning {
	seen := map[string]bool{}
	return slices.DeleteFunc(warnings, func(w plan.Warning) bool {
		duplicate := seen[w.Message]
		seen[w.Message] = true
		return duplicate
	})
}

// planRevision plans an operation that renders a new revision, and sets the record of its order (Target.Record). The
// caller must pass the results to preflight.Check.
func (p planInput) planRevision(s *session.Session, info event.Operation, tree *plan.Chart) (*session.Prepared, *preflight.Incoming, error) {
	ordered := s.Common.WaitStrategy() == helmclient.WaitOrdered
	if p.charts = tree; ordered {
		p.target.Tree = tree
	} else {
		orderWarnings, err := plan.Check(tree, p.builder.Resources(p.list))
		if err != nil {
			return nil, nil, err
		}
		p.warnings = append(p.warnings, orderWarnings...)
	}
	p.warnings = append(p.warnings, p.lostOrder(s.Common, tree)...)
	record, warnings, err := newRecord(s.Common, p.target.Release, ordered, tree)
	if err != nil {
		return nil, nil, err
	}
	p.target.Record = record
	p.warnings = append(p.warnings, warnings...)
	prepared, err := p.plan(s, info)
	if err != nil {
		return nil, nil, err
	}
	incoming := &preflight.Incoming{Builder: p.builder, List: p.list}
	prepared.NoReturn = p.state.passedNoReturn()
	if err := checkKinds(prepared, incoming); err != nil {
		return nil, nil, err
	}
	return prepared, incoming, nil
}

// newRecord returns the record of a new revision that the tree orders.
func newRecord(c Common, rel *rel1.Release, ordered bool, tree *plan.Chart) (*release.Record, []plan.Warning, error) {
	full := release.NewRecord(ordered, tree)
	full.Readiness, full.SecretPaths = c.Readiness, c.Mask.PathsOf(c.Namespace, c.Release)
	return release.Fit(rel, full)
}

// checkKinds adds to a plan what preflight.CheckKinds says about it.
func checkKinds(p *session.Prepared, incoming *preflight.Incoming) error {
	warnings, conflicts, err := preflight.CheckKinds(p, *incoming)
	if err != nil {
		return err
	}
	p.Warnings = uniqueWarnings(append(p.Warnings, warnings...))
	p.Conflicts = append(p.Conflicts, conflicts...)
	return nil
}

// basis returns the state that the plan is based on. newRevision is the number of the revision to create, 0 for none.
func (r *releaseState) basis(s *session.Session, newRevision int) session.Basis {
	b := session.Basis{Lease: s.Lease, Records: r.records(newRevision)}
	if r != nil {
		b.Last = r.stored
		b.Marks = r.marks
		b.Resumes = r.lastFailed()
		b.UsualDurations = r.Usual()
		b.Applied = r.applied()
		b.Passed = r.PassedSince(r.goodRevision())
		b.StackPoints = r.StackPoints()
		b.Taken = r.taken(s.Common.Job, s.Builder(r.Last.Chart.Name()))
	}
	return b
}

// applied returns the deployed revision and the later ones, none if no revision is deployed.
func (r *releaseState) applied() []*rel1.Release {
	if r.Current.Info.Status != rcommon.StatusDeployed {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.All), func(rel *rel1.Release) bool { return rel.Version < r.Current.Version })
}

// records returns the revisions whose records an operation may change. It may update the revision that it creates
// (newRevision, 0 for none), the latest and the current one, all deployed ones, and the marked ones. It may delete any
// revision, because an uninstall or the rollback of an install does.
func (r *releaseState) records(newRevision int) (c session.RecordChanges) {
	if newRevision > 0 {
		c.Updated = append(c.Updated, newRevision)
		c.Deleted = append(c.Deleted, newRevision)
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

// explainForbidden turns a Forbidden error from reading the release into a refusal that names all missing permissions. It
// returns other errors unchanged.
func explainForbidden(s *session.Session, operation string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return preflight.Refuse(s, &session.Prepared{Common: s.Common, Info: s.Info(operation, nil)}, nil, err)
}

// wrapReadError wraps the error of an operation that could not read its release.
func wrapReadError(s *session.Session, operation string, err error) error {
	c := s.Common
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return &release.NotFound{Name: c.Release, Namespace: c.Namespace}
	}
	return wrapUnlessRefused(c, operation, explainForbidden(s, operation, err))
}

// wrapUnlessRefused names the operation and the release in an error, unless it is a refusal, which is clear without them.
func wrapUnlessRefused(c session.Common, operation string, err error) error {
	if refusal := (*preflight.Refusal)(nil); errors.As(err, &refusal) {
		return refusal
	}
	return fmt.Errorf("%s %s in namespace %s: %w", operation, c.Release, c.Namespace, err)
}
