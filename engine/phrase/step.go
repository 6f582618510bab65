package phrase

import (
	"fmt"

	"lockstep/engine/text"
)

// Exited says how a program ended: "exited with code 3".
func Exited(code int) string { return fmt.Sprintf("exited with code %d", code) }

// CountStack counts the releases and the hooks of a stack: "3 releases, 1 hook".
func CountStack(releases, hooks int) string {
	var parts []string
	if releases > 0 || hooks == 0 {
		parts = append(parts, text.Count(releases, "release"))
	}
	if hooks > 0 {
		parts = append(parts, text.Count(hooks, "hook"))
	}
	return text.Join(", ", parts...)
}

// RanBeforeKill says why a step does not run again.
const RanBeforeKill = "succeeded before the run was killed"

// SkippedStep says that somebody has accepted a failed step as done, with their reason or "".
func SkippedStep(reason string) string { return text.Join(": ", "skipped after it failed", reason) }
