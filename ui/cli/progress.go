package cli

import (
	"sync"
	"time"

	"lockstep/ui/report"
)

// patienceBefore is how long something may take before an operation begins until
// it is named.
const patienceBefore = 500 * time.Millisecond

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
	timer = time.AfterFunc(patienceBefore, func() {
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
