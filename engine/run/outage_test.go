package run

import (
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
)

// TestDeadlinesAcrossAnOutage: after an outage the readiness clock is set back by catchUp, so an object
// that is applied later can have an earlier deadline (R25, R53).
func TestDeadlinesAcrossAnOutage(t *testing.T) {
	fake := newFake(map[string]behaviour{"early": {request: 4900 * time.Millisecond, never: true}, "late": {request: 8100 * time.Millisecond, never: true}})
	stage := Stage{ObjectTimeout: 10 * sec, Phase: event.Phase{Groups: groupsOf("a: early", "b: late")}}
	trace, _ := run(t, Options{}, stage, fake, func(b *rig) {
		b.at(5 * sec)
		b.e.ServerUnreachable(time.Now(), "connection refused")
		b.at(8 * sec)
		b.e.ServerReachable()
	})
	var failed []string
	for _, line := range trace {
		if strings.Contains(line, " failed ") {
			failed = append(failed, strings.Join(strings.Fields(line)[:3], " "))
		}
	}
	want(t, failed, "18.1s c:b failed", "19.9s c:a failed")
}
