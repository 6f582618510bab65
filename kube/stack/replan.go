package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/lease"
	"lockstep/kube/operation"
)

// needsReplan reports whether the plan of a release may have changed since the releases that it needs are deployed.
func (s *Stack) needsReplan(m *member) bool {
	s.mu.Lock()
	deployed := slices.ContainsFunc(s.members, func(n *member) bool { return n != m && n.started && m.requires(n, map[*member]bool{}) })
	s.mu.Unlock()
	return s.plannedOperation(m).NeedsReplan(deployed)
}

// freshOperation returns the planned operation of a release, or a new plan of it if it needs one. A release that was unchanged
// may be changed in the new plan. The new plan has the ledger of the old one, so that what somebody else has deployed since is not
// taken for the revision to start from (R51b).
func (s *Stack) freshOperation(m *member) (*operation.Operation, error) {
	op := s.plannedOperation(m)
	if !s.needsReplan(m) {
		return op, nil
	}
	m.client.CacheNothing()
	op.Ledger().Seal(time.Time{})
	fresh := s.plan(context.Background(), m, provided{}, op) // the releases that it needs are deployed
	if lost := (*lease.LostError)(nil); errors.As(fresh.err, &lost) {
		return op, nil // which fails without a write and names the new revision
	}
	if fresh.err != nil {
		return nil, fmt.Errorf("plan release %s again: %w", m.id, fresh.err)
	}
	fresh.op.KeepLock(op)
	s.mu.Lock()
	m.op, m.unchanged = fresh.op, m.unchanged && fresh.unchanged
	s.mu.Unlock()
	if s.isUnchanged(m) {
		return fresh.op, nil
	}
	if s.prove != nil {
		if err := s.prove(m, fresh.op); err != nil {
			return nil, err
		}
	}
	s.engine.Publish(m.planEvent(fresh.op))
	_, shared := s.checkSharedObjects() // only now are its hooks known
	return fresh.op, errors.Join(shared...)
}

// isUnchanged reports whether a release is unchanged, so far. A new plan may change that while the stack runs.
func (s *Stack) isUnchanged(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.unchanged
}

// warnLookups warns that a plan may change while the stack runs: templates look up objects that other releases are to
// deploy first.
func (s *Stack) warnLookups() {
	for _, m := range s.members {
		for _, n := range s.members {
			if m.op == nil || m.remove || n.op == nil || n == m || n.unchanged || !m.requires(n, map[*member]bool{}) {
				continue
			}
			for g, o := range event.Objects(n.op.Phases()) {
				if g.Phase.Kind != event.PhaseRemove && m.op.LooksUp(o) {
					s.warnings = append(s.warnings, plan.Warning{Rule: "S3", Message: fmt.Sprintf(
						"the templates of %s look up %s, which %s deploys first: then lockstep renders and plans %[1]s again", m.id, o, n.id)})
					break
				}
			}
		}
	}
}
