package run

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// hangingCluster has an object that is ready from a time on. Its API server hangs for a while, and its watch may stall for good.
// Times are since the start.
type hangingCluster struct {
	e                        *Engine
	start                    time.Time
	ready, hang, back, stall time.Duration
	every                    time.Duration // how often a request other than Refresh is sent

	mu       sync.Mutex
	report   func(Observation)
	proven   time.Duration // the last response
	unproven time.Duration // the time that does not count
	noticed  bool
}

func (c *hangingCluster) now() time.Duration { return time.Since(c.start) }

func (c *hangingCluster) Watch(_ context.Context, _ *plan.Group, report func(Observation)) {
	c.report = report
}

func (c *hangingCluster) Apply(_ context.Context, _ *plan.Group, o plan.Object) (Response, error) {
	go func() {
		time.Sleep(c.ready)
		if at := c.now(); at >= c.hang && at < c.back {
			time.Sleep(c.back - at)
		}
		if c.now() < c.stall {
			c.observe(o)
		}
	}()
	return Response{Version: 1}, nil
}

func (c *hangingCluster) Delete(context.Context, *plan.Group, plan.Object) (Response, error) {
	panic("nothing is deleted")
}

func (c *hangingCluster) observe(o plan.Object) {
	status := event.InProgress
	if c.now() >= c.ready {
		status = event.Ready
	}
	c.report(Observation{Object: o, Status: status, Version: 2})
}

// request sends a request. Without a response within 3 s, the API server is known to be unreachable.
func (c *hangingCluster) request() {
	sent := c.now()
	if sent >= c.hang && sent < c.back {
		time.Sleep(min(3*sec, c.back-sent))
		c.mu.Lock()
		if c.now() < c.back && !c.noticed {
			c.noticed, c.unproven = true, c.back-c.proven
			c.e.ServerUnreachable(c.start.Add(sent), c.start.Add(c.proven), "no response")
			time.AfterFunc(c.back-c.now(), c.e.ServerReachable)
		}
		c.mu.Unlock()
		time.Sleep(c.back - c.now() + time.Millisecond) // after ServerReachable
	}
	c.mu.Lock()
	c.proven = c.now()
	c.mu.Unlock()
}

// TestNoTimeoutWithoutProof (R25, R53): whenever the API server hangs or the watch stalls, noticed or not, a timeout fails only an
// object that is not ready, and only after it had its time. What has passed since the last response before an outage does not
// count towards a readiness timeout. While the API server hangs, the timeout of the operation ends it without a look.
func TestNoTimeoutWithoutProof(t *testing.T) {
	t.Run("readiness-timeout", func(t *testing.T) { testProof(t, 6*sec, 0) })
	t.Run("timeout", func(t *testing.T) { testProof(t, 0, 6*sec) })
}

func testProof(t *testing.T, readiness, operation time.Duration) {
	limit := readiness + operation
	failures, waits := 0, 0
	for seed := range uint64(500) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			some := func(most int) time.Duration { return time.Duration(r.IntN(most)) * time.Millisecond }
			c := &hangingCluster{start: time.Now(), ready: some(15000), hang: some(9000), every: time.Second + some(6000)}
			c.back, c.stall = c.hang+some(12000), some(20000)
			feed := &event.Feed{}
			c.e = New(Options{Feed: feed, Operation: event.Operation{Timeout: operation}, Refresh: func(_ context.Context, o plan.Object) { c.request(); c.observe(o) }})
			ended := make(chan struct{})
			go func() {
				for {
					select {
					case <-time.After(c.every):
						c.request()
					case <-ended:
						return
					}
				}
			}()
			phase := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x")}
			c.e.Announce(phase)
			err := c.e.Start(Stage{Phase: phase, Cluster: c, ObjectTimeout: readiness}).Wait()
			at := c.now()
			close(ended)
			c.e.Finish(End{Status: event.Failed})
			time.Sleep(time.Minute) // until all goroutines have ended
			if err == nil {
				waits++
				return
			}
			failures++
			counted, hung := at-c.unproven, false
			if operation > 0 {
				counted, hung = at, c.hang <= at && c.back > limit
			}
			if at >= c.ready && !hung || counted < limit {
				t.Errorf("seed %d: failed after %s, of which %s count; it hangs from %s to %s (noticed %t), is ready at %s, the watch stalls at %s",
					seed, at, counted, c.hang, c.back, c.noticed, c.ready, c.stall)
			}
		})
	}
	if failures < 50 || waits < 50 {
		t.Errorf("%d runs failed and %d succeeded", failures, waits)
	}
}

// TestDeadlinesAcrossAnOutage: after an outage the readiness clock is set back by catchUp, so an object
// that is applied later can have an earlier deadline (R25, R53).
func TestDeadlinesAcrossAnOutage(t *testing.T) {
	fake := newFake(map[string]behaviour{"early": {request: 4900 * time.Millisecond, never: true}, "late": {request: 8100 * time.Millisecond, never: true}})
	stage := Stage{ObjectTimeout: 10 * sec, Phase: event.Phase{Groups: groupsOf("a: early", "b: late")}}
	trace, _ := run(t, Options{}, stage, fake, func(b *rig) {
		b.at(5 * sec)
		b.e.ServerUnreachable(time.Now(), time.Now(), "connection refused")
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
		b.e.ServerUnreachable(time.Now(), time.Now(), "connection refused")
		b.at(2 * sec)
		b.e.ServerReachable() // the clock is at -2s
		for _, at := range []time.Duration{2500 * time.Millisecond, 3 * sec} {
			b.at(at)
			fake.reports[object](Observation{Object: object, Status: event.Ready, FirstStatus: FirstStatus{AwaitsStatus: true}})
		}
	})
	want(t, trace, "0.0s c:a running", "4.0s c:a ready")
}
