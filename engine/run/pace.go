package run

import (
	"slices"
	"time"
)

// Pace limits the diagnoses of one object. The gaps between them grow, and the next one is delayed until the total stays
// within maxDiagnosisRequests per requestWindow, assuming that it costs as much as the last one. The zero value is ready to use.
type Pace struct {
	count int // diagnoses since the last reset
	costs []cost
	due   time.Time // time of the next diagnosis, zero for none
}

type cost struct {
	at       time.Time
	requests int
}

// next returns the first time, not before earliest, at which another diagnosis may start.
func (p *Pace) next(earliest time.Time) time.Time {
	if n := len(p.costs); n > 0 {
		if next := p.costs[n-1].at.Add(gap(max(p.count, 1))); next.After(earliest) {
			earliest = next
		}
	}
	return p.withinBudget(earliest)
}

// Cancel cancels the next diagnosis.
func (p *Pace) Cancel() { p.due = time.Time{} }

// NextQuiet returns when to diagnose again if there is no sign of trouble.
func (p *Pace) NextQuiet(now time.Time) time.Time { return now.Add(max(quietInterval, gap(p.count))) }

// start records the start of a diagnosis.
func (p *Pace) start(now time.Time) {
	p.due = time.Time{}
	p.count++
	p.costs = append(p.costs, cost{at: now})
}

// addCost records the cost of the last diagnosis.
func (p *Pace) addCost(now time.Time, requests int) {
	p.costs = slices.DeleteFunc(p.costs, func(x cost) bool { return now.Sub(x.at) > requestWindow })
	if n := len(p.costs); n > 0 {
		p.costs[n-1].requests += requests
	}
}

// reset restarts with the shortest gap and cancels the next diagnosis; requests sent so far still count.
func (p *Pace) reset() {
	p.count = 0
	p.Cancel()
}

func gap(count int) time.Duration { return min(minGap<<min(count-1, 10), maxGap) }

// withinBudget returns the first time, not before earliest, at which another diagnosis stays within
// maxDiagnosisRequests if it costs as much as the last one.
func (p *Pace) withinBudget(earliest time.Time) time.Time {
	sum := 0
	for i, x := range slices.Backward(p.costs) {
		if i == len(p.costs)-1 {
			sum = x.requests
		}
		if sum += x.requests; sum > maxDiagnosisRequests {
			if free := x.at.Add(requestWindow); free.After(earliest) {
				return free
			}
			break
		}
	}
	return earliest
}
