package run

import (
	"context"
	"reflect"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Cluster sends the requests of a stage. The engine calls Apply and Delete from several
// goroutines at once, Watch from one.
type Cluster interface {
	// Watch reports the status of the group's objects until ctx is done: the current status,
	// then every change. It is called once per group, before its first request, and must
	// return at once. report may be called from any goroutine and does not block.
	Watch(ctx context.Context, g *plan.Group, report func(Observation))
	// Apply applies an object of the group and returns the API server's answer.
	Apply(ctx context.Context, g *plan.Group, o plan.Object) (Response, error)
	// Delete requests the deletion of an object of the group; Watch reports when it is gone.
	Delete(ctx context.Context, g *plan.Group, o plan.Object) (Response, error)
}

// Response is the API server's answer to a request.
type Response struct {
	Change event.Change
	// Version is the object's resourceVersion as a number, 0 if unknown.
	Version uint64
	// Name is the object's generated name, if the plan has only a prefix (metadata.generateName).
	Name string
	// StatusBefore is Observation.StatusWrite of a status that is about the object before it was applied, so that it does
	// not count any more. It is "" if there is none, for example because the apply did not change what the status is about.
	StatusBefore string
	// Note is Event.Note of the object once it is ready, unless its status has one.
	Note string
	// Message is why an object was Kept, or why the one that WaitGone waits for still exists.
	// Finalizers are those of the latter.
	Message    string
	Finalizers []string
	// Deleted are other objects that were deleted so that the applied one can become ready: broken pods of an older template.
	Deleted []plan.Object
	// WaitGone is set if an object of the same name is still being deleted, so nothing was applied
	// (R30). It returns when ctx is done or that object is gone; in the second case the engine sends
	// the request again.
	WaitGone func(ctx context.Context)
}

// Observation is the last known state of an object.
type Observation struct {
	// Object has the name that the plan gives it.
	Object plan.Object
	// Trouble means that the object or its pods seem to have a problem; it triggers a diagnosis. With Applying, it means that
	// the request is being retried.
	Trouble bool
	// Pods is what is known of the object's pods, nil if that has not changed. If Status is empty, the observation has
	// nothing but Trouble and Pods.
	Pods *Pods
	// Status is InProgress, Ready, Failed, Deleting or Gone; or Applying if the request is still
	// in flight.
	Status event.Status
	// Message is the reason in one line: "2 of 3 available". With Applying, it is the progress of the request, or if that
	// is being retried, the error (R53).
	Message string
	// ReadyBy is the rule that decided Status, or "" if none did: the object is Deleting or Gone, for example.
	ReadyBy event.Judge
	// Progress is Event.Progress.
	Progress event.Progress
	// Note is Event.Note, if Status is Ready.
	Note string
	// Spare is how many of its pods need not be ready: all of a paused Deployment, and those of a DaemonSet on nodes that it no
	// longer fits.
	Spare int
	// Wanted is how many pods a workload that is ready has, by its status.
	Wanted int
	FirstStatus
	// Drift has the fields that others have changed since the object was applied (S18), as far as that is known.
	Drift []event.Drift
	// Since is when the object became as it is by its own facts, zero if they do not say: only of one that is InProgress or Failed.
	Since time.Time
	// Finalizers are those of an object that is Deleting.
	Finalizers []string
	// FailureDeclared means that a readiness expression of the chart declared the failure (R23).
	// Message is then its cause, and diagnoses are added to it.
	FailureDeclared bool
	// Version is the observed resourceVersion as a number, 0 if unknown. Observations older
	// than the object's apply do not count (R22).
	Version uint64
}

// FirstStatus is what was seen of the writes of an object's status by its controller (R22a).
type FirstStatus struct {
	// AwaitsStatus means that a controller writes the object's status, and that only a write since the apply shows that
	// Status is about what was applied. Until then, the object is in progress (R22a).
	AwaitsStatus bool
	// StatusWrite identifies the last write of that status, "" if there was none.
	StatusWrite string
	// SilenceConfirms means that the controller is known to look at each change, and to write only a status that differs.
	SilenceConfirms bool
}

// NotAwaited returns the observation as it counts for an object that nobody waits for: it is never ready (R22b).
func (o Observation) NotAwaited() Observation {
	if o.Status == event.Ready {
		o.Status, o.Note = event.Applied, ""
	}
	o.ReadyBy = event.NotAwaited
	return o
}

// Equal reports whether two observations say the same.
func (o Observation) Equal(other Observation) bool {
	same := slices.Equal(o.Finalizers, other.Finalizers)
	o.Finalizers, other.Finalizers = nil, nil
	return same && reflect.DeepEqual(o, other)
}
