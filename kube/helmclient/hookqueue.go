package helmclient

import (
	"errors"
	"slices"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/manifest"
)

// HookEvents are the events of the hooks before and after the objects of an operation, "" for none.
type HookEvents struct{ Before, After release.HookEvent }

// HookPhases returns the phases of a release's hooks before and after its objects, without the
// hooks in the plan (lockstep/hook-scope).
func HookPhases(rel *release.Release, prefix string, events HookEvents, scoped []charts.ScopedHook) (before, after []event.Phase) {
	inPlan := func(text string) bool {
		return slices.ContainsFunc(scoped, func(h charts.ScopedHook) bool { return h.Hook.Manifest == text })
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

// hookUnits returns the hooks that Helm will execute, in Helm's order, and their phases.
func hookUnits(rel *release.Release, prefix string, events HookEvents, inPlan func(manifest string) bool) (units []*hookUnit, phases []event.Phase) {
	for _, e := range []release.HookEvent{events.Before, events.After} {
		if e == "" {
			continue
		}
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

// hookUnit is one hook of one event: a unit of the run (R40). Helm executes it in separate calls, one
// after another: delete the previous object, create, wait, delete by policy.
type hookUnit struct {
	event release.HookEvent
	hook  *release.Hook
	phase string
	group *plan.Group

	admitted bool
	list     helmkube.ResourceList // the created objects
	replaces bool                  // the object of a previous run is deleted first
	run      *run.StageRun
	err      error // of run
	done     bool
}

// interrupted reports whether an abort ended a started hook before it succeeded or failed.
func (u *hookUnit) interrupted() bool {
	var stage *run.StageError
	return u.err == nil || errors.Is(u.err, run.ErrAborted) && !(errors.As(u.err, &stage) && len(stage.Failures) > 0)
}

// finalStatus returns the status of a hook's objects after it has run.
func (u *hookUnit) finalStatus() event.Status {
	if u.done {
		return event.Ready
	}
	return event.Failed
}

// withNames returns the objects of a hook's list, which Helm builds again for each step, with
// generated names filled in from created. It drops objects whose name is unknown.
func withNames(list, created helmkube.ResourceList) helmkube.ResourceList {
	var out helmkube.ResourceList
	for n, i := range list {
		if i.Name == "" && len(created) == len(list) {
			i.Name = created[n].Name
		}
		if i.Name != "" {
			out = append(out, i)
		}
	}
	return out
}

// hookQueue tracks which hook Helm executes next, because Helm passes only manifests to its client.
type hookQueue struct {
	mu       sync.Mutex
	events   HookEvents
	units    []*hookUnit
	claimed  map[string]*hookUnit // by Info.Source
	pods     map[podKey]*hookUnit // the pods whose logs Helm prints
	next     int                  // the index of the next unit
	mainDone bool                 // the release's objects are done
	scoped   []*scopedHook        // the hooks in the plan
}

// reset sets the hooks of a release that Helm is about to execute, and returns their phases.
func (q *hookQueue) reset(rel *release.Release, prefix string, events HookEvents, scoped []*scopedHook) []event.Phase {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events, q.next, q.scoped, q.claimed, q.pods = events, 0, scoped, map[string]*hookUnit{}, map[podKey]*hookUnit{}
	var phases []event.Phase
	q.units, phases = hookUnits(rel, prefix, events, q.isScopedLocked)
	return phases
}

// match returns the unit that a manifest belongs to: the next one, or one that has run and that Helm
// will delete. If validate is set, Helm will create the objects, so it cannot be the latter.
func (q *hookQueue) match(manifest string, validate bool) *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next < len(q.units) {
		u := q.units[q.next]
		if u.hook.Manifest == manifest && (u.event == q.events.Before || q.mainDone) {
			return u
		}
	}
	for _, u := range slices.Backward(q.units[:q.next]) {
		if u.hook.Manifest == manifest && !validate {
			return u
		}
	}
	return nil
}

// claim records that a list belongs to a unit.
func (q *hookQueue) claim(u *hookUnit, b *manifest.Builder, list helmkube.ResourceList) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range list {
		f := b.Fact(i)
		f.Rule.Hook = true
		q.claimed[i.Source] = u
	}
}

// unitOf returns the unit of a list, or nil.
func (q *hookQueue) unitOf(list helmkube.ResourceList) *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range list {
		if u := q.claimed[i.Source]; u != nil {
			return u
		}
	}
	return nil
}

func (q *hookQueue) recordStart(u *hookUnit, list helmkube.ResourceList, stage *run.StageRun) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u.list, u.run = list, stage
}

func (q *hookQueue) recordFailure(u *hookUnit, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u.err = err
}

// recordSuccess advances to the next hook.
func (q *hookQueue) recordSuccess(u *hookUnit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u.done = true
	if q.next < len(q.units) && q.units[q.next] == u {
		q.next++
	}
}

// created returns the objects of the hooks that have run so far. A removal keeps them (R31a).
func (q *hookQueue) created() (list helmkube.ResourceList) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range q.units[:q.next] {
		list = append(list, u.list...)
	}
	for _, s := range q.scoped {
		list = append(list, s.list...)
	}
	return list
}

// finishMain records that the release's objects are done, so that the hooks after them can match.
func (q *hookQueue) finishMain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mainDone = true
}

// running returns the hook that has started and has not succeeded, or nil.
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
	return q.isScopedLocked(manifest)
}

func (q *hookQueue) isScopedLocked(manifest string) bool {
	return slices.ContainsFunc(q.scoped, func(s *scopedHook) bool { return s.Hook.Manifest == manifest })
}

func (q *hookQueue) scopedHooks() []*scopedHook {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.scoped)
}

func (q *hookQueue) subchartHooks() []plan.SubchartHook {
	var out []plan.SubchartHook
	for _, s := range q.scopedHooks() {
		out = append(out, s.SubchartHook)
	}
	return out
}

// takeScoped returns the hooks in the plan whose delete policies have not been applied yet. It
// returns each hook once.
func (q *hookQueue) takeScoped() []*scopedHook {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*scopedHook
	for _, s := range q.scoped {
		if !s.cleanedUp {
			s.cleanedUp = true
			out = append(out, s)
		}
	}
	return out
}
