package kube

import (
	"context"
	"errors"
	"fmt"
	"io"

	"helm.sh/helm/v4/pkg/action"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
)

// ReleaseTest is what to test.
type ReleaseTest struct {
	Common
	// Include and Exclude choose test hooks by name.
	Include, Exclude []string
	// Logs is what the logs of the tests' pods are written to when the tests
	// have run, before their delete policies take the pods away; nil for
	// nothing.
	Logs io.Writer
}

// PrepareTest checks a run of a release's test hooks. It writes nothing. Where
// there are none, or none that were chosen, both results are nil.
func (c *Client) PrepareTest(ctx context.Context, t ReleaseTest) (*Operation, error) {
	if err := t.complete(c.Namespace()); err != nil {
		return nil, err
	}
	p, err := c.planner(t.Common, t.Release)
	if err != nil {
		return nil, err
	}
	last, err := p.cfg.Releases.Last(t.Release)
	if err != nil {
		return nil, fmt.Errorf("test %s in namespace %s: %w", t.Release, t.Namespace, err)
	}
	rel, err := asV1(last)
	if err != nil {
		return nil, err
	}
	op := c.operation("test", t.Common, rel)
	op.phases = p.testPhase(&t, rel)
	if len(op.phases) == 0 {
		return nil, nil
	}
	if err := op.check(ctx); err != nil {
		return nil, err
	}
	op.do = func(p *pass) (*rel1.Release, error) { return nil, t.run(p, rel) }
	return op, nil
}

// testPhase is the phase of the test hooks that were chosen.
func (p *pass) testPhase(t *ReleaseTest, rel *rel1.Release) []event.Phase {
	chosen := *rel
	chosen.Hooks = nil
	for _, h := range rel.Hooks {
		if t.chosen(h.Name) {
			chosen.Hooks = append(chosen.Hooks, h)
		}
	}
	return p.ord.hooks.learn(&chosen, p.ord.opts.prefix, rel1.HookTest)
}

func (t *ReleaseTest) chosen(name string) bool {
	for _, x := range t.Exclude {
		if x == name {
			return false
		}
	}
	for _, i := range t.Include {
		if i == name {
			return true
		}
	}
	return len(t.Include) == 0
}

// run runs the tests. A failed test leaves the release as it was.
func (t *ReleaseTest) run(p *pass, rel *rel1.Release) error {
	p.testPhase(t, rel)
	if err := p.admitFirst(); err != nil {
		return err
	}
	a := action.NewReleaseTesting(p.cfg)
	a.Namespace, a.Timeout = t.Namespace, t.Timeout
	a.Filters[action.IncludeNameFilter], a.Filters[action.ExcludeNameFilter] = t.Include, t.Exclude
	ran, shutdown, err := a.Run(t.Release)
	if tested, ok := ran.(*rel1.Release); ok && t.Logs != nil {
		if logs := a.GetPodLogs(t.Logs, tested); logs != nil {
			p.ord.engine.Publish(event.Event{Kind: event.KindWarning, Message: logs.Error()})
		}
	}
	if shutdown == nil {
		return err
	}
	if ending := shutdown(); ending != nil && !errors.Is(err, ending) { // it repeats why a test has failed
		err = errors.Join(err, ending)
	}
	return err
}
