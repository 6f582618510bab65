package phrase

import (
	"lockstep/engine/event"
	"lockstep/engine/text"
)

// Undone says what the rollback of a release did: "uninstalled: 2 deleted". It returns "" if there was none, it goes on, or it
// failed. r may be nil.
func Undone(r *event.State) string {
	how := HowUndone(r)
	if how == "" {
		return ""
	}
	return text.Join(": ", how, r.RollbackChanges().String())
}

// HowUndone says how the rollback of a release ended, "uninstalled" or "rolled back", and nothing of what it changed.
func HowUndone(r *event.State) string {
	switch {
	case r == nil || !r.HasRollback() || r.Ended.IsZero() || r.RollbackFailed():
		return ""
	case r.Release == event.NoRelease:
		return "uninstalled"
	}
	return "rolled back"
}
