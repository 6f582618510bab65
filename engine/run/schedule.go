package run

import (
	"cmp"
	"slices"
	"time"
)

// Schedule decides when to diagnose objects that are not ready. T identifies an object.
type Schedule[T any] struct {
	Limit   int // maximum number of diagnoses at the same time
	waiting []scheduled[T]
	next    time.Time // when the first one is due, zero for never
	running int
}

type scheduled[T any] struct {
	object T
	pace   *Pace
}

// Add schedules a diagnosis. If one is already scheduled, the earlier time counts.
func (s *Schedule[T]) Add(object T, pace *Pace, at time.Time) {
	at = pace.next(at)
	if pace.due.IsZero() {
		s.waiting = append(s.waiting, scheduled[T]{object, pace})
	}
	pace.due = earliest(pace.due, at)
	s.next = earliest(s.next, at)
}

// Next returns when to call Start, or zero if nothing can start before the next Add or End.
func (s *Schedule[T]) Next() time.Time {
	if s.running >= s.Limit {
		return time.Time{}
	}
	return s.next
}

// Start returns the objects whose diagnoses are due: first those that were never diagnosed, then
// those that have waited longest. It drops diagnoses that are no longer needed. The caller
// diagnoses each returned object and calls End.
func (s *Schedule[T]) Start(now time.Time, needed func(T) bool) (started []T) {
	if next := s.Next(); next.IsZero() || now.Before(next) {
		return nil
	}
	slices.SortStableFunc(s.waiting, func(a, b scheduled[T]) int {
		return cmp.Or(cmp.Compare(min(a.pace.count, 1), min(b.pace.count, 1)), a.pace.due.Compare(b.pace.due))
	})
	var later []scheduled[T]
	s.next = time.Time{}
	for _, w := range s.waiting {
		switch {
		case w.pace.due.IsZero(): // cancelled
		case !needed(w.object):
			w.pace.Cancel()
		case s.running >= s.Limit || now.Before(w.pace.due):
			later = append(later, w)
			s.next = earliest(s.next, w.pace.due)
		default:
			s.running++
			w.pace.start(now)
			started = append(started, w.object)
		}
	}
	s.waiting = later
	return started
}

// End records the end of a diagnosis, and the number of requests that it sent.
func (s *Schedule[T]) End(pace *Pace, now time.Time, requests int) {
	s.running--
	pace.addCost(now, requests)
}
