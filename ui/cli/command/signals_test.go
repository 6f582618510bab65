package command

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/report"
)

// fakeOperation records the commands sent to it.
type fakeOperation struct {
	Operation
	sent []event.CommandName
}

func (o *fakeOperation) Command(c event.Command) { o.sent = append(o.sent, c.Name) }

// bind binds a fake operation to new Signals, and returns both and the output.
func bind(t *testing.T, policy SignalPolicy) (*Signals, *fakeOperation, func() string) {
	t.Helper()
	s, op := NewSignals(t.Context()), &fakeOperation{}
	var output strings.Builder
	if err := s.Bind(op, policy, new(report.NewNotices(report.Stream{Writer: &output}))); err != nil {
		t.Fatal(err)
	}
	return s, op, output.String
}

// TestSignalRepliesArePrinted: the reply of the operation to a signal is printed, and nothing
// before it.
func TestSignalRepliesArePrinted(t *testing.T) {
	s, op, output := bind(t, SignalPolicy{Outcome: "the release will be marked failed"})
	s.Handle(os.Interrupt)
	if output() != "" {
		t.Errorf("printed %q before the reply", output())
	}
	s.Consume(event.Event{Kind: event.KindGroup, Status: event.Running})
	s.Consume(event.Event{Kind: event.KindCommand, Command: event.Abort, Status: event.Accepted})
	s.Handle(os.Interrupt)
	s.Consume(event.Event{Kind: event.KindCommand, Command: event.Stop, Status: event.Accepted})
	want := "Ctrl-C: starting no more groups; the release will be marked failed; press Ctrl-C again to stop at once\n" +
		"Ctrl-C: stopping now; requests in flight are cancelled\n"
	if output() != want || !slices.Equal(op.sent, []event.CommandName{event.Abort, event.Stop}) {
		t.Errorf("sent %v, printed %q", op.sent, output())
	}
}

// TestSignalBeforeTheFirstWrite: the reply to a signal before the first group starts does not announce a
// failed release.
func TestSignalBeforeTheFirstWrite(t *testing.T) {
	s, _, output := bind(t, SignalPolicy{Outcome: "the release will be marked failed"})
	s.Handle(os.Interrupt)
	s.Consume(event.Event{Kind: event.KindCommand, Command: event.Abort, Status: event.Accepted})
	if want := "Ctrl-C: aborting; nothing was written\n"; output() != want {
		t.Errorf("printed %q, want %q", output(), want)
	}
}

// TestSignalsDuringRollback: the first signal during a rollback does not stop it (R43).
func TestSignalsDuringRollback(t *testing.T) {
	s, op, output := bind(t, SignalPolicy{Rollback: true})
	s.Handle(os.Interrupt)
	s.Consume(event.Event{Kind: event.KindCommand, Command: event.Rollback, Status: event.Accepted})
	s.Consume(event.Event{Kind: event.KindOperation, Status: event.RollingBack})
	s.Handle(os.Interrupt)
	s.Consume(event.Event{Kind: event.KindCommand, Command: op.sent[1], Status: event.Refused, Message: "a rollback is running; repeat to stop it"})
	s.Handle(os.Interrupt)
	if op.sent[1] == event.Stop || op.sent[2] != event.Stop {
		t.Errorf("sent %v", op.sent)
	}
	if !strings.HasSuffix(output(), "Ctrl-C: a rollback is running; repeat to stop it\n") {
		t.Errorf("printed %q", output())
	}
}

// TestHangup: a closed terminal aborts the operation only if the policy says so (R43).
func TestHangup(t *testing.T) {
	for hangup, want := range map[string][]event.CommandName{
		HangupContinue: {event.Abort}, HangupKeep: {event.Abort, event.Stop}, HangupRollback: {event.Rollback, event.Stop},
	} {
		unattended := 0
		s, op, _ := bind(t, SignalPolicy{Hangup: hangup, Unattended: func() { unattended++ }})
		s.notices = nil
		s.Handle(syscall.SIGHUP)
		s.Handle(syscall.SIGHUP) // terminals send several
		if s.Interrupted() == (hangup == HangupContinue) {
			t.Errorf("%s: interrupted: %t", hangup, s.Interrupted())
		}
		s.Handle(syscall.SIGTERM)
		if !slices.Equal(op.sent, want) || (unattended == 1) != (hangup == HangupContinue) {
			t.Errorf("%s: sent %v, called Unattended %d times", hangup, op.sent, unattended)
		}
	}
}

// TestQuitCleansUp: the second signal quits, after calling the functions of AtQuit.
func TestQuitCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSignals(t.Context())
		var calls []string
		record := func(what string) func() { return func() { calls = append(calls, what) } }
		s.Quit = func(error) { record("quit")() }
		s.AtQuit(record("undone"))()
		s.AtQuit(record("removed"))
		s.Handle(syscall.SIGINT)
		s.Handle(syscall.SIGTERM)
		time.Sleep(quitDelay + time.Second)
		if want := []string{"removed", "quit"}; !slices.Equal(calls, want) {
			t.Errorf("%q, want %q", calls, want)
		}
	})
}
