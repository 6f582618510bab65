package stack

import (
	"context"
	"fmt"
	"slices"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/planfile"
)

// SavePlan returns the plans of all releases for a file with the given salt. It writes nothing.
func (s *Stack) SavePlan(ctx context.Context, salt []byte) (out []planfile.Release, err error) {
	for _, m := range s.Releases() {
		if m.Operation == nil {
			continue
		}
		saved, err := m.Operation.SavePlan(ctx, salt)
		if err != nil {
			return nil, fmt.Errorf("release %s: %w", m.ID, err)
		}
		saved.Scope, saved.Needs, saved.Unchanged, saved.Pruned = m.ID, m.Needs, m.Unchanged, m.Pruned
		out = append(out, saved)
	}
	return out, nil
}

// Username returns the name under which the API server knows the user, "" if it is unknown.
func (s *Stack) Username(ctx context.Context) string {
	for _, m := range s.members {
		if m.op != nil {
			return m.op.Username(ctx)
		}
	}
	return ""
}

// checkSavedPlan returns a *planfile.NotAsPlanned if the stack follows a saved plan of other releases, or of other needs. The plan
// of each release has already been compared (R55).
func (s *Stack) checkSavedPlan() error {
	if s.opts.SavedPlan == nil || s.begunEarlier() {
		return nil
	}
	var moved []inspect.Moved
	now := map[string]bool{}
	for _, m := range s.Releases() {
		now[m.ID] = m.Operation != nil
		switch approved := s.opts.SavedPlan.Release(m.ID); {
		case m.Operation == nil:
		case approved == nil:
			moved = append(moved, inspect.Moved{What: inspect.MovedRelease, Field: m.ID, Is: m.ID})
		case !slices.Equal(approved.Needs, m.Needs):
			moved = append(moved, inspect.Moved{What: inspect.MovedNeeds, Field: m.ID})
		}
	}
	for _, r := range s.opts.SavedPlan.Releases {
		if !now[r.Scope] {
			moved = append(moved, inspect.Moved{What: inspect.MovedRelease, Field: r.Scope, Was: r.Scope})
		}
	}
	if moved = append(moved, movedHooks(s.opts.SavedPlan.Hooks, s.Steps())...); len(moved) > 0 {
		return &planfile.NotAsPlanned{Title: s.info.Title(), Moved: moved}
	}
	return nil
}

// movedHooks returns how the hooks of a run differ from those of the plan that it follows.
func movedHooks(approved, now []plan.PlannedStep) (moved []inspect.Moved) {
	lines := map[string]string{}
	for _, h := range now {
		lines[h.ID] = h.Line()
	}
	known := map[string]bool{}
	for _, h := range approved {
		if known[h.ID] = true; lines[h.ID] != h.Line() {
			moved = append(moved, inspect.Moved{What: inspect.MovedHook, Field: h.ID, Is: lines[h.ID], Was: h.Line()})
		}
	}
	for _, h := range now {
		if !known[h.ID] {
			moved = append(moved, inspect.Moved{What: inspect.MovedHook, Field: h.ID, Is: h.Line()})
		}
	}
	return moved
}
