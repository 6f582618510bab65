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
	want := "Ctrl-C: no new groups will start; the release will be marked failed; press Ctrl-C again to stop at once\n" +
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
	s.Consume(event.Event{Kind: event.KindCommand, Command: op.sent[1], Status: event.Refused, Message: "a rollback is in progress; repeat the command", Code: event.RollbackInProgress})
	s.Handle(os.Interrupt)
	if op.sent[1] == event.Stop || op.sent[2] != event.Stop {
		t.Errorf("sent %v", op.sent)
	}
	if !strings.HasSuffix(output(), "Ctrl-C: a rollback is in progress; press Ctrl-C again to stop it and leave the objects as they are\n") {
		t.Errorf("printed %q", output())
	}
}

// TestRollbackReplies: the reply to a signal says what happens next, for each signal, with and without a revision
// to roll back to. The log leaves the reply out.
func TestRollbackReplies(t *testing.T) {
	accepted := event.Event{Kind: event.KindCommand, Command: event.Rollback, Status: event.Accepted}
	refused := event.Event{Kind: event.KindCommand, Command: event.Rollback, Status: event.Refused, Message: "a rollback is in progress; repeat the command", Code: event.RollbackInProgress}
	upgrade := event.Operation{Name: "upgrade", PreviousRevision: 3}
	for _, c := range []struct {
		signal    os.Signal
		operation event.Operation
		reply     event.Event
		want      string
	}{
		{os.Interrupt, upgrade, accepted, "Ctrl-C: no new groups will start, then lockstep rolls back; to skip the rollback, press Ctrl-C again before it starts"},
		{syscall.SIGTERM, upgrade, accepted, "SIGTERM: no new groups will start, then lockstep rolls back; to skip the rollback, send SIGTERM again before it starts"},
		{syscall.SIGHUP, upgrade, accepted, "SIGHUP: no new groups will start, then lockstep rolls back; to skip the rollback, send SIGTERM before it starts"},
		{os.Interrupt, event.Operation{Name: "install"}, accepted, "Ctrl-C: no new groups will start, then lockstep rolls back; to skip the rollback, press Ctrl-C again before it starts"},
		{os.Interrupt, event.Operation{Name: "upgrade"}, accepted,
			"Ctrl-C: no new groups will start; there is nothing to roll back to, so the release will be marked failed; press Ctrl-C again to stop at once"},
		{syscall.SIGTERM, upgrade, refused, "SIGTERM: a rollback is in progress; send SIGTERM again to stop it and leave the objects as they are"},
		{syscall.SIGHUP, upgrade, refused, "SIGHUP: a rollback is in progress; send SIGTERM to stop it and leave the objects as they are"},
	} {
		s, _, output := bind(t, SignalPolicy{Rollback: true, Hangup: HangupRollback, Outcome: "the release will be marked failed"})
		s.Consume(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &c.operation})
		s.Consume(event.Event{Kind: event.KindGroup, Status: event.Running})
		if s.PrintsReply(c.reply) {
			t.Errorf("%s: would print a reply before the signal", c.want)
		}
		notices := s.notices
		s.notices = nil // or else a SIGHUP would close the terminal of the test
		s.Handle(c.signal)
		s.notices = notices
		fromCtl := c.reply
		fromCtl.Answers = "1"
		if !s.PrintsReply(c.reply) || s.PrintsReply(fromCtl) {
			t.Errorf("%s: the log prints the reply too, or omits one to lockstep ctl", c.want)
		}
		s.Consume(c.reply)
		if output() != c.want+"\n" {
			t.Errorf("printed %q, want %q", output(), c.want)
		}
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
