package event

import "time"

// Limit is a timeout, by the flag that usually sets it (R25).
type Limit string

const (
	LimitObject    Limit = "--readiness-timeout"
	LimitOperation Limit = "--timeout"
)

// Timeout is a timeout that expired.
type Timeout struct {
	After time.Duration `json:"after"`
	// Flag is what sets it: a flag, with the objects that it is about if those are not all, or an annotation.
	Flag string `json:"flag"`
	// Away is how long the API server had been unreachable when the timeout expired, AwayWhy the error.
	Away    time.Duration `json:"away,omitempty"`
	AwayWhy string        `json:"awayWhy,omitempty"`
}

// Limit returns which timeout it is, "" for nil.
func (t *Timeout) Limit() Limit {
	switch {
	case t == nil:
		return ""
	case t.Flag == string(LimitOperation):
		return LimitOperation
	}
	return LimitObject
}

// Vagueness is how little a failure at a timeout explains why the operation failed: 0 if its cause is known or only the
// object's own time expired, 1 if the operation's time ended and only the object's state is known, 2 if that was before the
// object was applied.
func (t *Timeout) Vagueness(applied, causeKnown bool) int {
	switch {
	case t.Limit() != LimitOperation || causeKnown:
		return 0
	case applied:
		return 1
	}
	return 2
}

// Wait describes the wait for an object.
type Wait struct {
	// State is the state of the object: "2 of 3 available".
	State string `json:"state,omitempty"`
	// For is how long the run has waited, in nanoseconds.
	For time.Duration `json:"for"`
	// More counts the other objects that are not as they should be: Ready, or Gone if they are removed.
	More int    `json:"more,omitempty"`
	Goal Status `json:"goal"`
}

// Active returns how long the operation has run, without the time that it was paused or held (R25).
func (s *State) Active(now time.Time) time.Duration {
	if s.Started.IsZero() {
		return 0
	}
	if !s.Ended.IsZero() {
		now = s.Ended
	}
	return max(now.Sub(s.Started)-s.idle.read(now), 0)
}

// Spent returns how much of its timeout the operation has used, and the timeout, 0 if there is none to compare with. An edited
// revision (R46) and the rollback (R33) start again; once the operation is over, Spent is all its time.
func (s *State) Spent(now time.Time) (spent, timeout time.Duration) {
	timeout = s.Operation.Timeout
	switch {
	case s.before == 0:
		return s.Active(now), timeout
	case !s.Ended.IsZero():
		return s.Active(now), 0
	case s.Undo != nil:
		timeout = s.Undo.Timeout
	}
	return s.Active(now) - s.before, timeout
}

// IdleWord says why the operation was not active all the time: "paused", "held" or "paused or held".
func (s *State) IdleWord() string {
	switch {
	case !s.idledBy.hold:
		return string(Paused)
	case !s.idledBy.pause:
		return string(Held)
	}
	return "paused or held"
}

// Stepped reports whether a step was taken.
func (s *State) Stepped() bool { return s.stepped }

// Settling returns how long the run still waits before the outcome, because containers without probes have just started
// (R22c). ok is false if it does not.
func (s *State) Settling(now time.Time) (left time.Duration, ok bool) {
	left = s.Waiting.Until.Sub(now)
	if s.Waiting.ReadyBy != BySettling || left <= 0 || !s.Ended.IsZero() || s.Run == Aborting || len(s.runningGroups()) > 0 {
		return 0, false
	}
	return left, true
}

// stopwatch measures the total time during which it was running.
type stopwatch struct {
	total time.Duration // before since
	since time.Time     // zero while it is stopped
}

func (w *stopwatch) running() bool { return !w.since.IsZero() }

// set starts or stops the stopwatch at a time. It may already be running or stopped.
func (w *stopwatch) set(running bool, at time.Time) {
	w.total = w.read(at)
	w.since = time.Time{}
	if running {
		w.since = at
	}
}

func (w *stopwatch) read(now time.Time) time.Duration {
	if !w.running() {
		return w.total
	}
	return w.total + now.Sub(w.since)
}
