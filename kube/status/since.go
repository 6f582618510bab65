package status

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// notReadySince returns since when an object is not ready by its own facts: the condition that says so, or for a Job or a claim its
// start. It returns zero if there are none: the status of a StatefulSet or DaemonSet has no times.
func notReadySince(u *unstructured.Unstructured, now time.Time) time.Time {
	text := ""
	switch groupKind(u) {
	case "batch/Job":
		text = kstatus.GetStringField(u.Object, ".status.startTime", "")
	case "PersistentVolumeClaim": // once bound, it stays so
		text = u.GetCreationTimestamp().UTC().Format(time.RFC3339)
	default:
		for _, kind := range []string{"Available", "Ready"} {
			if c, ok := findCondition(u, kind); ok && c.status != "True" {
				text = c.changed
				break
			}
		}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.After(now) { // the clock of the API server is ahead
		return time.Time{}
	}
	return at
}
