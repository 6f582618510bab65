package run

import (
	"slices"
	"time"
)

// Pace limits the diagnoses of one object: the gaps between them grow, and together they
// send at most maxRequests in requestWindow. The zero value is ready to use.
type Pace struct {
	count int // diagnoses so far
	spent []spent
}

// spent is the cost of a diagnosis.
type spent struct {
	at       time.Time
	requests int
}

// Next returns the first time, not before at, at which another diagnosis may start.
func (p *Pace) Next(at time.Time) time.Time {
	if n := len(p.spent); n > 0 {
		if next := p.spent[n-1].at.Add(gap(max(p.count, 1))); next.After(at) {
			at = next
		}
	}
	return p.affordable(at)
}

// Later returns the time of the next diagnosis without a sign of trouble.
func (p *Pace) Later(now time.Time) time.Time { return now.Add(max(quietInterval, gap(p.count))) }

// Begin records the start of a diagnosis.
func (p *Pace) Begin(now time.Time) {
	p.count++
	p.spent = append(p.spent, spent{at: now})
}

// Spend records the cost of the last diagnosis.
func (p *Pace) Spend(now time.Time, requests int) {
	p.spent = slices.DeleteFunc(p.spent, func(x spent) bool { return now.Sub(x.at) > requestWindow })
	if n := len(p.spent); n > 0 {
		p.spent[n-1].requests += requests
	}
}

// reset returns to the first gap; requests sent so far still count.
func (p *Pace) reset() { p.count = 0 }

func gap(count int) time.Duration { return min(minGap<<min(count-1, 10), maxGap) }

// affordable returns the first time, not before at, at which another diagnosis stays within
// maxRequests if it costs as much as the last one.
func (p *Pace) affordable(at time.Time) time.Time {
	sum := 0
	for i, x := range slices.Backward(p.spent) {
		if i == len(p.spent)-1 {
			sum = x.requests
		}
		if sum += x.requests; sum > maxRequests {
			if free := x.at.Add(requestWindow); free.After(at) {
				return free
			}
			break
		}
	}
	return at
}
