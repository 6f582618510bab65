package operation

import (
	"errors"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/session"
)

// TestReplacedMessage checks the message about the revision that an edit replaces (R46).
func TestReplacedMessage(t *testing.T) {
	for _, c := range []struct {
		created bool
		final   finalState
		want    string
	}{
		{false, finalState{status: "deployed"}, "revision 3 had not been created yet; the run starts over with the edit"},
		{true, finalState{err: errors.New("unreachable")}, "revision 3 was edited, but it could not be marked failed"},
		{true, finalState{status: "failed"}, "revision 3 is now failed; the edited revision replaces it"},
	} {
		if got := replacedMessage(3, c.created, c.final); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestEditBeforeStart sends an edit from another process before the run starts. It is answered once the run starts, like
// a later edit (R45, R46): here with a refusal, because a rollback cannot be edited.
func TestEditBeforeStart(t *testing.T) {
	op := newOperation(&connect.Client{}, task{prepared: &session.Prepared{Info: event.Operation{Name: "rollback"}}})
	op.Command(event.Command{Name: event.Edit, Values: "a: 1"})
	reader := op.feed.Reader()
	eng := op.start(nil)
	defer eng.Close(run.End{Status: event.Failed, Exit: event.ExitFailed})
	for {
		events, ok := reader.Next(t.Context())
		if !ok {
			t.Fatal("no answer")
		}
		for _, e := range events {
			if e.Kind == event.KindCommand {
				if want := "nothing to edit: rollback takes neither values nor a chart"; !strings.Contains(e.Message, want) {
					t.Errorf("answer %q, want %q", e.Message, want)
				}
				return
			}
		}
	}
}
