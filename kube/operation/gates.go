package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/incluster"
	"lockstep/kube/manifest"
	"lockstep/kube/planfile"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// What a run waits for besides readiness: approvals (R42a), and the tests of the release (S11).

// Approvals returns what the plan asks to be approved, in the order of the plan.
func (op *Operation) Approvals() (asked []plan.Approval) {
	for g := range event.Groups(op.Phases()) {
		for _, a := range g.Approve {
			if !slices.Contains(asked, a) {
				asked = append(asked, a)
			}
		}
	}
	return asked
}

// ProveApprovals makes the run accept only approvals that are written to an object of the cluster: the Lease of the Job in whose
// pod this process runs, or one that it creates (R42a). A stack asks for release, which it gets by approve. end deletes the Lease
// that it created. If neither asks for anything, it does nothing. Call it before Run.
func (op *Operation) ProveApprovals(ctx context.Context, release []plan.Approval, approve func(event.Command)) (end func(), err error) {
	end = func() {}
	asks := slices.Concat(release, op.Approvals())
	if len(asks) == 0 {
		return end, nil
	}
	digest, err := op.prepared.Digest()
	if err != nil {
		return end, err
	}
	kube, common := op.client.Clientset, op.prepared.Common
	// The approvals that a killed run or an earlier pod has left are for what was to be changed then, too.
	switch err := op.lookAtChanges(ctx, digest); {
	case err == nil:
		if digest, err = op.shown.Digest(digest, op.asking(release)); err != nil {
			return end, err
		}
	case common.Journal.Before().Start == nil: // else the run has begun, and asks again
		return end, op.Mask().Error(err)
	}
	at := event.ApprovalsAt{Lease: incluster.ApprovalsLease(), Plan: digest}
	if at.Lease == "" {
		if at, err = incluster.NewApprovals(ctx, kube, common.Namespace, common.Release, digest, op.Username(ctx), asks); err != nil {
			return end, preflight.ExplainDenied(op.client, err)
		}
	}
	watching, stop := context.WithCancel(ctx)
	var watched sync.WaitGroup
	end = func() {
		stop()
		watched.Wait()
		if namespace, name, _ := strings.Cut(at.Lease, "/"); incluster.ApprovalsLease() == "" {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = kube.CoordinationV1().Leases(namespace).Delete(ctx, name, metav1.DeleteOptions{}) // nothing reads it any more
		}
	}
	p := *op.prepared
	p.Info.Approvals = &at
	op.prepared = &p
	var warned sync.Once
	failed := func(err error) {
		warned.Do(func() {
			op.warn(plan.Warning{Rule: "R42a", Message: fmt.Sprintf("somebody deleted Lease %s and it could not be created again, so nobody can approve this run: %v", at.Lease, err)})
		})
	}
	watched.Go(func() {
		incluster.WatchApprovals(watching, kube, at.Lease, op.passApprovals(digest, release, approve), failed)
	})
	return end, nil
}

// passApprovals returns a function that gets the users who have approved, by incluster.ApprovalKey, and passes each approval on once:
// those for release by approve, those for groups to this operation.
func (op *Operation) passApprovals(digest string, release []plan.Approval, approve func(event.Command)) func(users map[string]string) {
	passed := map[string]bool{}
	return func(users map[string]string) {
		pass := func(phase, group string, a plan.Approval, to func(event.Command)) {
			key := incluster.ApprovalKey(digest, a)
			if user := users[key]; user != "" && !passed[key] {
				passed[key] = true
				to(event.Command{Name: event.Approve, Phase: phase, Group: group, By: user, Proven: &a, ID: event.InternalID})
			}
		}
		for _, a := range release {
			pass("", a.Of, a, approve)
		}
		for g := range event.Groups(op.Phases()) {
			for _, a := range g.Approve {
				pass(g.Phase.Name, g.ID, a, op.Command)
			}
		}
	}
}

