package run

import (
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// message is what the machine takes in. Messages reach it one at a time, through
// the inbox of the Engine, which is never closed: whoever sends after the closing
// event sends in vain.
type message interface{ message() }

type (
	// announced is sent by Announce: phases that will run.
	announced struct{ phases []event.Phase }
	// gateAsked is sent by Admit, which waits for a gateOpened with the same
	// gate; there is exactly one, unless the run ends before.
	gateAsked struct{ gate *gate }
	// stageEntered is sent by Start. Exactly one stageOver with the same run
	// answers it, and at most one allApplied before, unless the run ends before.
	stageEntered struct {
		stage Stage
		run   *StageRun
	}
	// answered is sent by the goroutine that a sendRequest has started, once.
	answered struct {
		request request
		outcome Outcome
		err     error
	}
	// vanished is sent by the same goroutine, after the answer that an object of the
	// same name was Terminating, once that is gone.
	vanished struct{ request request }
	// observed is sent by whoever a startWatch has set to work, any number of
	// times until the context of watches ends.
	observed struct {
		group *group
		seen  Observation
	}
	// diagnosed is sent by the goroutine that a startDiagnosis has started,
	// once.
	diagnosed struct {
		diagnosis diagnosis
		found     Finding
	}
	// commanded is sent by Command: a key, a signal, the screen that went away.
	commanded struct{ command event.Command }
	// serverLost is sent by Away, serverFound by Back: whether the API server
	// answers.
	serverLost struct {
		since  time.Time
		reason string
	}
	serverFound struct{}
	// ticked is sent by the loop when the time of the last wake has come.
	ticked struct{}
	// rollbackAsked is sent by BeginRollback, nextAsked by BeginNext, finishAsked by
	// Finish; all wait on reply, which has room for the one answer.
	rollbackAsked struct {
		operation event.Operation
		reason    string
		reply     chan<- error
	}
	nextAsked struct {
		operation event.Operation
		reason    string
		phases    []event.Phase
		reply     chan<- error
	}
	finishAsked struct {
		end   End
		reply chan<- error
	}
	// verdictAsked and requestsAsked are answered by the loop itself.
	verdictAsked  struct{ reply chan<- Verdict }
	requestsAsked struct{ reply chan<- requestsContext }
)

func (announced) message()     {}
func (gateAsked) message()     {}
func (stageEntered) message()  {}
func (answered) message()      {}
func (vanished) message()      {}
func (observed) message()      {}
func (diagnosed) message()     {}
func (commanded) message()     {}
func (serverLost) message()    {}
func (serverFound) message()   {}
func (ticked) message()        {}
func (rollbackAsked) message() {}
func (nextAsked) message()     {}
func (finishAsked) message()   {}
func (verdictAsked) message()  {}
func (requestsAsked) message() {}

// effect is what the machine wants done. Effects are carried out in their order,
// before the next message.
type effect interface{ effect() }

type (
	// publish adds an event to the record; the closing one ends it.
	publish struct {
		event   event.Event
		closing bool
	}
	// sendRequest sends a request; an answered comes back.
	sendRequest struct{ request request }
	// startWatch begins to watch a group; observed come back.
	startWatch struct{ group *group }
	// startDiagnosis asks why an object is not ready; a diagnosed comes back.
	startDiagnosis struct{ diagnosis diagnosis }
	// endRetries ends the context of waiting for another try, cancelRequests
	// that of requests; renewRequests makes others.
	endRetries     struct{ cause error }
	cancelRequests struct{}
	renewRequests  struct{}
	gateOpened     struct {
		gate *gate
		err  error
	}
	allApplied struct{ run *StageRun }
	stageOver  struct {
		run *StageRun
		err error
	}
	replied struct {
		reply chan<- error
		err   error
	}
)

func (publish) effect()        {}
func (sendRequest) effect()    {}
func (startWatch) effect()     {}
func (startDiagnosis) effect() {}
func (endRetries) effect()     {}
func (cancelRequests) effect() {}
func (renewRequests) effect()  {}
func (gateOpened) effect()     {}
func (allApplied) effect()     {}
func (stageOver) effect()      {}
func (replied) effect()        {}

// request is one request for one object, on behalf of one attempt at its group.
type request struct {
	stage   *stage
	group   *group
	object  *object
	attempt int
}

// diagnosis is a question why an object is not ready. failure is what it is asked
// for, nil where the object is only being waited for.
type diagnosis struct {
	stage   *stage
	group   *group
	object  *object
	named   plan.Object
	round   int
	failure *failure
}

// gate is a unit outside of a stage that waits to be let go (Admit).
type gate struct {
	unit  event.Unit
	group *plan.Group
	done  chan error // has room for the one answer
}

// clock counts the time an operation was neither paused nor held (R25).
type clock struct {
	start   time.Time
	idle    time.Duration
	stopped time.Time // zero while it counts
}

func (c *clock) active(now time.Time) time.Duration {
	if !c.stopped.IsZero() {
		now = c.stopped
	}
	return now.Sub(c.start) - c.idle
}

func (c *clock) stop(now time.Time) {
	if c.stopped.IsZero() {
		c.stopped = now
	}
}

func (c *clock) resume(now time.Time) {
	if !c.stopped.IsZero() {
		c.idle += now.Sub(c.stopped)
		c.stopped = time.Time{}
	}
}
