package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// condition is an entry of .status.conditions.
type condition struct{ status, reason, message string }

func (c condition) text() string { return joinText(c.reason, c.message) }

// conditionOf returns the condition of a type. Entries of any other shape are
// skipped.
func conditionOf(u *unstructured.Unstructured, kind string) (condition, bool) {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := v.([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		if m["type"] == kind {
			text := func(key string) string { s, _ := m[key].(string); return s }
			return condition{status: text("status"), reason: text("reason"), message: text("message")}, true
		}
	}
	return condition{}, false
}

// describePod is a Pod's phase and the first container that holds it up.
func describePod(u *unstructured.Unstructured) string {
	phase := strings.ToLower(kstatus.GetStringField(u.Object, ".status.phase", "not seen by a node yet"))
	why := ""
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		if why == "" {
			why = describeContainers(u, field)
		}
	}
	ready, _ := conditionOf(u, "Ready")
	switch {
	case why != "":
		return joinText(phase, why)
	case phase == "running" && ready.status == "True":
		return "ready"
	case phase == "running":
		return "running, not ready"
	case phase == "failed":
		return joinText(phase, joinText(
			kstatus.GetStringField(u.Object, ".status.reason", ""),
			kstatus.GetStringField(u.Object, ".status.message", "")))
	}
	return phase
}

// describeContainers returns the problem of the first container that has failed
// or cannot start; one whose turn has not come has none.
func describeContainers(u *unstructured.Unstructured, field string) string {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", field)
	list, _ := v.([]any)
	for _, item := range list {
		c, _ := item.(map[string]any)
		text := func(path ...string) string { s, _, _ := unstructured.NestedString(c, path...); return s }
		switch reason := text("state", "waiting", "reason"); reason {
		case "", "ContainerCreating", "PodInitializing":
		default:
			return joinText(reason, text("state", "waiting", "message"))
		}
		code, found, _ := unstructured.NestedInt64(c, "state", "terminated", "exitCode")
		if found && code != 0 {
			return fmt.Sprintf("%s ended with exit code %d", text("name"), code)
		}
	}
	return ""
}
