package diagnose

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
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

// crashMemory remembers how a container of an object failed, and its log: a failed Job removes its pods, and a
// restarted container has no log yet. It also remembers UIDs, so that they are known after the object is deleted.
type crashMemory struct {
	crashes *lru.Cache // crash by the object's types.UID
	uids    *lru.Cache // types.UID by plan.Object
}

type crash struct {
	pod  Pod
	logs []string
}

// uid returns the UID of an object that was read before, or "".
func (m crashMemory) uid(o plan.Object) types.UID {
	v, _ := m.uids.Get(o)
	uid, _ := v.(types.UID)
	return uid
}

func (m crashMemory) crash(uid types.UID) (c crash, ok bool) {
	v, _ := m.crashes.Get(uid)
	c, ok = v.(crash)
	return c, ok
}

// storeCrash remembers the crash in a report. If the report has no log, it gets the remembered log of that container.
func (m crashMemory) storeCrash(b *reportBuilder) {
	if b.Pods[0].severity != crashed {
		return
	}
	uid := b.live.GetUID()
	if old, ok := m.crash(uid); ok && len(b.Logs) == 0 && old.pod.culprit == b.Pods[0].culprit {
		b.Logs = old.logs
	}
	m.crashes.Add(uid, crash{b.Pods[0], b.Logs})
}

// restoreCrash puts the remembered failed pod first if the object has no pods, or is a Job whose pods show no failure.
func (m crashMemory) restoreCrash(b *reportBuilder) {
	if len(b.Pods) > 0 && (b.Pods[0].severity > starting || b.live.GetKind() != "Job") {
		return
	}
	if old, ok := m.crash(b.live.GetUID()); ok && b.live.GetUID() != "" {
		b.Pods = append([]Pod{old.pod}, b.Pods...)
		b.Logs = old.logs
	}
}
