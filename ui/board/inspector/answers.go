// Package inspector shows one group or object: why it has its status, its order and
// timings, and, from the cluster, its diff, manifest, events, pods and logs. Its central
// types are Inspector, the part of the screen, Subject, the selection, and Answers, the
// interface to the cluster.
package inspector

import (
	"context"
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Answers looks up objects in the cluster. Its methods run in separate goroutines and
// must return soon after ctx ends. They may return any text: the screen cleans it, and
// masks the values of Secrets again.
type Answers interface {
	Foresight
	// Events returns the object's events, and those of what it owns, oldest
	// first, one per line; none of an earlier object of the same name.
	Events(ctx context.Context, o plan.Object) ([]string, error)
	// Pods returns the object's pods, the one with the most trouble first, or
	// Nothing.
	Pods(ctx context.Context, o plan.Object) ([]Pod, error)
	// Logs calls follow with each line of the logs of all containers of the object's
	// pods, including containers that start later. It returns when ctx ends or no log
	// can follow. follow does not block and is safe for concurrent use.
	Logs(ctx context.Context, o plan.Object, follow func(LogLine)) error
	// Live returns the object as it is in the cluster, as YAML, or Nothing.
	Live(ctx context.Context, o plan.Object) (string, error)
}

// Foresight returns the changes that a run makes to objects.
type Foresight interface {
	// Change compares an object of the run with the cluster, or returns Nothing.
	Change(ctx context.Context, it Item) (Change, error)
	// Sent returns the object as the run sends it, as YAML, or Nothing.
	Sent(ctx context.Context, it Item) (string, error)
}

// Item is an object with its place in the plan.
type Item struct {
	event.Unit
	Kind   event.PhaseKind // of the unit's phase
	Object plan.Object
}

// Nothing is an error that says why there is no answer; it is not a failure.
type Nothing string

func (n Nothing) Error() string { return string(n) }

// explain returns the text of a Nothing, or of another error after what failed.
func explain(failed string, err error) string {
	if none := Nothing(""); errors.As(err, &none) {
		return string(none)
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
	Why      string // it is not ready
}

// LogLine is a line of a log.
type LogLine struct {
	Source
	Time time.Time // zero if unknown
	Text string
	// Note means that the text is lockstep's own. An empty note announces the source.
	Note bool
}

// Source is a container of a pod. Try counts its instances from 1; zero is unknown.
type Source struct {
	Pod, Container string
	Try            int
}

// Action is the kind of a change.
type Action string

const (
	Create    Action = "create"
	Alter     Action = "change"
	Unchanged Action = "unchanged"
	Delete    Action = "delete"
	Absent    Action = "absent" // to be deleted, but already gone
	Keep      Action = "keep"   // removed from the release, but kept in the cluster
	Hook      Action = "hook"
	Refuse    Action = "refuse"
	Later     Action = "later" // not known yet
)

// Change is the change that a run makes to an object.
type Change struct {
	Action Action `json:"action"`
	// Message says why, in a sentence; it may be empty.
	Message string `json:"message,omitempty"`
	// Fields are the fields that an Alter changes, if known.
	Fields []Field `json:"fields,omitempty"`
	// Recorded means that the change comes from a record, not from a comparison with
	// the cluster.
	Recorded bool `json:"recorded,omitempty"`
}

// Field is a field that changes.
type Field struct {
	// In is the path of its parent.
	In string `json:"in"`
	// Lines start with - (old), + (new), a blank (context) or @ (place in a long text).
	Lines []string `json:"lines"`
}
