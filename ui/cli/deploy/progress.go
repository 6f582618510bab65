package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/kube"
	"lockstep/ui/report"
)

// unreachableDelay is how long the API server may be away without a word.
const unreachableDelay = 1500 * time.Millisecond

// reportUnreachable says, until it is stopped, that the API server does not answer, as
// long as there is no operation whose events tell that.
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

// progressDelay is how long something may take before an operation begins until
// it is named.
const progressDelay = 500 * time.Millisecond

// progress names what goes on before an operation begins: a chart that is fetched,
// rendering, checks. Each is one line on stderr, for people, in every mode and
// before the screen is there. It is no event: events are of an operation, and where
// nothing comes of it there is none.
type progress struct {
	say report.Notices

	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// doing is called when something begins, and what was before it is over.
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
		if p.timer == timer { // else it was over just then
			p.say.Note(what + " …")
		}
	})
	p.timer = timer
}

// end is called when nothing more comes before the operation. What goes on
// nevertheless, after an interrupt for instance, is not told of.
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
