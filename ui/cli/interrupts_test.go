package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/event"
	"lockstep/ui/report"
)

// deaf is the address of an API server that takes requests and never answers.
// called gets one of each connection.
func deaf(t *testing.T) (address string, called chan bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	called = make(chan bool, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			called <- true
		}
	}()
	return "http://" + l.Addr().String(), called
}

// TestInterruptEndsWhatIsPrepared presses Ctrl-C while the API server does not
// answer: nothing has been written, and the exit code is that of a signal.
func TestInterruptEndsWhatIsPrepared(t *testing.T) {
	chart := filepath.Join(data, "charts", "plain")
	for _, args := range [][]string{
		{"install", "s", chart}, {"install", "s", chart, "--no-tui"}, {"install", "s", chart, "--dry-run=server"},
		{"upgrade", "s", chart}, {"rollback", "s"}, {"uninstall", "s", "t"}, {"test", "s"}, {"plan", "s", chart},
		{"status", "s"}, {"watch", "s"}, {"watch", "s", "--once"}, {"history", "s"}, {"list"}, {"get", "values", "s"},
	} {
		t.Run(strings.Join(args[:1], " "), func(t *testing.T) {
			t.Parallel()
			address, called := deaf(t)
			c := inTerminal(t, 30, 100, nil, append(args, "--kube-apiserver", address)...)
			select {
			case <-called:
			case <-time.After(30 * time.Second):
				t.Fatalf("nothing was asked; it shows %s", c.shown())
			}
			c.keys("\x03")
			if code := c.ends(); code != exitAborted {
				t.Errorf("exit code %d, want %d", code, exitAborted)
			}
			if !strings.HasSuffix(strings.TrimSpace(c.shown()), "error: interrupted; nothing was written") {
				t.Errorf("it says\n%s", c.shown())
			}
		})
	}
}

// obedient is an operation that keeps the commands it is given.
type obedient struct {
	operation
	sent []event.CommandName
}

func (o *obedient) Command(c event.Command) { o.sent = append(o.sent, c.Name) }

func steered(t *testing.T, o order) (*interrupts, *obedient, func() string) {
	t.Helper()
	in, op := newInterrupts(t.Context()), &obedient{}
	var said strings.Builder
	if err := in.steer(op, o, report.NewNotices(report.Stream{Writer: &said})); err != nil {
		t.Fatal(err)
	}
	return in, op, said.String
}

// TestSignalsTellWhatTheOperationMadeOfThem proves that a signal is announced
// with what the operation has answered, and not before.
func TestSignalsTellWhatTheOperationMadeOfThem(t *testing.T) {
	in, op, said := steered(t, order{outcome: "the release will be marked failed"})
	in.handle(os.Interrupt)
	if said() != "" {
		t.Errorf("it says %q before there is an answer", said())
	}
	in.Consume(event.Event{Kind: event.KindCommand, Command: event.Abort, Status: event.Accepted})
	in.handle(os.Interrupt)
	in.Consume(event.Event{Kind: event.KindCommand, Command: event.Stop, Status: event.Accepted})
	want := "interrupt: nothing more is started, and the release will be marked failed; once more to stop at once\n" +
		"interrupt: stopping at once, requests in flight are cancelled\n"
	if said() != want || !slices.Equal(op.sent, []event.CommandName{event.Abort, event.Stop}) {
		t.Errorf("%v is sent, and it says %q", op.sent, said())
	}
}

// TestInterruptsDuringARollback proves that the first signal after a rollback
// has begun stops nothing at once (R43): what it means the operation says.
func TestInterruptsDuringARollback(t *testing.T) {
	in, op, said := steered(t, order{rollback: true})
	in.handle(os.Interrupt)
	in.Consume(event.Event{Kind: event.KindCommand, Command: event.Rollback, Status: event.Accepted})
	in.Consume(event.Event{Kind: event.KindOperation, Status: event.RollingBack})
	in.handle(os.Interrupt)
	in.Consume(event.Event{Kind: event.KindCommand, Command: op.sent[1], Status: event.Refused, Message: "a rollback is under way; once more stops it"})
	in.handle(os.Interrupt)
	if op.sent[1] == event.Stop || op.sent[2] != event.Stop {
		t.Errorf("sent %v", op.sent)
	}
	if !strings.HasSuffix(said(), "interrupt: a rollback is under way; once more stops it\n") {
		t.Errorf("it says %q", said())
	}
}

