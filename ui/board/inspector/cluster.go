// Package inspector shows one group or object: why it has its status, its order and timings, and,
// from the cluster, its diff, manifest, events, pods and logs. Its central types are Inspector, the
// part of the screen, Subject, the selection, and Cluster, which looks up objects.
package inspector

import (
	"context"
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Cluster looks up objects in the cluster. Its methods run in separate goroutines and must return
// soon after ctx is done. They may return any text: the screen cleans it, and masks Secrets in
// manifests again.
type Cluster interface {
	ChangeSource
	// Events returns the events of the object and of the objects it owns, oldest first, one per
	// line. It omits events of an earlier object of the same name.
	Events(ctx context.Context, o plan.Object) ([]string, error)
	// Pods returns the object's pods, the one with the most trouble first, or Unavailable.
	Pods(ctx context.Context, o plan.Object) ([]Pod, error)
	// Logs calls emit with each line of the logs of all containers of the object's pods, including
	// containers that start later. It returns when ctx is done or no more lines can come. emit does
	// not block and is safe for concurrent use.
	Logs(ctx context.Context, o plan.Object, emit func(LogLine)) error
	// Live returns the object in the cluster as YAML, or Unavailable.
	Live(ctx context.Context, o plan.Object) (string, error)
}

// ChangeSource looks up the changes that a run makes to objects.
type ChangeSource interface {
	// Change compares an object of the run with the cluster, or returns Unavailable.
	Change(ctx context.Context, it Item) (Change, error)
	// Sent returns the object that the run sends to the API server as YAML, or Unavailable.
	Sent(ctx context.Context, it Item) (string, error)
}

// Item is an object with its place in the plan.
type Item struct {
	event.Unit
	Kind   event.PhaseKind // of the unit's phase
	Object plan.Object
}

// Unavailable is an error that says why there is no answer, although the lookup did not fail.
type Unavailable string

func (u Unavailable) Error() string { return string(u) }

// explain returns the text of an Unavailable, or "failed: err" for other errors.
func explain(failed string, err error) string {
	if why := Unavailable(""); errors.As(err, &why) {
		return string(why)
	}
	return failed + ": " + err.Error()
}

// Pod is a pod in a table. Unknown fields are empty.
type Pod struct {
	Name     string
	Ready    string // ready containers, "1/2"
	Restarts string
	Created  time.Time
	Node     string
	Phase    string
	Why      string // why it is not ready
}

// LogLine is a line of a log.
type LogLine struct {
	Source
	Time time.Time // zero if unknown
	Text string
	// Note means that the text is from lockstep. An empty note announces the source.
	Note bool
}

// Source is a container of a pod. Instance counts its starts from 1; zero is unknown.
type Source struct {
	Pod, Container string
	Instance       int
}

// Action is the kind of a change.
type Action string

const (
	Create    Action = "create"
	Modify    Action = "change"
	Unchanged Action = "unchanged"
	Delete    Action = "delete"
	Absent    Action = "absent" // it should be deleted, but is already gone
	Keep      Action = "keep"   // removed from the release, but kept in the cluster
	Hook      Action = "hook"
	Refuse    Action = "refuse"
	Later     Action = "later" // not known yet
)

// Change is the change that a run makes to an object.
type Change struct {
	Action Action `json:"action"`
	// Message says why; it may be empty.
	Message string `json:"message,omitempty"`
	// Fields are the fields that a Modify changes, if known.
	Fields []Field `json:"fields,omitempty"`
	// Recorded means that the change comes from a record, not from a comparison with the cluster.
	Recorded bool `json:"recorded,omitempty"`
}

// Field is a field that changes.
type Field struct {
	// In is the path of the parent or, if the field is compared line by line, of the field itself.
	In string `json:"in"`
	// Lines start with - (old), + (new), a space (context) or @ (position in a long text).
	Lines []string `json:"lines"`
}
