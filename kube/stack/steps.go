package stack

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/helmfile"
)

// HookPolicy says whether the hooks of a helmfile run.
type HookPolicy int

const (
	// RefuseHooks refuses to run a stack with hooks, AllowHooks runs them, SkipHooks leaves them out.
	RefuseHooks HookPolicy = iota
	AllowHooks
	SkipHooks
)

// step is a hook of the helmfile at one of its events: a group that runs a program, or a Job in the cluster, instead of deploying a
// release.
type step struct {
	id     string
	hook   helmfile.Hook
	at     helmfile.At
	member *member // nil for one of the whole stack
	phase  string  // that it runs in
	fact   plan.Step
	report func(run.Observation) // guarded by Stack.mu
	// jobDigest stands for what the releases are to become, for a step that runs in the cluster.
	jobDigest string
}

// Steps returns the programs that the run will start on this machine or in the cluster, in plan order, without secret values.
func (s *Stack) Steps() (all []plan.PlannedStep) {
	for g := range event.Groups(s.Phases()) {
		if g.Step != nil {
			all = append(all, plan.PlannedStep{ID: g.ID, NoReturn: g.NoReturn, Step: s.Mask().Step(*g.Step)})
		}
	}
	return all
}

// addSteps makes the steps of all events that the run may have.
func (s *Stack) addSteps() {
	events := []string{
		helmfile.Prepare, helmfile.Preapply, helmfile.Presync, helmfile.Preuninstall, helmfile.Postuninstall, helmfile.Postsync, helmfile.Cleanup,
	}
	if s.opts.Down {
		events = []string{helmfile.Prepare, helmfile.Preuninstall, helmfile.Postuninstall, helmfile.Cleanup}
	}
	for _, event := range []string{helmfile.Prepare, helmfile.Cleanup} {
		s.addStepsAt(nil, s.opts.File.Hooks, event)
	}
	for _, m := range s.members {
		for _, event := range events {
			if uninstalls := event == helmfile.Preuninstall || event == helmfile.Postuninstall; m.remove || !uninstalls {
				s.addStepsAt(m, m.Hooks, event)
			}
		}
	}
}

func (s *Stack) addStepsAt(m *member, hooks []helmfile.Hook, event string) {
	for _, h := range hooks {
		if !slices.Contains(h.Events, event) {
			continue
		}
		if s.opts.Down { // which rolls nothing back
			h.NoReturn = ""
		}
		st := &step{hook: h, at: helmfile.At{Event: event, Command: helmfile.CommandAt(event, s.opts.Down, m == nil)}, member: m}
		id := path.Join(event, strings.ReplaceAll(h.Name, "/", "-"))
		st.fact = plan.Step{Event: event, Folder: h.Folder, Rerun: h.Rerun, ShowLogs: h.ShowLogs, At: h.At}
		if m != nil {
			id, st.fact.Release = m.id+"/"+id, m.id
		}
		st.id = id
		for n := 2; s.findStep(st.id) != nil || s.byID[st.id] != nil; n++ {
			st.id = fmt.Sprintf("%s-%d", id, n)
		}
		switch event {
		case helmfile.Prepare, helmfile.Preapply:
			st.phase = phasePrepare
		case helmfile.Cleanup:
			st.phase = phaseCleanup
		default:
			if st.phase = phaseReleases; m.remove {
				st.phase = phaseRemove
			}
		}
		s.steps = append(s.steps, st)
	}
}

// findStep returns the step with an ID, or nil.
func (s *Stack) findStep(id string) *step {
	if i := slices.IndexFunc(s.steps, func(st *step) bool { return st.id == id }); i >= 0 {
		return s.steps[i]
	}
	return nil
}

// stepOf returns the step that a user names: by its ID, or by the part of it that no other step has at its end.
func (s *Stack) stepOf(name string) (found *step) {
	if st := s.findStep(name); st != nil {
		return st
	}
	for _, st := range s.steps {
		if strings.HasSuffix(st.id, "/"+name) {
			if found != nil {
				return nil
			}
			found = st
		}
	}
	return found
}

