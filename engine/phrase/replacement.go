package phrase

import (
	"regexp"
	"strings"
)

// BeforeReplacement is why a run is paused before objects are replaced, and what happens along with the only one:
// "before Job/migrate is replaced (its pods are deleted with it)".
func BeforeReplacement(names []string, along string) string {
	switch {
	case len(names) > 1:
		return "before " + strings.Join(names, ", ") + " are replaced"
	case along == "":
		return "before " + names[0] + " is replaced"
	}
	return "before " + names[0] + " is replaced (" + along + ")"
}

var along = regexp.MustCompile(` \([^()]*\)$`)

// Briefly returns the reason of a pause without what happens along with a replacement: "before Job/migrate is replaced".
func Briefly(why string) string { return along.ReplaceAllString(why, "") }
