package run

import (
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// message is an input of the machine: a value of one of the types below. Messages reach it one at a
// time through the inbox of the Engine; those after the closing event are ignored.
type message any

type (
	// announced is sent by Announce.
	announced struct{ phases []event.Phase }
	// admitRequested is sent by Admit. Exactly one replyAdmit with the same admission answers it,
	// unless the run ends first.
	admitRequested struct{ admission *admission }
	// stageStarted is sent by Start. Exactly one endStage with the same run
	// answers it, after at most one reportAllApplied, unless the run ends first.
	stageStarted struct {
		stage Stage
		run   *StageRun
	}
	// confirmRequested is sent by ConfirmReady. Exactly one endStage with the same run answers it, unless the run ends
	// first.
	confirmRequested struct{ run *StageRun }
	// answered is sent once, by the goroutine that a sendRequest started.
	answered struct {
		request  request
		response Response
		err      error
	}
	// nameFreed is sent by the same goroutine after Response.WaitGone, if that was set.
	nameFreed struct{ request request }
	// observed is sent by the watch that a startWatch started, any number of times until
	// the context of watches is done.
	observed struct {
		group       *group
		observation Observation
	}
	// diagnosed is sent once, by the goroutine that a startDiagnosis started.
	diagnosed struct {
		diagnosis diagnosis
		found     Finding
	}
	// commanded is sent by Command.
	commanded struct{ command event.Command }
	// noReturnPassed is sent by PassNoReturn.
	noReturnPassed struct{ reason string }
	// failed is sent by Fail.
	failed struct {
		cause string
		reply chan<- error // buffered
	}
	// steeringKept is sent once after each keepSteering, before any other message.
	steeringKept struct{ err error }
	// serverUnreachable and serverReachable are sent by the methods of the same names.
	serverUnreachable struct {
		since, proven time.Time
		reason        string
	}
	serverReachable struct{}
	// refreshed is sent once, by the goroutine that a startRefresh started, unless the run ends first.
	refreshed struct{ deadline *deadline }
	// lookedAtPods is sent once, by the goroutine that a startLook started, unless the run ends first.
	lookedAtPods struct{ settling *settling }
	// ticked is sent by the loop at the time that wake returned.
	ticked struct{}
	// transitionRequested is sent by StartRollback, StartEditedRevision and Finish.
	transitionRequested struct {
		transition func(*machine) error
		reply      chan<- error // buffered
	}
	// asked is sent by EndingCommand and RequestContext. The loop answers it itself.
	asked struct{ answer func(*loop) }
)

// effect is an output of the machine: a value of one of the types below. Effects are performed in order,
// before the next message is handled.
type effect any

type (
	// publish adds an event to the feed; the closing one ends it.
	publish struct {
		event   event.Event
		closing bool
	}
	// sendRequest sends a request; an answered message returns its result.
	sendRequest struct{ request request }
	// keepSteering passes the steering to Options.Keep; a steeringKept message returns the result. It comes before the other
	// effects of its message.
	keepSteering struct{ steering Steering }
	// reportAccepted calls Command.Accepted.
	reportAccepted struct{ command event.Command }
	// startWatch starts to watch a group; observed messages return the results.
	startWatch struct{ group *group }
	// startDiagnosis finds out why an object is not ready; a diagnosed message returns the result.
	startDiagnosis struct{ diagnosis diagnosis }
	// startRefresh reads an object whose deadline has passed; observed messages return the result, then a refreshed message.
	startRefresh struct{ deadline *deadline }
	// startLook reads the pods of workloads, and then those workloads that have lost a pod; observed messages return the result,
	// then a lookedAtPods message.
	startLook struct {
		settling      *settling
		objects, lost []plan.Object
	}
	// endRetries ends the context of retries, cancelRequests the context of requests;
	// resetRequests cancels both and creates new ones.
	endRetries     struct{ cause error }
	cancelRequests struct{}
	resetRequests  struct{}
	// replyAdmit lets an Admit return.
	replyAdmit struct {
		admission *admission
		err       error
	}
	// reportAllApplied lets WaitApplied return, endStage lets Wait and WaitApplied return.
	reportAllApplied struct{ run *StageRun }
	endStage         struct {
		run *StageRun
		err error
	}
	// replyTransition returns the result of a transition.
	replyTransition struct {
		reply chan<- error
		err   error
	}
)

type request struct {
	stage   *stage
	group   *group
	object  *object
	attempt int
}

// diagnosis is a request to find out why an object is not ready. failure is the failure
// that it explains, or nil if the object has not failed.
type diagnosis struct {
	stage   *stage
	group   *group
	object  *object
	actual  plan.Object
	round   int
	blocked bool // it is about an earlier object of the same name
	failure *failure
}

// admission is a call of Admit that waits for its unit to start.
type admission struct {
	unit event.Unit
	done chan error // buffered
}
