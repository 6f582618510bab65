package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
)

// hookUnit is one hook of one event: a unit of the run (R40). Helm executes it
// in steps (delete what is left of the last time, create, wait, delete by
// policy); the decorator ties these steps together.
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

// hookQueue knows which hook Helm executes next, since Helm's client is told
// nothing but a manifest.
type hookQueue struct {
	mu     sync.Mutex
	events []release.HookEvent // the one before the main work, the one after
	units  []*hookUnit
	next   int
	main   bool // the main work is done, or there is none
	scoped []*scopedHook
}

// learn takes the hooks of a release that Helm is about to execute, and
// returns their phases.
func (q *hookQueue) learn(rel *release.Release, prefix string, events ...release.HookEvent) []event.Phase {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events, q.units, q.next = events, nil, 0
	q.main = strings.TrimSpace(rel.Manifest) == ""
	var phases []event.Phase
	for _, e := range events {
		phase := event.Phase{Name: prefix + string(e), Kind: event.PhaseHooks}
		for _, h := range charts.HooksOf(rel.Hooks, e) {
			if q.hasScoped(h.Manifest) {
				continue
			}
			u := &hookUnit{event: e, hook: h, phase: phase.Name, group: charts.HookGroup(rel, h, e, phase.Groups)}
			phase.Groups = append(phase.Groups, u.group)
			q.units = append(q.units, u)
		}
		if len(phase.Groups) > 0 {
			phases = append(phases, phase)
		}
	}
	return phases
}

// match finds the unit that a manifest belongs to: the next one, or where it is
// not built to be created (validate), one that has run and is to be deleted.
func (q *hookQueue) match(manifest string, validate bool) *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next < len(q.units) {
		u := q.units[q.next]
		before := len(q.events) > 0 && u.event == q.events[0]
		if u.hook.Manifest == manifest && (before || q.main) {
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

// hookOf returns the unit that a list belongs to, or nil.
func (o *ordered) hookOf(list helmkube.ResourceList) *hookUnit {
	for _, i := range list {
		if f := o.builder.fact(i); f != nil && f.hook != nil {
			return f.hook
		}
	}
	return nil
}

// admitHook waits until the hook may start.
func (o *ordered) admitHook(u *hookUnit) error {
	if u.admitted {
		return nil
	}
	if err := o.engine.Admit(u.phase, u.group); err != nil {
		return err
	}
	u.admitted = true
	return nil
}

// createHook starts the hook's stage and returns once the API server has its
// object.
func (o *ordered) createHook(u *hookUnit, list helmkube.ResourceList, opts []helmkube.ClientCreateOption) (*helmkube.Result, error) {
	if err := o.admitHook(u); err != nil {
		return nil, err
	}
	send := func(i *resource.Info) error {
		_, err := o.Client.Create(helmkube.ResourceList{i}, opts...)
		return err
	}
	group := *u.group
	group.Objects = nil
	for _, i := range list {
		group.Objects = append(group.Objects, o.builder.fact(i).resource.Object)
	}
	group.Waves = []plan.Wave{{Count: len(group.Objects)}}
	u.list = list
	u.run = o.engine.Start(run.Stage{
		Phase:   event.Phase{Name: u.phase, Kind: event.PhaseHooks, Groups: []*plan.Group{&group}},
		Cluster: newTarget(o, list, send, nil),
	})
	if u.err = u.run.Applied(); u.err != nil {
		return nil, u.err
	}
	return &helmkube.Result{Created: list}, nil
}

// waitHook waits until the hook is over.
func (o *ordered) waitHook(u *hookUnit) error {
	if u.run == nil {
		return fmt.Errorf("hook %s was never created", u.group.ID)
	}
	if u.err = u.run.Wait(); u.err != nil {
		return u.err
	}
	o.hooks.passed(u)
	return nil
}

// deleteHook deletes a hook's object: what an earlier run left, before the
// hook starts, or its own by its delete policy.
func (o *ordered) deleteHook(u *hookUnit, list helmkube.ResourceList, policy metav1.DeletionPropagation) (*helmkube.Result, []error) {
	if u.run == nil {
		if err := o.admitHook(u); err != nil {
			return nil, []error{err}
		}
	}
	res := &helmkube.Result{}
	for _, i := range u.created(list) {
		found, err := deleteObject(i, policy)
		if err != nil {
			return res, []error{fmt.Errorf("delete hook %s: %w", u.group.ID, err)}
		}
		if !found {
			continue
		}
		res.Deleted = append(res.Deleted, i)
		if u.run != nil {
			obj := o.builder.fact(i).resource.Object
			obj.Name = i.Name
			o.engine.Publish(event.Event{Kind: event.KindObject, Phase: u.phase, Group: u.group.ID, Object: &obj,
				Status: u.ended(), Change: event.Deleted, Message: "deleted by helm.sh/hook-delete-policy"})
		}
	}
	return res, nil
}

// ended is the status of a hook's objects after it has run.
func (u *hookUnit) ended() event.Status {
	if u.done {
		return event.Ready
	}
	return event.Failed
}

// sweepHook deletes the object of a hook that an abort has cut short: left
// alone it would run on. One that has failed stays for those who look for the
// reason, unless its delete policy says otherwise, which Helm sees to.
func (o *ordered) sweepHook(ctx context.Context) error {
	if err := o.endScoped(ctx); err != nil {
		return err
	}
	u := o.hooks.running()
	if u == nil || !u.cutShort() || u.hook.Kind != "Job" && u.hook.Kind != "Pod" {
		return nil
	}
	list, err := o.Build(strings.NewReader(u.hook.Manifest), false)
	if err != nil {
		return err
	}
	for _, i := range u.created(list) {
		if err := o.deleteAndWait(ctx, i); err != nil {
			return fmt.Errorf("delete the aborted hook %s: %w", u.group.ID, err)
		}
	}
	return nil
}

// hookOutput returns the writer for what Helm prints of hooks' logs
// (helm.sh/hook-output-log-policy): the lines become events.
func (o *ordered) hookOutput(namespace, pod, _ string) io.Writer {
	return &lineWriter{emit: func(lines []string) {
		obj := plan.Object{Kind: "Pod", Namespace: namespace, Name: pod}
		ev := event.Event{Kind: event.KindLog, Object: &obj, Lines: lines}
		if u := o.hooks.last(); u != nil {
			ev.Phase, ev.Group = u.phase, u.group.ID
		}
		o.engine.Publish(ev)
	}}
}

// last returns the hook that ran or runs last, if any.
func (q *hookQueue) last() *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next < len(q.units) && q.units[q.next].run != nil {
		return q.units[q.next]
	}
	if q.next > 0 {
		return q.units[q.next-1]
	}
	return nil
}

// lineWriter cuts what is written into lines.
type lineWriter struct {
	emit func([]string)
	rest string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	text := w.rest + string(p)
	i := strings.LastIndexByte(text, '\n')
	if i < 0 {
		w.rest = text
		return len(p), nil
	}
	w.rest = text[i+1:]
	w.emit(strings.Split(text[:i], "\n"))
	return len(p), nil
}
