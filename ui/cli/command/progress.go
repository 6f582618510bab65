package command

import (
	"sync"
	"time"

	"lockstep/ui/report"
)

// stepDelay is how long a step must take before it is printed.
const stepDelay = 500 * time.Millisecond

// Progress prints slow steps outside operations, such as loading a chart. They are not events, because events belong to an
// operation.
type Progress struct {
	Notices report.Notices

	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// Start ends the current step and starts another.
func (p *Progress) Start(step string) {
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
			p.Notices.Note(step + " …")
		}
	})
	p.timer = timer
}

// End ends the current step. Later steps, for example of an interrupted load, are not printed.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopTimer()
	p.ended = true
}

// stopTimer stops the timer, if any. The caller must hold p.mu.
func (p *Progress) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