// planned reports whether a step is part of the run: those around the deployment of a release are not if that is unchanged, as in
// helmfile apply, or not installed.
func (s *Stack) planned(st *step) bool {
	switch {
	case s.opts.Hooks == SkipHooks:
		return false
	case st.at.Event == helmfile.Prepare || st.at.Event == helmfile.Cleanup:
		return true
	}
	return s.plannedOperation(st.member) != nil && !s.isUnchanged(st.member) || s.leftOver(st) || st.hook.Image != nil && s.begunBefore(st.member)
}

// anyStep accepts the steps that are not part of the run, too.
func anyStep(*step) bool { return true }

// stepsAt returns the steps of a release, or of the whole stack, at some events, in the order of the events.
func (s *Stack) stepsAt(m *member, planned func(*step) bool, events ...string) (found []*step) {
	for _, event := range events {
		for _, st := range s.steps {
			if st.member == m && st.at.Event == event && planned(st) {
				found = append(found, st)
			}
		}
	}
	return found
}

// preparing returns the steps before all releases. Like helmfile, it visits what others need last before an apply.
func (s *Stack) preparing() []*step {
	all := s.stepsAt(nil, s.planned, helmfile.Prepare)
	for _, m := range s.members {
		all = append(all, s.stepsAt(m, s.planned, helmfile.Prepare)...)
	}
	for _, g := range slices.Backward(makeGroups(s.members, false)) {
		all = append(all, s.stepsAt(s.byID[g.ID], s.planned, helmfile.Preapply)...)
	}
	return all
}

// cleaning returns the steps after all releases.
func (s *Stack) cleaning() (all []*step) {
	for _, m := range s.members {
		all = append(all, s.stepsAt(m, s.planned, helmfile.Cleanup)...)
	}
	return append(all, s.stepsAt(nil, s.planned, helmfile.Cleanup)...)
}

// chain returns steps as groups that run one after the other.
func chain(steps []*step) (groups []*plan.Group) {
	for _, st := range steps {
		g := st.group()
		if n := len(groups); n > 0 {
			g.After = []string{groups[n-1].ID}
		}
		groups = append(groups, g)
	}
	return inLayers(groups)
}

func (st *step) group() *plan.Group {
	fact := st.fact
	return &plan.Group{
		ID: st.id, Chart: st.id, Name: st.hook.Name, After: []string{}, Objects: []plan.Object{st.object()}, Waves: []plan.Wave{{Count: 1}},
		Step: &fact, NoReturn: st.hook.NoReturn,
	}
}

// object returns the object that represents the step in its group.
func (st *step) object() plan.Object {
	o := plan.Object{Kind: "Hook", Name: st.at.Event + "/" + st.hook.Name}
	if st.member != nil {
		o.Namespace = st.member.Namespace
	}
	return o
}

// withSteps adds the planned steps around each release to its group: what waits for the release waits for the steps after it, too.
//
// Rule S11a: hooks of a helmfile are units of the run
func (s *Stack) withSteps(releases []*plan.Group, planned func(*step) bool) []*plan.Group {
	all, last := slices.Clone(releases), map[string]string{}
	for _, g := range releases {
		m := s.byID[g.ID]
		before := chain(s.stepsAt(m, planned, helmfile.Presync, helmfile.Preuninstall))
		after := chain(s.stepsAt(m, planned, helmfile.Postuninstall, helmfile.Postsync))
		if n := len(before); n > 0 {
			before[0].After, g.After = g.After, []string{before[n-1].ID}
		}
		if n := len(after); n > 0 {
			after[0].After, last[g.ID] = []string{g.ID}, after[n-1].ID
		}
		all = append(append(all, before...), after...)
	}
	for _, g := range all {
		for i, id := range g.After {
			if own := g.Step != nil && g.Step.Release == id; last[id] != "" && !own {
				g.After[i] = last[id]
			}
		}
	}
	return inLayers(all)
}

