package picture

import (
	"time"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// InProgressFor says how long an object of a group has been in progress, "" if that is unknown: since its request or, if its group
// waits for it again after a re-check or because it is no longer ready, since then.
func (p *Picture) InProgressFor(n *graph.Node, o *event.ObjectState) string {
	from := o.Sent
	switch {
	case o.Status == event.Deleting || p.State.Operation.IsWatch():
		from = o.Since
	case !from.IsZero() && n.Started.After(from):
		from = n.Started
	}
	if from.IsZero() {
		return ""
	}
	return canvas.Span(p.clockNow().Sub(from))
}

// DegradedFor says for how long an object has been degraded, or no longer ready, "" if that is unknown.
func (p *Picture) DegradedFor(n *graph.Node, o *event.ObjectState) string {
	since, now := p.degradedSince(n, o)
	if since.IsZero() {
		return ""
	}
	return canvas.Span(now.Sub(since))
}

// degradedSince returns since when an object has been degraded, zero if that is unknown, and the time to compare that with.
func (p *Picture) degradedSince(n *graph.Node, o *event.ObjectState) (since, now time.Time) {
	switch {
	case p.State.Operation.IsWatch(), n.Status == event.Ready:
		return o.Since, p.Now()
	case n.Regressed(o):
		return o.DegradedSince, p.Now()
	}
	return o.DegradedSince, p.clockNow()
}

// TimesOutIn says when --readiness-timeout will fail an object, "" if it has no limit or the
// clock is stopped.
func (p *Picture) TimesOutIn(n *graph.Node, o *event.ObjectState) string {
	left, ok := p.State.TimeLeft(n.GroupState, o, p.Now())
	if !ok {
		return ""
	}
	return "times out in " + canvas.Span(left)
}

// clockNow returns the current time, or the operation's end.
func (p *Picture) clockNow() time.Time {
	if p.Over() {
		return p.State.Now
	}
	return p.Now()
}

// Spent returns the time to show after a group's status: how long a running group has been degraded, else Took. It returns ""
// for a group that is degraded since its end, so that the time does not look like that of the problem.
func (p *Picture) Spent(n *graph.Node) (spent string, over bool) {
	switch {
	case n.Degraded == 0:
		return p.Took(n)
	case n.Status.Over():
		return "", false
	}
	longest, known := time.Duration(0), false
	for _, o := range n.Objects {
		if since, now := p.degradedSince(n, o); Degraded(n, o) && !since.IsZero() {
			longest, known = max(longest, now.Sub(since)), true
		}
	}
	if !known {
		return "", false
	}
	return canvas.Span(longest), false
}

// Took says how long a group has taken so far, "" if that is unknown, and whether it is over.
func (p *Picture) Took(n *graph.Node) (took string, over bool) {
	switch {
	case n.Started.IsZero(), p.State.Operation.IsWatch():
		return "", false
	case !n.Ended.IsZero():
		return canvas.Took(n.Ended.Sub(n.Started)), true
	}
	return canvas.Span(p.clockNow().Sub(n.Started)), false
}
