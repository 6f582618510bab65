package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/kube"
	"lockstep/kube/connect"
	"lockstep/ui/report"
)

// unreachableDelay is how long the API server must be unreachable before a message is printed.
const unreachableDelay = 1500 * time.Millisecond

// reportUnreachable prints a message whenever the API server becomes unreachable, until stop is called.
// Events report it once an operation runs.
func reportUnreachable(client *kube.Client, notices report.Notices) (stop func()) {
	var timer *time.Timer
	stopTimer := func() {
		if timer != nil {
			timer.Stop()
		}
	}
	unlisten := client.Link().Listen(connect.Listener{ // never calls both functions at the same time
		Unreachable: func(since, _ time.Time, reason string) {
			stopTimer()
			timer = time.AfterFunc(unreachableDelay, func() {
				notices.Note(fmt.Sprintf("the API server has been unreachable for %s (%s); waiting", time.Since(since).Round(time.Second), reason))
			})
		},
		Reachable: stopTimer,
	})
	return func() {
		unlisten()
		stopTimer()
	}
}

// stepDelay is how long a step must take before it is printed.
const stepDelay = 500 * time.Millisecond

// progress prints slow steps before an operation starts, such as loading a chart. They are not
// events, because events belong to an operation.
type progress struct {
	notices report.Notices

	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// start ends the current step and starts another.
func (p *progress) start(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopTimer()
	if p.ended {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(stepDelay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.timer == timer { // otherwise the step has just ended
			p.notices.Note(step + " …")
		}
	})
	p.timer = timer
}

// end ends the current step. Later steps, for example of an interrupted load, are not printed.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopTimer()
	p.ended = true
}

// stopTimer stops the timer, if any. The caller must hold p.mu.
func (p *progress) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
