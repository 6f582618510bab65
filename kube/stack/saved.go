package stack

import (
	"context"
	"fmt"

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
	was, is := map[string]string{}, map[string]string{} // what releases need
	for _, r := range s.opts.SavedPlan.Releases {
		was[r.Scope] = fmt.Sprint("needs", r.Needs)
	}
	for _, m := range s.Releases() {
		if m.Operation != nil {
			is[m.ID] = fmt.Sprint("needs", m.Needs)
		}
	}
	hooks := planfile.Differences(inspect.MovedHook, linesOf(s.opts.SavedPlan.Hooks), linesOf(s.Steps()))
	if moved := append(planfile.Differences(inspect.MovedRelease, was, is), hooks...); len(moved) > 0 {
		return &planfile.NotAsPlanned{Title: s.info.Title(), Moved: moved}
	}
	return nil
}

// linesOf returns the command lines of hooks by their IDs.
func linesOf(hooks []plan.PlannedStep) map[string]string {
	lines := map[string]string{}
	for _, h := range hooks {
		lines[h.ID] = h.Line()
	}
	return lines
}
