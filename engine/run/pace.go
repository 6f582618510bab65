package run

import (
	"slices"
	"time"
)

// Pace keeps the looks at one object apart, and few: each further one comes later
// after the one before, and with what they cost they are not more than
// mostRequests in spentTime. Its zero value is ready to use.
type Pace struct {
	looks int // how many there were
	spent []spent
}

// spent is what a look has cost.
type spent struct {
	at       time.Time
	requests int
}

// Next is the first time, not before at, at which there may be another look.
func (p *Pace) Next(at time.Time) time.Time {
	if n := len(p.spent); n > 0 {
		if next := p.spent[n-1].at.Add(gap(max(p.looks, 1))); next.After(at) {
			at = next
		}
	}
	return p.affordable(at)
}

// Later is when there is to be another look if there is no sign that one is
// worth it.
func (p *Pace) Later(now time.Time) time.Time { return now.Add(max(lookAgain, gap(p.looks))) }

// Begin notes that a look is taken.
func (p *Pace) Begin(now time.Time) {
	p.looks++
	p.spent = append(p.spent, spent{at: now})
}

// Spend notes what the last look has cost.
func (p *Pace) Spend(now time.Time, requests int) {
	p.spent = slices.DeleteFunc(p.spent, func(x spent) bool { return now.Sub(x.at) > spentTime })
	if n := len(p.spent); n > 0 {
		p.spent[n-1].requests += requests
	}
}

// reset lets looks be as often again as at first, but for what they have cost.
func (p *Pace) reset() { p.looks = 0 }

func gap(looks int) time.Duration { return min(firstGap<<min(looks-1, 10), lastGap) }

// affordable is the first time, not before at, at which another look that costs what
// the last one did is not too much.
func (p *Pace) affordable(at time.Time) time.Time {
	sum := 0
	for i, x := range slices.Backward(p.spent) {
		if i == len(p.spent)-1 {
			sum = x.requests
		}
		if sum += x.requests; sum > mostRequests {
			if free := x.at.Add(spentTime); free.After(at) {
				return free
			}
			break
		}
	}
	return at
}
