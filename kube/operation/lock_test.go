package operation

import (
	"errors"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/session"
)

// TestLostLockStopsARollbackAtOnce loses the lock during a rollback. One stop command ends the
// run, without the confirmation that a user would be asked for (R51a, R43).
func TestLostLockStopsARollbackAtOnce(t *testing.T) {
	op := newOperation(&connect.Client{}, task{prepared: &session.Prepared{}})
	eng := op.start(nil)
	if err := eng.StartRollback(event.Operation{Name: "rollback"}, "it failed"); err != nil {
		t.Fatal(err)
	}
	op.loseLock(errors.New("the lock was lost"))
	if c := eng.EndingCommand(); c == nil || c.Name != event.Stop {
		t.Errorf("the ending command is %+v, want a stop", c)
	}
	if err := eng.Finish(run.End{Status: event.Aborted, Exit: 1}); err != nil {
		t.Error(err)
	}
	var answers []event.Status
	for _, e := range op.feed.Events() {
		if e.Kind == event.KindCommand {
			answers = append(answers, e.Status)
		}
	}
	if len(answers) != 1 || answers[0] != event.Accepted {
		t.Errorf("answers to the stop: %v, want one: accepted", answers)
	}
}
