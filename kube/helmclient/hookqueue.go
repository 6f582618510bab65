package helmclient

import (
	"errors"
	"slices"
	"strings"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/manifest"
)

// HookEvents are the events of the hooks that an operation executes: those
// before its main work and those after it. The zero value is for none.
type HookEvents struct{ Before, After release.HookEvent }

func (h HookEvents) list() []release.HookEvent {
	var out []release.HookEvent
	for _, e := range []release.HookEvent{h.Before, h.After} {
		if e != "" {
			out = append(out, e)
		}
	}
	return out
}

// HookPhases returns the phases of a release's hooks before and after the main
// work. Those in the plan (lockstep/hook-scope) are not among them.
func HookPhases(rel *release.Release, prefix string, events HookEvents, turns []charts.HookTurn) (before, after []event.Phase) {
	inPlan := func(text string) bool {
		return slices.ContainsFunc(turns, func(t charts.HookTurn) bool { return t.Hook.Manifest == text })
	}
	_, phases := hookUnits(rel, prefix, events, inPlan)
	for _, p := range phases {
		if p.Name == prefix+string(events.Before) {
			before = append(before, p)
		} else {
			after = append(after, p)
		}
	}
	return before, after
}

// hookUnits returns the hooks that Helm will execute, in its order, with their
// phases.
func hookUnits(rel *release.Release, prefix string, events HookEvents, inPlan func(manifest string) bool) (units []*hookUnit, phases []event.Phase) {
	for _, e := range events.list() {
		phase := event.Phase{Name: prefix + string(e), Kind: event.PhaseHooks}
		for _, h := range charts.HooksOf(rel.Hooks, e) {
			if inPlan(h.Manifest) {
				continue
			}
			u := &hookUnit{event: e, hook: h, phase: phase.Name, group: charts.HookGroup(rel, h, e, phase.Groups)}
			phase.Groups = append(phase.Groups, u.group)
			units = append(units, u)
		}
		if len(phase.Groups) > 0 {
			phases = append(phases, phase)
		}
	}
	return units, phases
}

// hookUnit is one hook of one event: a unit of the run (R40). Helm executes it
// in steps (delete what is left of the last time, create, wait, delete by
// policy); the decorator ties these steps together. Helm takes them one after
// the other; what they leave is guarded by the queue's lock.
type hookUnit struct {
	event release.HookEvent
	hook  *release.Hook
	phase string
	group *plan.Group

	admitted bool
	list     helmkube.ResourceList // what was created
	run      *run.StageRun
	err      error // how that ended
	done     bool
}

// cutShort reports whether an abort has ended the hook before it was over.
func (u *hookUnit) cutShort() bool {
	var stage *run.StageError
	return u.err == nil || errors.Is(u.err, run.ErrAborted) && !(errors.As(u.err, &stage) && len(stage.Failures) > 0)
}

// ended returns the status of a hook's objects after it has run.
func (u *hookUnit) ended() event.Status {
	if u.done {
		return event.Ready
	}
	return event.Failed
}

// created replaces in the list of a hook, which is built again for each step,
// what has no name by the name that the hook's run has given it.
func created(list, made helmkube.ResourceList) helmkube.ResourceList {
	var out helmkube.ResourceList
	for n, i := range list {
		if i.Name == "" && len(made) == len(list) {
			i.Name = made[n].Name
		}
		if i.Name != "" {
			out = append(out, i)
		}
	}
	return out
}

// hookQueue knows which hook Helm executes next, since Helm's client is told
// nothing but a manifest.
type hookQueue struct {
	mu      sync.Mutex
	events  HookEvents
	units   []*hookUnit
	claimed map[string]*hookUnit // by the Source of their Infos
	pods    map[podKey]*hookUnit // those whose logs are printed
	next    int
	main    bool // the main work is done, or there is none
	scoped  []*scopedHook
}

// learn takes the hooks of a release that Helm is about to execute, and
// returns their phases.
func (q *hookQueue) learn(rel *release.Release, prefix string, events HookEvents, scoped []*scopedHook) []event.Phase {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events, q.next, q.scoped, q.claimed = events, 0, scoped, map[string]*hookUnit{}
	q.pods = map[podKey]*hookUnit{}
	q.main = strings.TrimSpace(rel.Manifest) == ""
	units, phases := hookUnits(rel, prefix, events, q.hasScoped)
	q.units = units
	return phases
}

// match finds the unit that a manifest belongs to: the next one, or where it is
// not built to be created (validate), one that has run and is to be deleted.
func (q *hookQueue) match(manifest string, validate bool) *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next < len(q.units) {
		u := q.units[q.next]
		if u.hook.Manifest == manifest && (u.event == q.events.Before || q.main) {
			return u
		}
	}
	if validate {
		return nil
	}
	for i := min(q.next, len(q.units)) - 1; i >= 0; i-- {
		if q.units[i].hook.Manifest == manifest {
			return q.units[i]
		}
	}
	return nil
}

// claim ties objects to a unit.
func (q *hookQueue) claim(u *hookUnit, b *manifest.Builder, list helmkube.ResourceList) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range list {
		f := b.Fact(i)
		f.Hook, f.Rule.Hook = true, true
		q.claimed[i.Source] = u
	}
}

// of returns the unit that a list belongs to, or nil.
func (q *hookQueue) of(list helmkube.ResourceList) *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range list {
		if u := q.claimed[i.Source]; u != nil {
			return u
		}
	}
	return nil
}

// started notes what the unit has created.
func (q *hookQueue) started(u *hookUnit, list helmkube.ResourceList, stage *run.StageRun) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u.list, u.run = list, stage
}

// failed notes how the unit has ended.
func (q *hookQueue) failed(u *hookUnit, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u.err = err
}

// passed moves on to the next hook.
func (q *hookQueue) passed(u *hookUnit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u.done = true
	if q.next < len(q.units) && q.units[q.next] == u {
		q.next++
	}
}

func (q *hookQueue) mainDone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.main = true
}

// running returns the hook that was begun and has not ended, if any.
func (q *hookQueue) running() *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next < len(q.units) && q.units[q.next].run != nil {
		return q.units[q.next]
	}
	return nil
}

// isScoped reports whether a manifest is that of a hook in the plan.
func (q *hookQueue) isScoped(manifest string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hasScoped(manifest)
}

func (q *hookQueue) hasScoped(manifest string) bool {
	return slices.ContainsFunc(q.scoped, func(s *scopedHook) bool { return s.Hook.Manifest == manifest })
}

// scopedHooks returns the hooks in the plan.
func (q *hookQueue) scopedHooks() []*scopedHook {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.scoped)
}

// turns returns those of the hooks in the plan.
func (q *hookQueue) turns() []plan.Turn {
	var out []plan.Turn
	for _, s := range q.scopedHooks() {
		out = append(out, s.Turn)
	}
	return out
}

// unended returns the hooks in the plan whose policies have not been followed,
// once each. Their manifests stay known.
func (q *hookQueue) unended() []*scopedHook {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*scopedHook
	for _, s := range q.scoped {
		if !s.ended {
			s.ended = true
			out = append(out, s)
		}
	}
	return out
}
