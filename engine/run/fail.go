package run

import (
	"context"
	"errors"
	"strings"
	"time"

	"lockstep/engine/event"
)

// fail ends a group as failed. diagnose asks why the object is not ready.
func (r *StageRun) fail(g *groupRun, o *objectRun, message string, diagnose bool) {
	if g.status != event.Running {
		return
	}
	message = oneLine(message)
	obj := o.named()
	r.set(g, event.Failed, obj.String()+": "+message)
	f := &Failure{Group: g.ID, Object: obj, Message: message}
	r.failures = append(r.failures, f)
	if diagnose && r.e.opts.Diagnose != nil {
		r.diagnose(g, f)
	}
	if r.e.opts.HoldOnFailure && r.e.abort == nil && !r.e.timedOut {
		r.e.setRun(event.Held, g.ID+": "+f.Object.String()+": "+message)
		return
	}
	r.failing = true
}

const diagnoseTimeout = 5 * time.Second

// diagnose looks up why an object is not ready; the stage waits for it.
func (r *StageRun) diagnose(g *groupRun, f *Failure) {
	r.diagnosing++
	ctx, cancel := context.WithTimeout(r.e.ctx, diagnoseTimeout)
	go func() {
		defer cancel()
		summary, lines := r.e.opts.Diagnose(ctx, f.Object)
		r.e.post(func() {
			r.diagnosing--
			if summary == "" && len(lines) == 0 {
				return
			}
			obj := f.Object
			r.e.publish(event.Event{Kind: event.KindDiagnosis, Phase: r.Phase.Name, Group: g.ID, Object: &obj, Message: summary, Lines: lines})
			if summary != "" && !strings.Contains(f.Message, summary) {
				f.Message += " — " + summary
			}
		})
	}()
}

// giveUp ends a hold: what failed stays failed (R26).
func (r *StageRun) giveUp() { r.failing = true }

// close ends the stage.
func (r *StageRun) close(cause error) {
	if r.closed {
		return
	}
	r.closed = true
	r.e.stage = nil
	err := &StageError{Cause: cause}
	for _, f := range r.failures {
		err.Failures = append(err.Failures, *f)
	}
	for _, g := range r.groups {
		switch {
		case g.status == event.Running:
			r.set(g, event.Aborted, causeText(cause))
		case !g.status.Over():
			err.Skipped = append(err.Skipped, g.ID)
			r.set(g, event.Skipped, r.whySkipped(g, cause))
		}
	}
	if cause != nil || len(err.Failures) > 0 {
		r.err = err
	}
	close(r.done)
}

func causeText(cause error) string {
	if cause == nil {
		return ""
	}
	return cause.Error()
}

// whySkipped names the failed group that g waits for, directly or not.
func (r *StageRun) whySkipped(g *groupRun, cause error) string {
	seen := map[string]bool{}
	var find func(ids []string) string
	find = func(ids []string) string {
		for _, id := range ids {
			b := r.byID[id]
			if b == nil || seen[id] {
				continue
			}
			seen[id] = true
			if b.status == event.Failed {
				return id
			}
			if up := find(b.After); up != "" {
				return up
			}
		}
		return ""
	}
	switch up := find(g.After); {
	case up != "":
		return "not started: " + up + " failed"
	case errors.Is(cause, ErrAborted):
		return "not started: the run was aborted"
	case errors.Is(cause, ErrTimeout):
		return "not started: the operation timed out"
	}
	return "not started: the operation failed"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
