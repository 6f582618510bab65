package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

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
