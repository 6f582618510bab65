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

// TestFirstStatusAtTimeZero: the wait for a first status that ends at time 0 of the readiness clock, which the outage has set
// back, is a wait like any other: another observation does not restart it (R22a, R53).
func TestFirstStatusAtTimeZero(t *testing.T) {
	fake := newFake(map[string]behaviour{"a": {request: 2500 * time.Millisecond, ready: time.Hour}})
	stage := Stage{ObjectTimeout: 10 * sec, FirstStatusTimeout: 1500 * time.Millisecond, Phase: event.Phase{Groups: groupsOf("a: a")}}
	object := stage.Phase.Groups[0].Objects[0]
	trace, _ := run(t, Options{}, stage, fake, func(b *rig) {
		b.e.ServerUnreachable(time.Now(), "connection refused")
		b.at(2 * sec)
		b.e.ServerReachable() // the clock is at -2s
		for _, at := range []time.Duration{2500 * time.Millisecond, 3 * sec} {
			b.at(at)
			fake.reports[object](Observation{Object: object, Status: event.Ready, AwaitsStatus: true})
		}
	})
	want(t, trace, "0.0s c:a running", "4.0s c:a ready")
}
