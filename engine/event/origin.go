package event

import (
	"slices"
	"time"

	"lockstep/engine/plan"
)

// Origin is who or what paused a run, or ended it.
type Origin struct {
	Command CommandName `json:"command"`
	// Via is what sent the command, if it was not a key of the screen: "ctrl-c", "SIGTERM", "lockstep ctl". By is Event.By.
	Via string `json:"via,omitempty"`
	By  string `json:"by,omitempty"`
	// Why is the reason, if nobody asked for it: "the stack is paused".
	Why string `json:"why,omitempty"`
	// Cancelled is the number of requests that were cancelled.
	Cancelled int `json:"cancelled,omitempty"`
}

// Origin returns the origin of what the command does to the run.
func (c Command) Origin() Origin { return Origin{Command: c.Name, Via: c.Via, By: c.By, Why: c.Reason} }

// Approval is an approval that was given (R42a).
type Approval struct {
	plan.Approval
	// By is who gave it: "ann on box", "ann on box, --approve", "ann on box, another terminal", or the name of a user of the
	// cluster.
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// ApprovalsAt is the object of the cluster that has the approvals of a run.
type ApprovalsAt struct {
	Lease string `json:"lease"` // namespace/name
	// Plan is the digest of the plan, which an approval is bound to.
	Plan string `json:"plan"`
}

// Missing returns what is asked for but not given.
func Missing(asked []plan.Approval, given []Approval) []plan.Approval {
	return slices.DeleteFunc(slices.Clone(asked), func(a plan.Approval) bool {
		return slices.ContainsFunc(given, func(g Approval) bool { return g.Of == a.Of })
	})
}

// Unapproved returns what must still be approved before a group starts, nil for a group that has started.
func (s *State) Unapproved(g *GroupState) (missing []plan.Approval) {
	if g.Status != Waiting && g.Status != AtBreakpoint || IsRollback(g.Phase) {
		return nil
	}
	return Missing(g.Approve, s.Approvals)
}

// AwaitsApproval returns the first group before which the run is paused because it is not approved, or nil.
func (s *State) AwaitsApproval() *GroupState {
	for g := range s.GroupStates() {
		if g.Status == AtBreakpoint && g.Code == Unapproved {
			return g
		}
	}
	return nil
}
