package diagnose

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
)

func (c Container) title() string {
	switch {
	case c.Sidecar:
		return "sidecar " + c.Name
	case c.Init:
		return "init container " + c.Name
	}
	return "container " + c.Name
}

// problem returns the problem of a container in one line, or healthy and "".
func (c Container) problem() (severity, string) {
	switch {
	case c.Ended && !c.Ready && (c.EndReason == "StartError" || c.EndReason == "ContainerCannotRun"):
		return cannotStart, c.title() + " cannot start: " + cmp.Or(runtimeError(c.EndMessage), c.EndReason)
	case c.State == "waiting" && c.Reason == "CrashLoopBackOff",
		c.State == "terminated" && c.Exit != 0,
		c.State == "running" && !c.Ready && c.Restarts > 0 && c.Exit != 0:
		ended, reason := c.exitText()
		return crashed, phrase.WithTally(c.title()+" "+ended, reason, event.Tally{})
	case c.imagePullFailed():
		return cannotStart, c.imagePullCause()
	case c.State == "waiting" && c.Reason != "" && c.Reason != "ContainerCreating" && c.Reason != "PodInitializing":
		return cannotStart, fmt.Sprintf("%s cannot start: %s", c.title(), cmp.Or(runtimeError(c.Message), c.Reason))
	case c.Init && !c.Sidecar && c.State == "running" && !c.Ready:
		return starting, c.title() + " is running"
	}
	return healthy, ""
}

// exitText describes how the container last exited, and the reason for its end if that is worth a mention.
func (c Container) exitText() (ended, reason string) {
	switch {
	case !c.Ended:
		return "exited", ""
	case c.EndReason == "OOMKilled" && c.Limit != "":
		return "was killed for exceeding its memory limit of " + c.Limit, c.EndReason
	case c.EndReason == "OOMKilled":
		return "(no memory limit) was killed because its node ran out of memory", c.EndReason
	}
	return fmt.Sprintf("exited with code %d", c.Exit), ""
}

// exitWithReason says how the container ended: "exited with code 137 (OOMKilled)".
func (c Container) exitWithReason() string {
	text := fmt.Sprintf("exited with code %d", c.Exit)
	if c.EndReason != "" && c.EndReason != "Error" && c.EndReason != "Completed" {
		text += " (" + c.EndReason + ")"
	}
	return text
}

// terminationMessage returns the container's termination message, and its reason if that
// says more than the exit code.
func (c Container) terminationMessage() string {
	switch c.EndReason {
	case "", "Error", "Completed", "OOMKilled":
		return c.EndMessage
	}
	return joinColon(c.EndReason, c.EndMessage)
}

// runtimeError strips the container runtime's prefixes from an error: `exec: "x": executable file not found in $PATH`.
func runtimeError(message string) string {
	if at := strings.Index(message, "exec: "); at >= 0 {
		return message[at:]
	}
	return message
}

var (
	mountError = regexp.MustCompile(`^MountVolume\.\S+ failed for volume "([^"]+)" : (.*)$`)
	// attachError captures the volume in one of two groups, then the reason.
	attachError  = regexp.MustCompile(`^(?:Multi-Attach error for volume "([^"]+)" |AttachVolume\.\S+ failed for volume "([^"]+)" : )(.*)$`)
	probeFailure = regexp.MustCompile(`^(Liveness|Startup) probe failed: (.*)$`)
)

// startupCause describes why a pod cannot start, according to an event.
func startupCause(e *Event) string {
	if m := mountError.FindStringSubmatch(e.Message); m != nil {
		return fmt.Sprintf("volume %s cannot be mounted: %s", m[1], m[2])
	}
	if m := attachError.FindStringSubmatch(e.Message); m != nil {
		return fmt.Sprintf("volume %s cannot be attached: %s", m[1]+m[2], m[3])
	}
	return e.Reason + ": " + e.Message
}