// warn publishes a warning. Before the run has started, it logs it.
func (op *Operation) warn(w plan.Warning) {
	op.mu.Lock()
	eng := op.engine
	op.mu.Unlock()
	if eng == nil {
		op.client.Log().Warn(w.Message)
		return
	}
	eng.Publish(event.WarningEvent(w))
}

// ForgetApprovals deletes the approvals that killed runs have left in the cluster, if the user may list them. It is for an operation
// that asks for none.
func (op *Operation) ForgetApprovals(ctx context.Context) error {
	common := op.prepared.Common
	err := incluster.DeleteApprovals(ctx, op.client.Clientset, common.Namespace, common.Release, func(coordinationv1.Lease) bool { return false })
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// asking returns which groups wait for approvals: all of a release that asks for one itself.
func (op *Operation) asking(release []plan.Approval) func(group string) bool {
	asking := map[string]bool{}
	for g := range event.Groups(op.Phases()) {
		asking[g.ID] = asking[g.ID] || len(release)+len(g.Approve) > 0
	}
	return func(group string) bool { return asking[group] }
}

// lookAtChanges finds out what the operation changes now, which is what those who approve it are shown. plan is the digest of the plan.
func (op *Operation) lookAtChanges(ctx context.Context, plan string) error {
	shown, err := preview.Shown(ctx, op.client, op.prepared, []byte(plan), op.prepared.Common.Journal.Before().Shown)
	op.mu.Lock()
	defer op.mu.Unlock()
	op.shown = shown
	return err
}

// LookAtChanges finds out, in the pod of a Job, what those who approve the operation are shown, unless ProveApprovals has. If it cannot,
// the next pod asks again.
func (op *Operation) LookAtChanges(ctx context.Context) {
	if op.Shown() != nil || op.prepared.Common.Journal == nil || op.unplanned != nil {
		return
	}
	digest, err := op.prepared.Digest()
	if err == nil {
		err = op.lookAtChanges(ctx, digest)
	}
	if err != nil {
		op.client.Log().Warn("the next pod of this Job asks for approvals again", "error", op.Mask().Error(err))
	}
}

// Shown returns what those who approve the operation are shown, nil if it is unknown.
func (op *Operation) Shown() *planfile.Shown {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.shown
}

// ShownBefore reports whether those who approved groups in an earlier pod were shown all that these change now.
func (op *Operation) ShownBefore(of func(group string) bool) bool {
	return op.prepared.Common.Journal.Before().Shown.Covers(op.Shown(), of)
}

// keptSteering returns the steering that earlier pods have kept, and why some of their approvals do not count any more: somebody has
// changed since what these are about.
func (op *Operation) keptSteering(ctx context.Context) (*run.Steering, []plan.Warning) {
	before := op.prepared.Common.Journal.Before()
	if len(op.Approvals()) == 0 || op.unplanned != nil || before.Ending() != nil {
		return before.Steering, nil
	}
	op.LookAtChanges(ctx)
	return WithoutOutdated(before.Steering, func(given event.Approval) bool {
		return op.ShownBefore(func(group string) bool {
			for g := range event.Groups(op.Phases()) {
				if g.ID == group && slices.ContainsFunc(g.Approve, func(a plan.Approval) bool { return a.Of == given.Of }) {
					return true
				}
			}
			return false
		})
	})
}

// WithoutOutdated returns a steering, which may be nil, with only the approvals that still count, and warnings about the others.
func WithoutOutdated(s *run.Steering, counts func(event.Approval) bool) (*run.Steering, []plan.Warning) {
	if s == nil || len(s.Approved) == 0 {
		return s, nil
	}
	kept, warnings := *s, []plan.Warning(nil)
	kept.Approved = nil
	for _, given := range s.Approved {
		if counts(given) {
			kept.Approved = append(kept.Approved, given)
			continue
		}
		warnings = append(warnings, plan.Warning{Rule: "R42a", Message: fmt.Sprintf(
			"%s waits for approval again: what it changes now is not what %s approved in an earlier pod", given.Of, given.By)})
	}
	return &kept, warnings
}

// ReleaseTest holds the options for running a release's tests.
type ReleaseTest struct {
	Common
	// Include and Exclude select test hooks by name.
	Include, Exclude []string
	// Logs receives the logs of the tests' pods before the pods are deleted; nil for none.
	Logs io.Writer
}

// PrepareTest checks and plans a run of a release's test hooks. It does not change the release. It returns nil, nil if no
// test hook is selected.
func PrepareTest(ctx context.Context, c *connect.Client, t ReleaseTest) (*Operation, error) {
	return prepare(ctx, c, &t.Common, ending{}, nil, t.prepare)
}

func (t *ReleaseTest) prepare(s *session.Session, c *connect.Client) (*Operation, error) {
	rel, err := release.MustExist(release.Last(s.Releases(), t.Release))
	if err != nil {
		return nil, wrapReadError(s, "test", err)
	}
	selected := t.withSelectedHooks(rel)
	p := &session.Prepared{
		Common: s.Common,
		Info:   s.Info("test", rel),
		Target: session.Target{Release: selected, Method: helmclient.Method{ClientSide: !serverSide("", rel)}},
		Work:   helmclient.Work{Hooks: helmclient.HookEvents{Before: rel1.HookTest}},
		Basis:  session.Basis{Last: rel, Lease: s.Lease, Records: session.RecordChanges{Updated: []int{rel.Version}}},
	}
	p.Phases, _ = helmclient.HookPhases(selected, "", p.Hooks, nil)
	if len(p.Phases) == 0 {
		return nil, nil
	}
	checked := p.Target
	checked.Claims = manifest.Claims{
		Advice:     manifest.TakeAdvice{One: "leave the test out with --filter '!name=NAME'", Many: "leave the tests out with --filter '!name=NAME'"},
		MadeByHook: func(o plan.Object) bool { return madeByHook(s.Common, []*rel1.Release{rel}, o) != nil },
	}
	if p.Conflicts, p.Warnings, err = hookConflicts(s, s.Builder(p.Target.Root()), checked, p.Hooks, nil); err != nil {
		return nil, err
	}
	if p, err = preflight.Check(s, p, &preflight.Incoming{}); err != nil {
		return nil, err
	}
	return newOperation(c, task{prepared: p, do: t.run}), nil
}

// withSelectedHooks returns a copy of a release with the selected hooks only.
func (t *ReleaseTest) withSelectedHooks(rel *rel1.Release) *rel1.Release {
	selected := *rel
	selected.Hooks = slices.DeleteFunc(slices.Clone(rel.Hooks), func(h *rel1.Hook) bool {
		return slices.Contains(t.Exclude, h.Name) || len(t.Include) > 0 && !slices.Contains(t.Include, h.Name)
	})
	return &selected
}

// run runs the tests as an operation of their own. A failed test does not change the status of the release.
func (t *ReleaseTest) run(a *attempt) (*rel1.Release, error) {
	if err := a.client.ExpectHooks(a.op.prepared.Target.Release); err != nil {
		return nil, err
	}
	if err := a.admitFirst(); err != nil {
		return nil, err
	}
	if _, err := a.acquireLock(a.op.prepared.Last); err != nil {
		return nil, err
	}
	return nil, t.execute(a)
}

// execute runs the tests with Helm's action, which stores their results in the record of the release.
func (t *ReleaseTest) execute(a *attempt) error {
	h := action.NewReleaseTesting(a.helm.Config)
	h.Namespace = t.Namespace
	h.Timeout = t.Timeout
	h.Filters[action.IncludeNameFilter] = t.Include
	h.Filters[action.ExcludeNameFilter] = t.Exclude
	ran, shutdown, err := h.Run(t.Release)
	if tested, ok := ran.(*rel1.Release); ok && t.Logs != nil {
		if logsErr := h.GetPodLogs(t.Logs, tested); logsErr != nil {
			a.engine.Publish(event.Event{Kind: event.KindWarning, Message: logsErr.Error()})
		}
	}
	if shutdown == nil {
		return err
	}
	if shutdownErr := shutdown(); shutdownErr != nil && !errors.Is(err, shutdownErr) { // err often contains it
		err = errors.Join(err, shutdownErr)
	}
	if stage := (*run.StageError)(nil); errors.As(err, &stage) && stage.Cause == nil {
		return stage // without Helm's wrapping
	}
	return err
}

// testHooks are the events of the tests of a release.
var testHooks = helmclient.HookEvents{Before: rel1.HookTest}

// planTests returns the phase of the tests of a release, none if it has no tests, and warnings.
func planTests(c session.Common, rel *rel1.Release) (phases []event.Phase, warnings []plan.Warning) {
	if phases, _ = helmclient.HookPhases(rel, "", testHooks, nil); len(phases) == 0 && c.Stack == "" {
		warnings = append(warnings, plan.Warning{Rule: "S11", Message: "--test has no effect: the chart has no tests (helm.sh/hook: test)"})
	}
	return phases, warnings
}

// runTests runs the tests of the release that the attempt has deployed, and returns the status in its record. Until they pass, a
// failure or an abort of the run makes the revision failed.
//
// Rule S11: the tests of a release are its last units, and their failure is its failure.
func (a *attempt) runTests() (status string, err error) {
	c := a.op.prepared.Common
	rel, err := release.MustExist(release.Last(a.helm.Config.Releases, c.Release))
	if err != nil {
		return "", fmt.Errorf("read the tests of release %s: %w", c.Release, err)
	}
	a.untested = rel.Version
	a.client.ExpectTests(rel)
	if err := (&ReleaseTest{Common: c}).execute(a); err != nil {
		return "", err
	}
	a.untested = 0
	return a.driver.WriteResult().Status, nil
}

// testsLeft reports whether an earlier pod of the run's Job has deployed the latest revision, and its tests have not passed.
func testsLeft(c session.Common, last *rel1.Release) bool {
	return c.Test && release.DeployedBy(last, c.Job) && !release.TestsPassed(last)
}

// planTestsLeft plans the rest of an install or upgrade whose release an earlier pod of the Job has deployed: its tests.
func (d *Deploy) planTestsLeft(s *session.Session, c *connect.Client, state *releaseState, operation string) (*Operation, error) {
	rel := state.Last
	revision, _, warnings, err := readRevision(s.Context, s.Builder(rel.Chart.Name()), rel)
	if err != nil {
		return nil, err
	}
	p := &session.Prepared{
		Common: s.Common, Info: s.Info(operation, rel), Warnings: slices.Concat(state.stateWarnings(), warnings),
		Target: session.Target{Release: rel, Tree: release.TreeOf(rel), Method: helmclient.Method{ClientSide: !serverSide("", rel)}},
		Work:   helmclient.Work{Apply: helmclient.Planned{Resources: revision.Resources}, Hooks: testHooks},
		Basis:  state.basis(s, 0),
	}
	p.Info.Source, p.Info.PreviousRevision = d.Source, state.goodRevision()
	p.Phases, _ = planTests(s.Common, rel)
	p.NoReturn = state.passedNoReturn()
	if p, err = preflight.Check(s, p, &preflight.Incoming{}); err != nil {
		return nil, err
	}
	run := func(a *attempt) (*rel1.Release, error) {
		if err := a.admitFirst(); err != nil {
			return nil, err
		}
		return a.acquireLockAndWriteMarks(a.op.prepared.Last)
	}
	op := newOperation(c, task{prepared: p, do: run, tests: true})
	op.rollback = d.undo(p, state)
	return op, nil
}
