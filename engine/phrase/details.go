package phrase

import (
	"fmt"
	"time"

	"lockstep/engine/event"
)

// Details returns the lines of a diagnosis: conditions, pods, events, the last lines of a log, and notes.
func Details(d event.Details) (lines []string) {
	for _, c := range d.Conditions {
		lines = append(lines, "condition "+c)
	}
	lines = append(lines, Pods(d)...)
	for _, e := range d.Events {
		lines = append(lines, ClusterEvent(e))
	}
	switch {
	case len(d.Log) > 0 && d.Pod == "": // of a step
		lines = append(lines, "last lines of the output:")
	case len(d.Log) > 0:
		lines = append(lines, fmt.Sprintf("last lines of pod %s, container %s:", d.Pod, d.Container))
	}
	for _, l := range d.Log {
		lines = append(lines, "  "+l)
	}
	return append(lines, d.Notes...)
}

// Pods returns a line for each pod of a diagnosis: "pod api-5d8: container api exited with code 3".
func Pods(d event.Details) (lines []string) {
	for _, p := range d.Pods {
		lines = append(lines, "pod "+p.Name+": "+p.Why)
	}
	if d.MorePods > 0 {
		lines = append(lines, fmt.Sprintf("and %d more pods", d.MorePods))
	}
	return lines
}

// ClusterEvent formats a Kubernetes event as one line with the time of day.
func ClusterEvent(e event.ClusterEvent) string {
	text := fmt.Sprintf("%s %s %s: %s", e.Time.Local().Format(time.TimeOnly), e.Object, e.Reason, e.Message)
	switch {
	case e.Pods > 1:
		text += fmt.Sprintf(" (×%d in %d pods)", e.Count, e.Pods)
	case e.Count > 1:
		text += fmt.Sprintf(" (×%d)", e.Count)
	}
	return text
}
