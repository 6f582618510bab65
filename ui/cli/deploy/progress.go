package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/kube"
	"lockstep/ui/report"
)

// unreachableDelay is how long the API server may be unreachable before a message.
const unreachableDelay = 1500 * time.Millisecond

// reportUnreachable prints a message if the API server is unreachable before an
// operation starts; after that, events report it.
func reportUnreachable(client *kube.Client, say report.Notices) (stop func()) {
	timer := time.AfterFunc(time.Hour, func() {})
	timer.Stop()
	forget := client.Link().Listen(kube.Listener{
		Away: func(since time.Time, reason string) {
			timer.Stop()
			timer = time.AfterFunc(unreachableDelay, func() {
				say.Note(fmt.Sprintf("the API server has been unreachable for %s (%s); waiting", time.Since(since).Round(time.Second), reason))
			})
		},
		Back: func() { timer.Stop() },
	})
	return func() {
		forget()
		timer.Stop()
	}
}

// progressDelay is how long a step may take before it is named.
const progressDelay = 500 * time.Millisecond

// progress names slow steps before an operation starts, such as fetching a chart,
// rendering and checks: one line each on stderr. They are no events because events
// belong to an operation.
type progress struct {
	say report.Notices

	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// doing is called when a step starts; the previous one is then over.
func (p *progress) doing(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	if p.ended {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(progressDelay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.timer == timer { // else it has just ended
			p.say.Note(what + " …")
		}
	})
	p.timer = timer
}

// end is called when the operation starts. Later steps, for example after an
// interrupt, are not named.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.ended = true
}

// stop needs p.mu.
func (p *progress) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
