package event

import "time"

// Tally has the counts in Event.Cause that grow until the next diagnosis.
type Tally struct {
	Restarts   int `json:"restarts,omitempty"`   // of the container
	PodsFailed int `json:"podsFailed,omitempty"` // of the Job
}

// tallyFresh is how long the counts in a cause are shown after the diagnosis that found them.
const tallyFresh = 5 * time.Second

// TallyIsOld reports whether the counts in the cause of an object may be higher by now, because the group is still running.
func (g *GroupState) TallyIsOld(o *ObjectState, now time.Time) bool {
	return !g.Status.Over() && now.Sub(o.causeAt) >= tallyFresh
}
