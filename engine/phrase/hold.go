package phrase

import (
	"cmp"
	"strings"

	"lockstep/engine/event"
)

// NothingWritten is the outcome of an operation that ended before its first write.
const NothingWritten = "nothing was written"

// Hold says that a failure holds the run, and which commands end that. names are other names of commands.
func Hold(h event.Hold, names map[event.CommandName]string) string {
	all := make([]string, len(h.Commands))
	for n, c := range h.Commands {
		all[n] = cmp.Or(names[c], string(c))
	}
	who, last := "the run", len(all)-1
	if h.Release != "" {
		who = "release " + h.Release
	}
	return who + " is held on a failure; use " + strings.Join(all[:last], ", ") + " or " + all[last]
}
