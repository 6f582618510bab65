package event

import (
	"fmt"
	"time"

	"lockstep/engine/text"
)

// Tally has the counts in Event.Cause that grow until the next diagnosis.
type Tally struct {
	Restarts   int `json:"restarts,omitempty"`   // of the container
	PodsFailed int `json:"podsFailed,omitempty"` // of the Job
}

// tallyFresh is how long the counts in a cause are shown after the diagnosis that found them.
const tallyFresh = 5 * time.Second

// TallyIsOld reports whether the counts in the cause of an object may be higher by now, because the group is still running.
func (g *GroupState) TallyIsOld(o *ObjectState, now time.Time) bool {
	return !g.Status.Over() && now.Sub(o.causeAt) >= tallyFresh
}

// Progress counts the pods of a workload by its own status. The zero value is that of an object without such counts.
type Progress struct {
	// Done of the Wanted pods are as Word says: available, ready, or updated.
	Done   int    `json:"done"`
	Wanted int    `json:"wanted"`
	Word   string `json:"word"`
	// Old counts the pods that still run although they are no longer wanted, Outdated those that still have the old version.
	Old      int `json:"old,omitempty"`
	Outdated int `json:"outdated,omitempty"`
}

// String returns the counts in words: "1 of 3 available", or "" for the zero value.
func (p Progress) String() string {
	if p == (Progress{}) {
		return ""
	}
	s := fmt.Sprintf("%d of %d %s", p.Done, p.Wanted, p.Word)
	if p.Old > 0 {
		s += ", " + text.Count(p.Old, "old pod") + " still running"
	}
	if p.Outdated > 0 {
		s += fmt.Sprintf(", %d updated", p.Wanted-p.Outdated)
	}
	return s
}

// Source is a container of a pod. Instance counts its starts from 1; zero is unknown.
type Source struct {
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Instance  int    `json:"instance,omitempty"`
}

// Matches reports whether the source passes a filter, whose empty fields match all.
func (s Source) Matches(only Source) bool {
	return (only.Pod == "" || s.Pod == only.Pod) && (only.Container == "" || s.Container == only.Container)
}

// Details are the facts of a diagnosis. Event.Lines says the same in words.
type Details struct {
	// Source is at fault, the zero value if no container is. ExitCode is that of its last end, and Log has its last lines.
	Source
	ExitCode *int     `json:"exitCode,omitempty"`
	Log      []string `json:"log,omitempty"`
	// Conditions are those of the object that are not as they should be: "Available is False: MinimumReplicasUnavailable".
	Conditions []string `json:"conditions,omitempty"`
	// Pods are those that are not ready, the worst first; MorePods counts those that are left out.
	Pods     []FailingPod `json:"pods,omitempty"`
	MorePods int          `json:"morePods,omitempty"`
	// Events are the newest warnings, oldest first.
	Events []ClusterEvent `json:"events,omitempty"`
	// Notes are other lines: the reads that failed, the refusal of the API server.
	Notes []string `json:"notes,omitempty"`
}

// IsEmpty reports whether a diagnosis has found nothing.
func (d Details) IsEmpty() bool {
	return len(d.Log)+len(d.Conditions)+len(d.Pods)+len(d.Events)+len(d.Notes) == 0
}

// FailingPod is a pod that is not ready, and why.
type FailingPod struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// ClusterEvent is a Kubernetes event about an object. Equal events are merged.
type ClusterEvent struct {
	// Time is when it last happened.
	Time time.Time `json:"time"`
	// Warning is true for warnings, false for normal events.
	Warning bool `json:"warning,omitempty"`
	// Object is the involved object, "Pod/api-5d8".
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Count is how often it happened.
	Count int `json:"count"`
	// Pods is how many pods it happened to, Object among them; 0 if it is not about a pod.
	Pods int `json:"pods,omitempty"`
}
