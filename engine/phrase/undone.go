package phrase

import (
	"lockstep/engine/event"
	"lockstep/engine/text"
)

// Undone says what the rollback of a release did: "uninstalled: 2 deleted". It returns "" if there was none, it goes on, or it
// failed. r may be nil.
func Undone(r *event.State) string {
	if r == nil || !r.HasRollback() || r.Ended.IsZero() || r.RollbackFailed() {
		return ""
	}
	did := "rolled back"
	if r.Release == event.NoRelease {
		did = "uninstalled"
	}
	return text.Join(": ", did, r.RollbackChanges().String())
}
