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
