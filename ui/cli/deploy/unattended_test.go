package deploy

import (
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
)

// obedient is an operation that keeps the commands it is given.
type obedient struct {
	command.Operation
	sent []event.CommandName
}

func (o *obedient) Command(c event.Command) { o.sent = append(o.sent, c.Name) }

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
			d := &unattended{op: op, timeout: time.Minute, rollback: tt.rollback, joined: func() int { return joined }}
			d.Consume(event.Event{Kind: event.KindRun, Status: tt.run})
			time.Sleep(time.Hour)
			if len(op.sent) > 0 {
				t.Errorf("%s: %v is sent while the terminal is there", name, op.sent)
			}
			d.start()
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
