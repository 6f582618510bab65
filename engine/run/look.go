package run

import (
	"cmp"
	"context"
	"slices"
	"time"

	"lockstep/engine/event"
)

// What is not ready for a while is looked into before it has failed, so that
// the reason is known while there is time to act on it, paused or not.
const (
	lookAfter = 5 * time.Second  // from an object's apply
	lookEvery = 10 * time.Second // again
	lookAt    = 3                // objects at a time, the oldest
)

// nextLook is how long it is until something may be looked into. It is asked
// after every message, so it goes by lookDue and not by the objects.
func (e *Engine) nextLook() time.Duration {
	if e.lookDue.IsZero() || e.opts.Diagnose == nil || e.stage == nil || e.stage.looking > 0 || e.abort != nil {
		return time.Hour
	}
	return max(time.Until(e.lookDue), 0)
}

// expectLook sees to it that an object is looked into in its time.
func (e *Engine) expectLook(o *objectRun) {
	due := o.since.Add(lookAfter)
	if again := e.looked.Add(lookEvery); again.After(due) {
		due = again
	}
	if e.lookDue.IsZero() || due.Before(e.lookDue) {
		e.lookDue = due
	}
}

// look asks why the objects that have been waited for longest are not ready.
func (e *Engine) look() {
	if e.nextLook() > 0 {
		return
	}
	waiting := e.stage.unreadyObjects()
	for _, w := range waiting[:min(lookAt, len(waiting))] {
		if time.Since(w.o.since) >= lookAfter {
			e.stage.lookInto(w)
			e.looked = time.Now()
		}
	}
	e.lookDue = time.Time{}
	if len(waiting) > 0 {
		e.expectLook(waiting[0].o)
	}
}

// unreadyObjects are those that are waited for or whose status is still to
// come, the oldest first.
func (r *StageRun) unreadyObjects() []task {
	var out []task
	for _, g := range r.groups {
		if g.status != event.Running {
			continue
		}
		for _, o := range g.objects {
			if o.answered && !r.doneWith(o) && o.status != event.Failed {
				out = append(out, task{g, o, g.attempt})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b task) int { return cmp.Compare(a.o.since.UnixNano(), b.o.since.UnixNano()) })
	return out
}

// lookInto publishes what is found out, where it is news and still of interest.
func (r *StageRun) lookInto(w task) {
	r.looking++
	ctx, cancel := context.WithTimeout(r.e.ctx, diagnoseTimeout)
	obj := w.o.named()
	go func() {
		defer cancel()
		summary, lines := r.e.opts.Diagnose(ctx, obj)
		r.e.post(func() {
			r.looking--
			if r.closed || w.n != w.g.attempt || w.g.status != event.Running || r.doneWith(w.o) || summary == "" || summary == w.o.told {
				return
			}
			w.o.told = summary
			r.e.publish(event.Event{Kind: event.KindDiagnosis, Phase: r.Phase.Name, Group: w.g.ID, Object: &obj, Message: summary, Lines: lines})
		})
	}()
}
