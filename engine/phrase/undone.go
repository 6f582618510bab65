package phrase

import (
	"lockstep/engine/event"
	"lockstep/engine/text"
)

// Undone says what the rollback of a release did: "uninstalled: 2 deleted". It returns "" if there was none, it goes on, or it
// failed. r may be nil.
func Undone(r *event.State) string {
	did := UndoneBriefly(r)
	if did == "" {
		return ""
	}
	return text.Join(": ", did, r.RollbackChanges().String())
}

// UndoneBriefly is Undone without the changes: "uninstalled".
func UndoneBriefly(r *event.State) string {
	switch {
	case r == nil || !r.HasRollback() || r.Ended.IsZero() || r.RollbackFailed():
		return ""
	case r.Release == event.NoRelease:
		return "uninstalled"
	}
	return "rolled back"
}
