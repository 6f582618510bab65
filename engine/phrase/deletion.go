package phrase

import "lockstep/engine/text"

// BeingDeleted says that somebody deletes an object that should stay, and why it still exists.
func BeingDeleted(why string) string {
	if why == "terminating" { // the same in other words
		why = ""
	}
	return text.Join(": ", "being deleted", why)
}
