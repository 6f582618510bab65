package phrase

import (
	"strings"

	"lockstep/engine/text"
)

// BeforeReplacement is why a run is paused before objects are replaced, and what happens along with the only one:
// "before Job/migrate is replaced (its pods are deleted with it)".
func BeforeReplacement(names []string, along string) string {
	if len(names) > 1 {
		return "before " + strings.Join(names, ", ") + " are replaced"
	}
	if along != "" {
		along = "(" + along + ")"
	}
	return text.Join(" ", "before "+strings.Join(names, "")+" is replaced", along)
}
