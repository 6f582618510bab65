package phrase

import (
	"fmt"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// Heartbeat describes for which object the run waits: "in-progress, 0 of 1 available: no node has room; 10s so far". The cause
// is "" if it is unknown.
func Heartbeat(status event.Status, cause string, w event.Wait) string {
	state := string(status)
	if w.State != "" {
		state += ", " + w.State
	}
	if cause != "" {
		state += ": " + cause
	}
	return Waiting(state, w)
}

// Waiting says how long the run has waited for an object in a state, and for how many others: "0 of 1 available; 10s so far; 1
// more object is not ready".
func Waiting(state string, w event.Wait) string {
	state = text.Join("; ", state, fmt.Sprintf("%s so far", w.For.Round(time.Second)))
	switch {
	case w.More == 1:
		state += fmt.Sprintf("; 1 more object is not %s", w.Goal)
	case w.More > 1:
		state += fmt.Sprintf("; %s are not %s", text.Count(w.More, "more object"), w.Goal)
	}
	return state
}
