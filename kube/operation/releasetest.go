package operation

import (
	"context"
	"errors"
	"io"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
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

// run runs the tests. A failed test does not change the status of the release.
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
		return nil, err
	}
	if shutdownErr := shutdown(); shutdownErr != nil && !errors.Is(err, shutdownErr) { // err often contains it
		err = errors.Join(err, shutdownErr)
	}
	return nil, err
}
