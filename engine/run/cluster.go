package run

import (
	"context"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Cluster is what a stage does its work on. The engine calls Apply and Delete
// from several goroutines at once, Watch from one.
type Cluster interface {
	// Watch reports the status of the group's objects until ctx is done: the
	// present one first, then every change. It is called once per group,
	// before its first request, and must return at once. report may be called
	// from any goroutine and does not block.
	Watch(ctx context.Context, g *plan.Group, report func(Observation))
	// Apply brings an object of the group to the cluster and returns once the
	// API server has answered.
	Apply(ctx context.Context, g *plan.Group, o plan.Object) (Outcome, error)
	// Delete asks for the removal of an object of the group; Watch tells when
	// it is really gone.
	Delete(ctx context.Context, g *plan.Group, o plan.Object) (Outcome, error)
}

// Outcome is the API server's answer to a request.
type Outcome struct {
	Change event.Change
	// Version is the object's resourceVersion as a number, 0 where unknown.
	Version uint64
	// Name is the name that the API server gave the object, where the plan has
	// only the beginning of one (metadata.generateName).
	Name string
	// Message says why an object was Kept, or what keeps one that is Terminating.
	Message string
	// Terminating, where set, tells that an object of the same name is still being
	// deleted, so that the apply has to be sent again once it is gone (R30). It
	// returns then, or when ctx ends.
	Terminating func(ctx context.Context)
}

// Observation is what was last seen of an object.
type Observation struct {
	// Object is named as in the plan.
	Object plan.Object
	// Sign tells that something is wrong with the object, or with what it owns, so
	// that it is worth asking why now. Where Status is "", that is all it tells.
	Sign bool
	// Status is InProgress, Ready, Failed, Deleting or Gone; or Applying, of an
	// object whose request has been refused and is tried again, as Message says
	// (R53).
	Status event.Status
	// Message is the reason in one line: "2 of 3 available".
	Message string
	// Decided tells of a failure that Message is why: the chart itself says that this
	// is one (R23). Whatever else is found out is told beside it.
	Decided bool
	// Version is the resourceVersion that was seen, as a number; 0 where
	// unknown. What is older than the object's apply does not count (R22).
	Version uint64
}
