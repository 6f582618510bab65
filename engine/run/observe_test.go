package run

import (
	"context"
	"slices"
	"testing"

	"lockstep/engine/event"
)

// drive passes a message to the machine, and then, in order, what its effects lead to.
func drive(m *machine, msg message, react func(effect) []message) {
	for _, eff := range slices.Clone(m.handle(epoch, msg)) {
		for _, next := range react(eff) {
			drive(m, next, react)
		}
	}
}

// TestBlockedObjectSaysTheNewest: what an answer says of an older object of the same name does not replace what the watch
// has said since, in whatever order they arrive: here the garbage collector's finalizer has gone meanwhile (R30).
func TestBlockedObjectSaysTheNewest(t *testing.T) {
	answer := Response{Message: "waiting for finalizers a, b", Finalizers: []string{"a", "b"}, WaitGone: func(context.Context) {}}
	for _, watchFirst := range []bool{false, true} {
		m := newMachine(Options{}, epoch)
		var finalizers []string
		react := func(eff effect) (next []message) {
			switch eff := eff.(type) {
			case sendRequest:
				next = []message{answered{eff.request, answer, nil}, observed{eff.request.group, Observation{
					Object: eff.request.object.Object, Status: event.Deleting, Message: "waiting for finalizer a", Finalizers: []string{"a"}}}}
				if watchFirst {
					slices.Reverse(next)
				}
			case publish:
				if eff.event.Kind == event.KindObject && eff.event.Status == event.InProgress {
					finalizers = eff.event.Finalizers
				}
			}
			return next
		}
		drive(m, stageStarted{Stage{Phase: event.Phase{Name: "c", Kind: event.PhaseApply, Groups: groupsOf("a: x")}}, &StageRun{}}, react)
		if !slices.Equal(finalizers, []string{"a"}) {
			t.Errorf("watch first %t: the last event has the finalizers %q, want those that the watch said", watchFirst, finalizers)
		}
	}
}

// TestDeletionDropsReadiness: the answer to a delete request does not repeat how ready the object was.
func TestDeletionDropsReadiness(t *testing.T) {
	m := newMachine(Options{}, epoch)
	var messages []string
	react := func(eff effect) []message {
		switch eff := eff.(type) {
		case sendRequest:
			return []message{observed{eff.request.group, Observation{Object: eff.request.object.Object, Status: event.Ready, Message: "1 of 1 available"}},
				answered{eff.request, Response{Change: event.Deleted}, nil}}
		case publish:
			if eff.event.Status == event.Deleting {
				messages = append(messages, eff.event.Message)
			}
		}
		return nil
	}
	drive(m, stageStarted{Stage{Phase: event.Phase{Name: "remove", Kind: event.PhaseRemove, Groups: groupsOf("a: x")}}, &StageRun{}}, react)
	if len(messages) != 2 || messages[0]+messages[1] != "" {
		t.Errorf("messages of the object being deleted: %q, want two empty ones", messages)
	}
}
