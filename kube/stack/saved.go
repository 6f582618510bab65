package stack

import (
	"context"
	"encoding/json"
	"fmt"

	"lockstep/engine/inspect"
	"lockstep/kube/helmfile"
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
		saved.ContinueOnError = s.byID[m.ID].ContinueOnError
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

// checkSavedPlan returns a *planfile.NotAsPlanned if the stack follows a saved plan of other releases, needs or hooks. The plan of each
// release has already been compared (R55).
func (s *Stack) checkSavedPlan() error {
	if s.opts.SavedPlan == nil || s.begunEarlier() {
		return nil
	}
	type facts map[string]string // what releases need, or whether a failure of theirs stops others
	was, is, wentOn, goesOn := facts{}, facts{}, facts{}, facts{}
	add := func(needs, on facts, id string, needed []string, continues bool) {
		needs[id] = fmt.Sprint("needs", needed)
		if continues {
			on["continueOnError of release "+id] = "true"
		}
	}
	for _, r := range s.opts.SavedPlan.Releases {
		add(was, wentOn, r.Scope, r.Needs, r.ContinueOnError)
	}
	for _, m := range s.Releases() {
		if m.Operation != nil {
			add(is, goesOn, m.ID, m.Needs, s.byID[m.ID].ContinueOnError)
		}
	}
	moved := append(planfile.Differences(inspect.MovedRelease, was, is), planfile.Differences(inspect.MovedOption, wentOn, goesOn)...)
	moved = append(moved, movedHooks(s.opts.SavedPlan.Hooks, s.SavedHooks(s.opts.SavedPlan.Salt))...)
	if len(moved) > 0 {
		return &planfile.NotAsPlanned{Title: s.info.Title(), Moved: moved}
	}
	return nil
}

// SavedHooks returns the hooks of the run for a file with the given salt.
func (s *Stack) SavedHooks(salt []byte) (hooks []planfile.Hook) {
	byID := map[string]*step{}
	for _, st := range s.steps {
		byID[st.id] = st
	}
	for _, planned := range s.Steps() {
		h := planfile.Hook{PlannedStep: planned}
		if st := byID[planned.ID]; st != nil && st.hook.Image != nil {
			if p, err := st.hook.Program(st.at); err == nil { // else the plan has failed
				h.Container = containerDigest(salt, *p.Image)
			}
		}
		hooks = append(hooks, h)
	}
	return hooks
}

// containerDigest returns Hook.Container for an image.
func containerDigest(salt []byte, i helmfile.Image) string {
	i.Name = "" // it is in the command line
	text, err := json.Marshal(i)
	if err != nil {
		panic(err) // it has only texts
	}
	return planfile.Slow(salt, text)
}

// movedHooks returns how the hooks of a run differ from those of the plan that it follows.
func movedHooks(approved, now []planfile.Hook) []inspect.Moved {
	line := func(h planfile.Hook) string {
		if h.NoReturn != "" {
			return h.Line() + " (no return: " + h.NoReturn + ")"
		}
		return h.Line()
	}
	was, is, containers := map[string]string{}, map[string]string{}, map[string]string{}
	for _, h := range approved {
		was[h.ID], containers[h.ID] = line(h), h.Container
	}
	for _, h := range now {
		is[h.ID] = line(h)
		if container, found := containers[h.ID]; found && container != h.Container {
			is[h.ID] += " with other variables, Secrets, service account or annotations"
		}
	}
	return planfile.Differences(inspect.MovedHook, was, is)
}