// aroundAll adds the steps before and after all releases to their groups, for a drawing of the whole order.
func (s *Stack) aroundAll(releases []*plan.Group) []*plan.Group {
	first, last := s.stepsAt(nil, anyStep, helmfile.Prepare), []*step{}
	for _, m := range s.members {
		first = append(first, s.stepsAt(m, anyStep, helmfile.Prepare, helmfile.Preapply)...)
		last = append(last, s.stepsAt(m, anyStep, helmfile.Cleanup)...)
	}
	before, after := chain(first), chain(append(last, s.stepsAt(nil, anyStep, helmfile.Cleanup)...))
	ends := map[string]bool{}
	for _, g := range releases {
		ends[g.ID] = true
	}
	for _, g := range releases {
		for _, id := range g.After {
			delete(ends, id)
		}
		if n := len(before); n > 0 && len(g.After) == 0 {
			g.After = []string{before[n-1].ID}
		}
	}
	if len(after) > 0 {
		for _, g := range releases {
			if ends[g.ID] {
				after[0].After = append(after[0].After, g.ID)
			}
		}
	}
	return inLayers(slices.Concat(before, releases, after))
}

// findCommands renders the command lines of planned steps.
func (s *Stack) findCommands(planned func(*step) bool) error {
	var errs []error
	var environ []string // what the programs get
	for _, st := range s.steps {
		if !planned(st) {
			continue
		}
		if environ == nil {
			environ = os.Environ()
		}
		p, err := st.hook.Program(st.at)
		if err != nil {
			errs = append(errs, err)
		}
		st.fact.Command, st.fact.Args = p.Command, p.Args
		if p.Image != nil {
			for name, value := range p.Image.Env {
				environ = append(environ, name+"="+value)
			}
			st.fact.Image, st.fact.Folder, st.fact.Job, st.fact.Pod = p.Image.Name, "", s.job(st, p).Ref(), p.Image.Pod()
		}
	}
	s.Mask().AddEnviron(environ)
	return errors.Join(errs...)
}

// checkSteps returns an error if the run may not start the planned steps, or cannot.
func (s *Stack) checkSteps() error {
	if err := s.findCommands(s.planned); err != nil {
		return err
	}
	s.addDigests()
	steps := s.Steps()
	if s.opts.Hooks == SkipHooks && len(s.steps) > 0 {
		s.warnings = append(s.warnings, plan.Warning{Rule: "S11a", Message: fmt.Sprintf("--skip-hooks leaves out %s of the helmfile", text.Count(len(s.steps), "hook"))})
	}
	if len(steps) == 0 || s.opts.Hooks != RefuseHooks || s.opts.Common.PlanOnly {
		return nil
	}
	var named []string
	for _, st := range steps[:min(len(steps), maxNamedSteps)] {
		named = append(named, fmt.Sprintf("%s runs %s (%s)", st.ID, st.Line(), st.At))
	}
	if more := len(steps) - maxNamedSteps; more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s has hooks, which run programs on this machine or in the cluster: %s; allow them with --allow-hooks, or leave them out with --skip-hooks",
		s.opts.File.Source(), strings.Join(named, "; "))
}

// maxNamedSteps is how many steps the refusal names.
const maxNamedSteps = 10

// checkUnplanned returns an error if a release has changed since the run was planned, and its hooks are not part of the plan.
func (s *Stack) checkUnplanned(m *member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.steps {
		if st.member == m && st.phase == phaseReleases && s.opts.Hooks != SkipHooks && s.state.Find(st.phase, st.id) == nil {
			return fmt.Errorf("release %s has hooks; when this run was planned there was nothing to change, but now there is: run the command again", m.id)
		}
	}
	return nil
}