// TestHangup proves that a terminal that goes away ends nothing, unless that is
// asked for (R43), and that signals are told apart from it.
func TestHangup(t *testing.T) {
	for hangup, want := range map[onHangup][]event.CommandName{
		hangupContinue: {event.Abort}, hangupKeep: {event.Abort, event.Stop}, hangupRollback: {event.Rollback, event.Stop},
	} {
		alone := 0
		in, op, _ := steered(t, order{hangup: hangup, deserted: func() { alone++ }})
		in.say = nil
		in.handle(syscall.SIGHUP)
		in.handle(syscall.SIGHUP) // terminals send several
		if in.interrupted() == (hangup == hangupContinue) {
			t.Errorf("%s: interrupted: %t", hangup, in.interrupted())
		}
		in.handle(syscall.SIGTERM)
		if !slices.Equal(op.sent, want) || (alone == 1) != (hangup == hangupContinue) {
			t.Errorf("%s: %v is sent, and it was told to be alone %d times", hangup, op.sent, alone)
		}
	}
}

// TestDesertedRunEnds proves that a run that waits for somebody does not do so
// for ever once its terminal has gone (R47), unless somebody has joined it.
func TestDesertedRunEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		run      event.Status
		rollback bool
		want     event.CommandName
	}{
		"held": {run: event.Held, want: event.GiveUp}, "paused": {run: event.Paused, want: event.Abort},
		"paused, with rollback": {run: event.Paused, rollback: true, want: event.Rollback}, "running": {run: event.Running},
	} {
		synctest.Test(t, func(t *testing.T) {
			op, joined := &obedient{}, 0
			d := &deserted{op: op, patience: time.Minute, rollback: tt.rollback, joined: func() int { return joined }}
			d.Consume(event.Event{Kind: event.KindRun, Status: tt.run})
			time.Sleep(time.Hour)
			if len(op.sent) > 0 {
				t.Errorf("%s: %v is sent while the terminal is there", name, op.sent)
			}
			d.begin()
			joined = 1
			time.Sleep(90 * time.Second)
			if len(op.sent) > 0 {
				t.Errorf("%s: %v is sent while somebody looks", name, op.sent)
			}
			joined = 0
			time.Sleep(time.Minute)
			if got := append(op.sent, ""); got[0] != tt.want {
				t.Errorf("%s: %v is sent, want %s", name, op.sent, tt.want)
			}
			d.Consume(event.Event{Kind: event.KindOperation, Status: event.Failed})
		})
	}
}

// TestLateInterruptEndsTheCommand interrupts an uninstallation of several
// releases when the first is over: the others stay, and it says so.
func TestLateInterruptEndsTheCommand(t *testing.T) {
	a := &app{settings: helmcli.New(), in: newInterrupts(t.Context())}
	var said strings.Builder
	var done []string
	uninstalls := execute{writes: true, job: func(cmd *cobra.Command, j job) error {
		if err := a.in.steer(&obedient{}, order{}, report.NewNotices(report.Stream{Writer: &said})); err != nil {
			return err
		}
		defer a.in.finished()
		done = append(done, j.release)
		a.in.handle(os.Interrupt) // after the closing event: nobody answers
		return nil
	}}
	cmd := a.newUninstall(uninstalls)
	cmd.SetArgs([]string{"a", "b", "c", "--no-tui"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(a.in.ctx)
	if exitCode(err) != exitAborted || err.Error() != "interrupted; not uninstalled: b, c" || len(done) != 1 {
		t.Errorf("%v is uninstalled, and the error is %v", done, err)
	}
	if said.String() != "interrupt: too late, the operation is over\n" {
		t.Errorf("it says %q", said.String())
	}
	if a.in.ctx.Err() == nil || context.Cause(a.in.ctx) != errInterrupted {
		t.Error("what comes next is not told to end")
	}
}

// TestNobodyReads proves that a write to a closed pipe does not end an operation by a
// signal, however early it comes: here of why nothing begins. What only prints goes on
// to end by it, as programs do in a pipeline.
func TestNobodyReads(t *testing.T) {
	for name, want := range map[string]int{"install": exitNothing, "plan": -1} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := program(t, nil, name, "nobody", filepath.Join(t.TempDir(), "no-chart"), "-o", "json")
		cmd.Stdout, cmd.Stderr = w, w
		_ = cmd.Run()
		w.Close()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%s: exit code %d, want %d", name, code, want)
		}
	}
}

// TestQuitCleansUp: the second signal ends a program that does not end by itself, after
// it has removed what must not stay.
func TestQuitCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInterrupts(t.Context())
		var did []string
		note := func(what string) func() { return func() { did = append(did, what) } }
		i.quit = func(error) { note("quit")() }
		i.atQuit(note("undone"))()
		i.atQuit(note("removed"))
		i.handle(syscall.SIGINT)
		i.handle(syscall.SIGTERM)
		time.Sleep(lastChance + time.Second)
		if want := []string{"removed", "quit"}; !slices.Equal(did, want) {
			t.Errorf("%q, want %q", did, want)
		}
	})
}
