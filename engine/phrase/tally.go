package phrase

import (
	"fmt"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// Tally names the counts in a cause: "2 restarts", "" for none.
func Tally(t event.Tally) string {
	switch {
	case t.PodsFailed > 0:
		return fmt.Sprintf("%d pods failed", t.PodsFailed)
	case t.Restarts > 0:
		return text.Count(t.Restarts, "restart")
	}
	return ""
}

// WithTally adds the counts to how a container ended: "exited with code 3 (2 restarts)", "was killed (OOMKilled, 2 restarts)".
func WithTally(ended, reason string, t event.Tally) string {
	switch counts := Tally(t); {
	case reason == "" && counts == "":
		return ended
	case counts == "":
		return ended + " (" + reason + ")"
	case reason == "":
		return ended + " (" + counts + ")"
	default:
		return ended + " (" + reason + ", " + counts + ")"
	}
}

// CauseAt returns the cause to show for an object at a time, without its counts once they are old.
func CauseAt(g *event.GroupState, o *event.ObjectState, now time.Time) string {
	counts := Tally(o.Tally)
	if counts == "" || !g.TallyIsOld(o, now) {
		return o.Cause
	}
	return strings.NewReplacer(" ("+counts+")", "", ", "+counts+")", ")").Replace(o.Cause)
}
