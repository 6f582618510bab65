package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/kube"
	"lockstep/ui/report"
)

// unreachableDelay is how long the API server must be unreachable before a message is printed.
const unreachableDelay = 1500 * time.Millisecond

// reportUnreachable prints a message if the API server is unreachable, until stop is called.
// Once an operation runs, its events report that.
func reportUnreachable(client *kube.Client, notices report.Notices) (stop func()) {
	timer := time.AfterFunc(time.Hour, func() {})
	timer.Stop()
	unlisten := client.Link().Listen(kube.Listener{
		Away: func(since time.Time, reason string) {
			timer.Stop()
			timer = time.AfterFunc(unreachableDelay, func() {
				notices.Note(fmt.Sprintf("the API server has been unreachable for %s (%s); waiting", time.Since(since).Round(time.Second), reason))
			})
		},
		Back: func() { timer.Stop() },
	})
	return func() {
		unlisten()
		timer.Stop()
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
		if p.timer == timer { // else the step has just ended
			p.notices.Note(step + " …")
		}
	})
	p.timer = timer
}

// end ends the current step. Later steps, for example of a load that was interrupted, are not
// printed.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopTimer()
	p.ended = true
}

// stopTimer requires p.mu.
func (p *progress) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
