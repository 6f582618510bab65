package deploy

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
)

// fakeOperation records the commands sent to it.
type fakeOperation struct {
	command.Operation
	feed event.Feed
	sent []event.CommandName
}

func (o *fakeOperation) Feed() *event.Feed { return &o.feed }

func (o *fakeOperation) Command(c event.Command) { o.sent = append(o.sent, c.Name) }

// TestUnattendedRunEnds: a paused or held run ends at its timeout after its terminal closes,
// unless a client is attached (R47).
func TestUnattendedRunEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		run      event.Status
		release  event.Status // of a stack, which was held before
		rollback bool
		want     event.CommandName
	}{
		"held": {run: event.Held, want: event.GiveUp}, "paused": {run: event.Paused, want: event.Abort},
		"paused, a release held":        {run: event.Paused, release: event.Held, want: event.GiveUp},
		"paused, a release ready again": {run: event.Paused, release: event.Running, want: event.Abort},
		"paused, with rollback":         {run: event.Paused, rollback: true, want: event.Rollback}, "running": {run: event.Running},
	} {
		synctest.Test(t, func(t *testing.T) {
			op := &fakeOperation{}
			timer := &unattendedTimer{timeout: time.Minute, attachable: true, end: endUnattended(op, tt.rollback)}
			if tt.release != "" {
				timer.Consume(event.Event{Kind: event.KindRun, Scope: "a", Status: event.Held})
				timer.Consume(event.Event{Kind: event.KindRun, Scope: "a", Status: tt.release})
			}
			timer.Consume(event.Event{Kind: event.KindRun, Status: tt.run})
			time.Sleep(time.Hour)
			if len(op.sent) > 0 {
				t.Errorf("%s: sent %v before the terminal closed", name, op.sent)
			}
			timer.start()
			timer.Consume(event.Event{Kind: event.KindScreens, Screens: 1})
			time.Sleep(90 * time.Second)
			if len(op.sent) > 0 {
				t.Errorf("%s: sent %v while a client was attached", name, op.sent)
			}
			timer.Consume(event.Event{Kind: event.KindScreens})
			time.Sleep(59 * time.Second)
			if len(op.sent) > 0 {
				t.Errorf("%s: sent %v less than a timeout after the client left", name, op.sent)
			}
			time.Sleep(2 * time.Second)
			if got := append(op.sent, ""); got[0] != tt.want {
				t.Errorf("%s: sent %v, want %s", name, op.sent, tt.want)
			}
			if said := len(op.feed.Events()) > 0; said != (tt.want == event.GiveUp) {
				t.Errorf("%s: warned: %t", name, said)
			}
			timer.Consume(event.Event{Kind: event.KindOperation, Status: event.Failed})
		})
	}
}

// TestCommandsCount: without a client that is known, each command starts the time again, also one for a release of a stack
// (R54).
func TestCommandsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []string
		timer := &unattendedTimer{timeout: time.Minute, alone: true, end: func(why string, _ event.Status) { ends = append(ends, why) }}
		timer.Consume(event.Event{Kind: event.KindRun, Status: event.Paused})
		for _, scope := range []string{"", "a"} {
			time.Sleep(50 * time.Second)
			timer.Consume(event.Event{Kind: event.KindCommand, Scope: scope, Command: event.Step, Status: event.Accepted})
		}
		if time.Sleep(50 * time.Second); len(ends) > 0 {
			t.Errorf("%v, although commands came", ends)
		}
		time.Sleep(20 * time.Second)
		if want := []string{"paused, and no command came for 1m (--timeout)"}; !slices.Equal(ends, want) {
			t.Errorf("%q, want %q", ends, want)
		}
	})
}

// TestApprovalTimeout (R42a, S13): --approval-timeout counts from when the run began to wait, also in a pod that replaces another,
// and whoever attaches. An approval that was given between the two pods has time to arrive.
func TestApprovalTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		since time.Duration // before this process
		want  time.Duration
	}{"first pod": {0, time.Minute}, "next pod": {20 * time.Second, 40 * time.Second}, "next pod, late": {time.Hour, 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var ended time.Time
			timer := &unattendedTimer{timeout: time.Hour, approval: time.Minute, attachable: true, end: func(string, event.Status) { ended = time.Now() }}
			start := time.Now()
			timer.Consume(event.Event{Kind: event.KindRun, Scope: "a", Status: event.Paused, Code: event.Unapproved, Time: start, Since: start.Add(-tt.since)})
			time.Sleep(5 * time.Second)
			timer.Consume(event.Event{Kind: event.KindScreens, Screens: 1})
			timer.Consume(event.Event{Kind: event.KindRun, Scope: "b", Status: event.Running, Time: time.Now()})
			time.Sleep(2 * time.Minute)
			if got := ended.Sub(start); got != tt.want {
				t.Errorf("%s: ended after %s, want %s", name, got, tt.want)
			}
		})
	}
}
