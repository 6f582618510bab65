package status

import (
	"testing"
	"time"
)

// TestNotReadySince: the condition that says that an object is not ready says since when; without one, nothing is guessed.
func TestNotReadySince(t *testing.T) {
	at := time.Date(2026, 1, 1, 11, 50, 0, 0, time.UTC)
	changed := `lastTransitionTime: "2026-01-01T11:50:00Z"`
	for name, c := range map[string]struct {
		object string
		want   time.Time
	}{
		"not available":    {deployment(`replicas: 3, conditions: [{type: Available, status: "False", ` + changed + `}]`), at},
		"available, but":   {deployment(`replicas: 3, availableReplicas: 2, conditions: [{type: Available, status: "True", ` + changed + `}]`), time.Time{}},
		"a running hook":   {jobWith(`active: 1, startTime: "2026-01-01T11:50:00Z"`), at},
		"a pod":            {podWith(`phase: Running, conditions: [{type: Ready, status: "False", ` + changed + `}]`), at},
		"a clock ahead":    {podWith(`phase: Running, conditions: [{type: Ready, status: "False", lastTransitionTime: "2026-01-01T12:00:09Z"}]`), time.Time{}},
		"a custom object":  {crWith(`, status: {observedGeneration: 2, conditions: [{type: Ready, status: "False", ` + changed + `}]}`), at},
		"ready":            {podWith(`phase: Running, conditions: [{type: Ready, status: "True", ` + changed + `}]`), time.Time{}},
		"without any fact": {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 1}}`, time.Time{}},
	} {
		if got := Compute(object(t, c.object), Rule{Hook: name == "a running hook"}, noon); !got.Since.Equal(c.want) {
			t.Errorf("%s: %s since %s, want %s", name, got.Status, got.Since, c.want)
		}
	}
}
