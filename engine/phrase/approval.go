package phrase

import (
	"fmt"
	"maps"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// Missing says what a group waits for that is not approved: "waits for approval: drops table users".
func Missing(missing []plan.Approval) string {
	var reasons []string
	for _, a := range missing {
		reasons = append(reasons, a.Reason)
	}
	return text.Join(": ", "waits for approval", text.Join("; ", reasons...))
}

// ApprovalOf is why a run is paused before a group: "shop:schema waits for approval: drops table users".
func ApprovalOf(group string, missing []plan.Approval) string { return group + " " + Missing(missing) }

// Approved says who approved a group.
func Approved(group string, a event.Approval) string {
	return text.Join(": ", group+" approved by "+a.By, a.Reason)
}

// Given says who approved what: "shop:schema approved by ann on box: drops table users".
func Given(approvals []event.Approval) (lines []string) {
	for _, a := range approvals {
		lines = append(lines, Approved(a.Of, a))
	}
	return lines
}

// Approvals says who approved what in a run, also in the releases of a stack.
func Approvals(s *event.State) (lines []string) {
	lines = Given(s.Approvals)
	for _, id := range slices.Sorted(maps.Keys(s.Scopes)) {
		for _, line := range Approvals(s.Scopes[id]) {
			lines = append(lines, id+": "+line)
		}
	}
	return lines
}

// ApproveFirst is the refusal of a command that would start a group without its approval.
func ApproveFirst(group string) string {
	return group + " waits for approval: approve it first, or abort the run"
}

// NoReturnAfter says that a group is a point of no return: "no return after shop:migrate: schema 37 cannot be read by 36".
func NoReturnAfter(group, reason string) string { return "no return after " + group + ": " + reason }

// NoReturnPassed says that a run has passed a point of no return; without a group, an earlier run or another release has.
func NoReturnPassed(group, reason string) string {
	if group == "" {
		return "already past the point of no return: " + reason
	}
	return "point of no return passed with " + group + ": " + reason
}

// Barred is why a run or a release is not rolled back: it has passed points of no return.
func Barred(reason string) string { return "past the point of no return (" + reason + ")" }

// NotRolledBack says why a run or a release is not rolled back, and what else its user can do.
func NotRolledBack(reason string) string {
	return fmt.Sprintf("not rolled back, because it is %s; fix the problem and run the same command again, or roll back anyway with --past-no-return %q",
		Barred(reason), reason)
}
