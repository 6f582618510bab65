package run

import (
	"context"
	"slices"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestTroubleAfterRetryIsDiagnosed: the diagnoses of a failed attempt do not delay those of the next one, whether the group is
// retried or re-checked (R44).
func TestTroubleAfterRetryIsDiagnosed(t *testing.T) {
	const trouble, end = 2200 * time.Millisecond, 15 * time.Second // in each attempt
	for _, command := range []event.CommandName{event.Retry, event.Accept} {
		for _, cost := range []int{1, 6} {
			now, version := epoch, uint64(1)
			m := newMachine(Options{Diagnose: func(context.Context, plan.Object) Finding { return Finding{} }, HoldOnFailure: true, Heartbeat: time.Hour}, now)
			var diagnoses []time.Time
			var handle func(message)
			handle = func(msg message) {
				for _, eff := range slices.Clone(m.handle(now, msg)) {
					switch eff := eff.(type) {
					case sendRequest:
						version += 10
						handle(answered{eff.request, Response{Change: event.Created, Version: version}, nil})
					case startDiagnosis:
						diagnoses = append(diagnoses, now)
						handle(diagnosed{eff.diagnosis, Finding{Cause: "exited with code 3", Requests: cost}})
					}
				}
			}
			handle(stageStarted{Stage{Phase: event.Phase{Name: "apply", Groups: groupsOf("a: x")}}, &StageRun{}})
			g := m.stage.groups[0]
			see := func(o Observation) {
				version++
				o.Object, o.Version = g.objects[0].Object, version
				handle(observed{g, o})
			}
			for attempt := range 4 {
				from := now
				see(Observation{Status: event.InProgress, Message: "0 of 1 complete"})
				for ; now.Before(from.Add(end)); now = now.Add(100 * time.Millisecond) {
					if now.Equal(from.Add(trouble)) {
						see(Observation{Trouble: true})
					}
					if w := m.wake(); !w.IsZero() && !w.After(now) {
						handle(ticked{})
					}
				}
				if !slices.ContainsFunc(diagnoses, func(at time.Time) bool { d := at.Sub(from); return d >= trouble && d < trouble+time.Second }) {
					t.Errorf("%s, %d requests each: no diagnosis at the trouble of attempt %d", command, cost, attempt+1)
				}
				see(Observation{Status: event.Failed, Message: "BackoffLimitExceeded"})
				if m.heldFailure() == nil {
					t.Fatalf("%s: attempt %d did not fail", command, attempt+1)
				}
				diagnoses = nil
				now = now.Add(time.Second)
				handle(commanded{event.Command{Name: command}})
			}
		}
	}
}
