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

// obedient is an operation that keeps the commands it is given.
type obedient struct {
	Operation
	sent []event.CommandName
}

func (o *obedient) Command(c event.Command) { o.sent = append(o.sent, c.Name) }

func steered(t *testing.T, o OnSignal) (*Signals, *obedient, func() string) {
	t.Helper()
	in, op := NewSignals(t.Context()), &obedient{}
	var said strings.Builder
	if err := in.Steer(op, o, report.NewNotices(report.Stream{Writer: &said})); err != nil {
		t.Fatal(err)
	}
	return in, op, said.String
}

// TestSignalsTellWhatTheOperationMadeOfThem proves that a signal is announced
// with what the operation has answered, and not before.
func TestSignalsTellWhatTheOperationMadeOfThem(t *testing.T) {
	in, op, said := steered(t, OnSignal{Outcome: "the release will be marked failed"})
	in.Handle(os.Interrupt)
	if said() != "" {
		t.Errorf("it says %q before there is an answer", said())
	}
	in.Consume(event.Event{Kind: event.KindCommand, Command: event.Abort, Status: event.Accepted})
	in.Handle(os.Interrupt)
	in.Consume(event.Event{Kind: event.KindCommand, Command: event.Stop, Status: event.Accepted})
	want := "interrupt: no more groups start; the release will be marked failed; repeat to stop at once\n" +
		"interrupt: stopping now; requests in flight are cancelled\n"
	if said() != want || !slices.Equal(op.sent, []event.CommandName{event.Abort, event.Stop}) {
		t.Errorf("%v is sent, and it says %q", op.sent, said())
	}
}

// TestInterruptsDuringARollback proves that the first signal after a rollback
// has begun stops nothing at once (R43): what it means the operation says.
func TestInterruptsDuringARollback(t *testing.T) {
	in, op, said := steered(t, OnSignal{Rollback: true})
	in.Handle(os.Interrupt)
	in.Consume(event.Event{Kind: event.KindCommand, Command: event.Rollback, Status: event.Accepted})
	in.Consume(event.Event{Kind: event.KindOperation, Status: event.RollingBack})
	in.Handle(os.Interrupt)
	in.Consume(event.Event{Kind: event.KindCommand, Command: op.sent[1], Status: event.Refused, Message: "a rollback is running; repeat to stop it"})
	in.Handle(os.Interrupt)
	if op.sent[1] == event.Stop || op.sent[2] != event.Stop {
		t.Errorf("sent %v", op.sent)
	}
	if !strings.HasSuffix(said(), "interrupt: a rollback is running; repeat to stop it\n") {
		t.Errorf("it says %q", said())
	}
}

// TestHangup proves that a terminal that goes away ends nothing, unless that is
// asked for (R43), and that signals are told apart from it.
func TestHangup(t *testing.T) {
	for hangup, want := range map[HangupAction][]event.CommandName{
		HangupContinue: {event.Abort}, HangupKeep: {event.Abort, event.Stop}, HangupRollback: {event.Rollback, event.Stop},
	} {
		alone := 0
		in, op, _ := steered(t, OnSignal{Hangup: hangup, Unattended: func() { alone++ }})
		in.say = nil
		in.Handle(syscall.SIGHUP)
		in.Handle(syscall.SIGHUP) // terminals send several
		if in.Interrupted() == (hangup == HangupContinue) {
			t.Errorf("%s: interrupted: %t", hangup, in.Interrupted())
		}
		in.Handle(syscall.SIGTERM)
		if !slices.Equal(op.sent, want) || (alone == 1) != (hangup == HangupContinue) {
			t.Errorf("%s: %v is sent, and it was told to be alone %d times", hangup, op.sent, alone)
		}
	}
}

// TestQuitCleansUp: the second signal ends a program that does not end by itself, after
// it has removed what must not stay.
func TestQuitCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := NewSignals(t.Context())
		var did []string
		note := func(what string) func() { return func() { did = append(did, what) } }
		i.Quit = func(error) { note("quit")() }
		i.AtQuit(note("undone"))()
		i.AtQuit(note("removed"))
		i.Handle(syscall.SIGINT)
		i.Handle(syscall.SIGTERM)
		time.Sleep(lastChance + time.Second)
		if want := []string{"removed", "quit"}; !slices.Equal(did, want) {
			t.Errorf("%q, want %q", did, want)
		}
	})
}
