package event

import "lockstep/engine/plan"

// CommandName names a command (R40 to R46).
type CommandName string

const (
	Pause    CommandName = "pause"    // start no further unit
	Resume   CommandName = "resume"   // resume after a pause; refused during a hold (R44)
	Step     CommandName = "step"     // start exactly one unit: Group, or the next in plan order (R41)
	RunTo    CommandName = "run-to"   // resume until a unit could start, and pause before it (R42)
	Break    CommandName = "break"    // set or delete a breakpoint on a unit (R42)
	Disable  CommandName = "disable"  // disable or enable a breakpoint (R42)
	Accept   CommandName = "accept"   // re-check failed groups without applying them (R44)
	Retry    CommandName = "retry"    // apply failed groups again and wait again (R44)
	Approve  CommandName = "approve"  // approve what a unit, or each that pauses the run, waits for (R42a)
	GiveUp   CommandName = "give-up"  // leave failed groups failed, finish running work (R44, R26)
	Edit     CommandName = "edit"     // while paused or held, replace the revision with an edited one (R46)
	Abort    CommandName = "abort"    // start nothing more, keep existing objects
	Rollback CommandName = "rollback" // abort, then roll back
	Stop     CommandName = "stop"     // abort, and cancel the requests in flight
)

// EditID is the number of an edit within a run, from 1.
type EditID int

// AnotherTerminal is Command.By of a command from another process of the same user on this machine that does not say who it is.
const AnotherTerminal = "another terminal"

// InternalID is the ID of commands that a stack sends to itself or its releases, because of a command that is accepted or of
// a state of a release. They are not refused if they cannot be kept, and their answers are not shown.
const InternalID = "internal"

// Command is a command to a run. The engine executes it and answers with an event.
type Command struct {
	Name CommandName `json:"command"`
	// Scope is the release of a stack that the command is about, as in Event.
	Scope string `json:"scope,omitempty"`
	// Phase and Group name the unit. Accept, Retry and GiveUp without a group apply to all
	// failed groups; a group without a phase means the first matching unit with that id.
	Phase string `json:"phase,omitempty"`
	Group string `json:"group,omitempty"`
	// Via is Origin.Via, Reason is Origin.Why.
	Via    string `json:"via,omitempty"`
	Reason string `json:"reason,omitempty"`
	// KnowsRollback makes an Abort, Rollback or Stop end a running rollback. Without it, the
	// first such command is refused, and only the next one ends the rollback (R43).
	KnowsRollback bool `json:"told,omitempty"`
	// PastNoReturn is the reason of the point of no return that a Rollback goes back past (R33a). OrKeep makes a Rollback that
	// lacks it an Abort, instead of a refusal: nobody waits for an answer.
	PastNoReturn string `json:"pastNoReturn,omitempty"`
	OrKeep       bool   `json:"orKeep,omitempty"`
	// Proven is the approval that an Approve was read for where Operation.Approvals says, nil for all that the unit waits for.
	Proven *plan.Approval `json:"-"`
	// By is copied to Event.By.
	By string `json:"-"`
	// ID is copied to Event.Answers.
	ID string `json:"id,omitempty"`
	// Values is YAML that an Edit from another process merges into the values of the run.
	Values string `json:"values,omitempty"`
	// Edit is the edit that the run's process has prepared, or 0. The operation reads it from
	// the EndingCommand of the engine.
	Edit EditID `json:"-"`
	// Accepted, if set, is called once the command is accepted and kept (S13). It must not wait for the engine.
	Accepted func() `json:"-"`
}

// Unit returns the unit that the command is about.
func (c Command) Unit() Unit { return Unit{c.Phase, c.Group} }
