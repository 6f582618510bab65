// Package event defines the events of an operation and the commands to it. The engine publishes
// each Event to a Feed, which delivers it to any number of readers: the screen, reports and remote
// clients. Readers reduce events to a State. The engine answers each Command with an event. Any
// package may import event.
package event

import (
	"time"

	"lockstep/engine/plan"
)

// Kind says what an Event is about.
type Kind string

// The kinds of events, with their fields besides seq, time and kind.
const (
	// KindOperation opens the record (status running; operation; message for a watch or a dry run) and closes it
	// (status succeeded, failed or aborted; message; outcome; unchecked; noStatus; notAwaited; release; exit; object, cause and evidence of
	// the first failure; newer, results; origin if it was aborted). It also starts a rollback (status rolling-back; operation;
	// message; origin after an abort), and an edited revision
	// (status running; operation; message), which ends all phases announced before (R46). A watch publishes it again
	// for each new revision or status of the release, and keeps the phases.
	KindOperation Kind = "operation"
	// KindPlan announces phases with their groups before they run (phases).
	// A later one adds phases or replaces those of the same name.
	KindPlan Kind = "plan"
	// KindRun is the state of the whole run (status running, paused, held, replacing or
	// aborting; message says why; if a command paused or aborted it also origin; if it is held also phase and group of the
	// failure).
	KindRun Kind = "run"
	// KindGroup is the state of a group (phase, group, status, message; if failed also
	// object, cause and evidence of the failure; if skipped or aborted also skip).
	KindGroup Kind = "group"
	// KindObject is the state of an object of the group or, with outside, of one for which the group waits (phase, group,
	// object, outside, planned, status, message, progress, change; if ready also readyBy and note; until while it is held for a
	// time; if failed also cause and evidence).
	KindObject Kind = "object"
	// KindCommand answers a command (command, by, answers, reason, phase, group; status accepted or
	// refused; message says why it was refused, or what an accepted command did) (R45).
	KindCommand Kind = "command"
	// KindBreakpoint means that a breakpoint was set or enabled (status set), disabled
	// (status disabled) or deleted (status cleared) (phase, group).
	KindBreakpoint Kind = "breakpoint"
	// KindApproval means that what a group waits for was approved (phase, group, status accepted, approval), or says what a
	// group will change that waits for it (status waiting; lines) (R42a).
	KindApproval Kind = "approval"
	// KindNoReturn means that a group has succeeded which is a point of no return (phase, group, message: the reason), or that an
	// earlier run has passed one (message) (R33a).
	KindNoReturn Kind = "no-return"
	// KindWarning is a warning (rule, message; object if there is one).
	KindWarning Kind = "warning"
	// KindServer means that the API server is unreachable, or reachable again (status
	// away or back; message; since, with away) (R53).
	KindServer Kind = "api-server"
	// KindWaiting is the heartbeat: the object that the run has waited for longest (phase, group,
	// object, status, message; wait; cause and evidence if known). With readyBy settled, all groups are ready and the run waits
	// until the last containers have run for a while (until).
	KindWaiting Kind = "waiting"
	// KindDiagnosis says why an object is not ready (phase, group, object, cause,
	// evidence; status degraded if waiting will not help; cause is the object's state if no
	// cause is known; message is the same as cause; lines are its conditions, events, pods and
	// last log lines, details the same as facts). A later, vaguer diagnosis keeps the earlier cause and evidence;
	// without cause and message, the earlier cause no longer holds.
	KindDiagnosis Kind = "diagnosis"
	// KindDrift says which fields of an object others have changed since it was applied (phase, group, object, drift), none if
	// drift is empty (R21, S18).
	KindDrift Kind = "drift"
	// KindLog is output of a hook (phase, group, object; source; message names the pod
	// and the container; lines).
	KindLog Kind = "log"
	// KindScreens says how many screens show the run, after one was opened or closed (screens).
	KindScreens Kind = "screens"
	// KindNotes are the chart's notes at the end (lines).
	KindNotes Kind = "notes"
	// KindManifest is an applied object as YAML with secret values hidden (object, lines).
	// Only the record of a run has such events, for replays: after each event that starts a
	// revision, with seq 0. State ignores them.
	KindManifest Kind = "manifest"
)

// Status is the status in an event. The comments say what can have it.
type Status string

const (
	Waiting      Status = "waiting"     // group, object: not started
	AtBreakpoint        = Held          // group: the run paused before it (R42, R42a)
	Held         Status = "held"        // run: on a failure (R44)
	Running      Status = "running"     // operation, run, group
	Applying     Status = "applying"    // object: a request is in flight
	Applied      Status = "applied"     // object: accepted by the API server; group: all its requests accepted, not checked
	InProgress   Status = "in-progress" // object: applied and not ready, or waiting for its name (R30)
	Degraded     Status = "degraded"    // diagnosis: not ready, and waiting will not help
	Ready        Status = "ready"       // object, group
	Failed       Status = "failed"      // operation, group, object
	Skipped      Status = "skipped"     // group: not started, or ended before its first request
	Deleting     Status = "deleting"    // object: a request is in flight, or finalizers are pending
	Gone         Status = "gone"        // object, group: removed

	Paused      Status = "paused"       // run
	Aborting    Status = "aborting"     // run
	Replacing   Status = "replacing"    // run: an edited revision is about to start (R46)
	RollingBack Status = "rolling-back" // operation
	Succeeded   Status = "succeeded"    // operation
	Aborted     Status = "aborted"      // operation, group

	Accepted Status = "accepted" // command, approval
	Refused  Status = "refused"  // command
	Away     Status = "away"     // api-server: it does not respond
	Back     Status = "back"     // api-server: it answers again

	Set      Status = "set"      // breakpoint
	Disabled Status = "disabled" // breakpoint: kept, but does not pause the run
	Cleared  Status = "cleared"  // breakpoint
)

// Over reports whether a group in this status has ended.
func (s Status) Over() bool {
	switch s {
	case Applied, Ready, Failed, Skipped, Gone, Aborted:
		return true
	}
	return false
}

// Change is what a request did to an object.
type Change string

const (
	Created    Change = "created"
	Configured Change = "configured"
	Replaced   Change = "replaced" // deleted and created again
	Unchanged  Change = "unchanged"
	Deleted    Change = "deleted"
	Absent     Change = "absent" // to be deleted, but did not exist
	Ran        Change = "ran"    // a program (S11a)
	Kept       Change = "kept"   // because of helm.sh/resource-policy: keep, or because its owner is another release or cannot be read (R31)
)

// Word returns the change as people read it.
func (c Change) Word() string {
	switch c {
	case Absent:
		return "already absent"
	case Configured:
		return "changed"
	}
	return string(c)
}

// Event is an item of the Feed, and a line of `-o json` and of a run's record. Fields may be added, but
// never removed.
type Event struct {
	// Seq counts the events of an operation from 1. It is 0 in a KindManifest, and only a Bounded Feed
	// leaves gaps.
	Seq uint64 `json:"seq"`
	// Time is when it happened, in RFC 3339 with nanoseconds, UTC.
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Scope is the release of a stack that the event is about: [context/]namespace/name.
	// It is empty for events of the stack itself, and if there is no stack (S6).
	Scope string `json:"scope,omitempty"`
	// Phase names the phase that Group belongs to.
	Phase string `json:"phase,omitempty"`
	// Group is the id of a group, hook or other unit.
	Group   string       `json:"group,omitempty"`
	Object  *plan.Object `json:"object,omitempty"`
	Status  Status       `json:"status,omitempty"`
	Message string       `json:"message,omitempty"`
	// Cause says in one sentence, without the object's name, why Object is not ready:
	// `container api exited with code 3 (3 restarts): FATAL: no relation`.
	Cause string `json:"cause,omitempty"`
	// Tally has the counts in Cause. OnlyState means that Cause is the status of Object, because no cause is known.
	Tally     Tally `json:"tally,omitzero"`
	OnlyState bool  `json:"onlyState,omitempty"`
	// Evidence has the lines behind Cause, the most informative first, at most MaxEvidence.
	Evidence []string `json:"evidence,omitempty"`
	// Outside means that Object is from outside the release: Group waits for it before it starts (R22d).
	Outside bool `json:"outside,omitempty"`
	// Limit is the timeout that made a group fail, or ""; Timeout says more about it.
	Limit   Limit    `json:"limit,omitempty"`
	Timeout *Timeout `json:"timeout,omitempty"`
	// Origin is who or what paused or aborted the run.
	Origin *Origin `json:"origin,omitempty"`
	// Approval is what was approved, by whom and when.
	Approval *Approval `json:"approval,omitempty"`
	// Skip is why a group is skipped or aborted.
	Skip *Skip `json:"skip,omitempty"`
	// Code is the reason behind Message or Outcome, if programs have to tell it from others.
	Code string `json:"code,omitempty"`
	// Hold is set if a command is refused because a failure holds the run (R44).
	Hold *Hold `json:"hold,omitempty"`
	// Finalizers are those of Object, or of the previous object of its name, while the run waits until that
	// is gone: whoever set them removes them.
	Finalizers []string `json:"finalizers,omitempty"`
	// Change is set only in the event that reports the API server's answer.
	Change Change `json:"change,omitempty"`
	// ReadyBy is the rule by which Object counts as ready; NotAwaited whatever its status is, which is then never Ready.
	ReadyBy Judge `json:"readyBy,omitempty"`
	// Progress counts Object's pods, as far as its status is about what was applied.
	Progress Progress `json:"progress,omitzero"`
	// Note is set if Object is ready only as far as its own spec lets it get: "2 pods still run the old version: OnDelete".
	Note string `json:"note,omitempty"`
	// Planned is Object's name in the plan, if that is only a prefix (metadata.generateName).
	Planned string `json:"planned,omitempty"`
	// Until is when Object counts as ready if nothing happens, or when settling ends (R22c).
	Until time.Time `json:"until,omitzero"`
	// Since is when the API server became unreachable; since when an Unapproved run waits; in a watch, since when Object has its
	// Status by its own facts.
	Since time.Time `json:"since,omitzero"`
	// Command is the name of the command that an event answers.
	Command CommandName `json:"command,omitempty"`
	// By is the origin of that command: "ann on box, process 7", "another terminal" if that does not say who it is, the name of a
	// user (--in-cluster), or "" for the terminal of the run and for lockstep itself.
	By string `json:"by,omitempty"`
	// Reason is why that command was given, in the words of who gave it.
	Reason string `json:"reason,omitempty"`
	// Answers is the ID of that command, if it had one.
	Answers string `json:"answers,omitempty"`
	// Rule is the number of the rule behind a warning.
	Rule string `json:"rule,omitempty"`
	// Lines are lines of text, without line breaks.
	Lines []string `json:"lines,omitempty"`
	// Details are the facts of a diagnosis.
	Details *Details `json:"details,omitempty"`
	// Drift has the fields of Object that others have changed.
	Drift []Drift `json:"drift,omitempty"`
	// Wait says in a heartbeat how long the run has waited, and for how much.
	Wait *Wait `json:"wait,omitempty"`
	// Source is the container that wrote a log.
	Source *Source `json:"source,omitempty"`
	// Operation describes the operation. In a KindRun, it has the timeout that a hold has extended (R25).
	Operation *Operation `json:"operation,omitempty"`
	// Phases are the phases to run.
	Phases []Phase `json:"phases,omitempty"`
	// Exit is the exit code, on the last event.
	Exit *int `json:"exit,omitempty"`
	// Outcome describes the outcome for the release, without the reason, on the last event
	// of an operation that did not succeed, left some groups unchecked, did not wait for some objects, or does not know whether
	// some objects are ready: "the release is marked failed", "1 group applied, not checked".
	Outcome string `json:"outcome,omitempty"`
	// Unchecked is, on the last event of an operation that succeeded, the number of groups
	// that were applied, not checked (R21), and not ready at the end.
	Unchecked int `json:"unchecked,omitempty"`
	// NoStatus is, on the last event of an operation that succeeded, the number of objects that count as
	// ready although their controllers have written no status (R22a).
	NoStatus int `json:"noStatus,omitempty"`
	// Started is, on the last event of an operation that succeeded, the number of Jobs that count because they have
	// started, and were not complete at the end (R22).
	Started int `json:"started,omitempty"`
	// NotAwaited is, on the last event of an operation that succeeded, the number of objects that it did not wait for (R22b).
	NotAwaited int `json:"notAwaited,omitempty"`
	// Screens is the number of screens that show the run.
	Screens int `json:"screens,omitempty"`
	// Release is the release's final status in Helm's record, on the last event: deployed,
	// failed, uninstalled …, NoRelease, or empty if it is unknown.
	Release string `json:"release,omitempty"`
	// Newer is, on the last event, the newest revision of the release if another writer created it during the run, which
	// then writes nothing more to the release (R51b).
	Newer *NewerRevision `json:"newer,omitempty"`
	// Results are, on the last event of a stack, the results of its releases, in the order of the file.
	Results []ReleaseResult `json:"results,omitempty"`
}

// MaxEvidence is the maximum number of lines in Event.Evidence.
const MaxEvidence = 8

// NoRelease is Event.Release if the release does not exist.
const NoRelease = "none"

// The reasons in Event.Code.
const (
	// NothingWritten is that of an operation that ended before its first write.
	NothingWritten = "nothing-written"
	// RollbackInProgress is that of the refusal of the first Abort, Rollback or Stop during a rollback (R43).
	RollbackInProgress = "rollback-in-progress"
	// Rechecking is that of a running group that is re-checked (R44). It is also its Message.
	Rechecking = "re-checking"
	// Breakpoint and RunToTarget are those of a group before which the run paused, and its Message; that of a
	// Breakpoint of the plan is "before Job/x is replaced" (R30b).
	Breakpoint  = "breakpoint"
	RunToTarget = "run-to target"
	// NoReturn is that of the refusal of a Rollback that does not give the reasons of the points of no return (R33a).
	NoReturn = "no-return"
	// PlanWarning is that of a warning about the plan. An edited revision has its own, which replace those of the revision before.
	PlanWarning = "plan"
	// Unapproved is that of a group that waits for an approval, and of the run that is paused because of it (R42a).
	Unapproved = "unapproved"
)

// Hold is a failure that holds the run.
type Hold struct {
	// Release is the release of a stack that is held, or "".
	Release string `json:"release,omitempty"`
	// Commands are the commands that end the hold.
	Commands []CommandName `json:"commands"`
}

// The exit codes of an operation, in Event.Exit.
const (
	ExitFailed         = 1 // it failed; the release is failed or rolled back
	ExitNothingWritten = 2 // it failed before anything was written
	ExitAborted        = 3 // it was aborted (R43)
)

// NotCreated is the start of Event.Message of an object that is missing from a failed release.
const NotCreated = "not created"

// UnreadyAgain is the start of Event.Message of a group that was ready and is in progress again (R21). Event.Object is the
// object that is no longer ready.
const UnreadyAgain = "no longer ready"

// Operation describes an operation: the command, the release, the chart, the timeouts.
type Operation struct {
	// Name is install, upgrade, rollback, uninstall, test or watch, or up or down for a
	// stack, or check for a release of a stack that is unchanged but not ready yet (S4). Release is the name of the release or of the stack.
	Name      string `json:"name"`
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Context   string `json:"context,omitempty"`
	Chart     string `json:"chart,omitempty"`
	// Source is where an install or an upgrade found the chart: the absolute path of a folder or a package on the machine of the
	// run, or a reference without credentials. "" if it needed more than the reference, such as --repo.
	Source string `json:"source,omitempty"`
	// File is the path of the helmfile of a stack, absolute on the machine of the run; "" if it is not a file.
	File string `json:"file,omitempty"`
	// Identity is the same for all runs of a file with hooks, with the same environment, clusters and default namespaces.
	Identity string `json:"identity,omitempty"`
	Revision int    `json:"revision,omitempty"`
	// By is who started the run, "ann on box"; of a run in the cluster only in the record of a terminal that watched it.
	By string `json:"by,omitempty"`
	// Job is the Job that runs the operation in the cluster, as namespace/name, in the record of a terminal that watched it.
	Job string `json:"job,omitempty"`
	// ToRevision is the revision that a rollback restores.
	ToRevision int `json:"toRevision,omitempty"`
	// PreviousRevision is the revision that a rollback would restore, or 0 if there is none; see
	// UndoneBy.
	PreviousRevision int `json:"previousRevision,omitempty"`
	// Newest is the latest revision, if a watch shows the objects of an earlier one.
	Newest int `json:"newest,omitempty"`
	// PreviousChart is the chart of the revision that an upgrade replaces.
	PreviousChart string `json:"previousChart,omitempty"`
	// EditedValues is set once an edit of the run has changed the values (R46).
	EditedValues bool `json:"editedValues,omitempty"`
	// Timeout limits the whole operation, ReadinessTimeout the wait for one object; 0 is no
	// limit. Both are in nanoseconds (R25).
	Timeout          time.Duration `json:"timeout,omitempty"`
	ReadinessTimeout time.Duration `json:"readinessTimeout,omitempty"`
	// Approvals is where the run's approvals must be written, nil if it also takes commands (R42a). That of a stack is empty: its
	// releases have theirs.
	Approvals *ApprovalsAt `json:"approvals,omitempty"`
}

// Title names the operation: "install shop", or "install" if the release has no name yet.
func (o Operation) Title() string {
	if o.Name == "" || o.Release == "" {
		return o.Name + o.Release
	}
	return o.Name + " " + o.Release
}

// IsStack reports whether the operation is about a stack of releases (S1): its groups are
// releases, whose own events have a Scope.
func (o Operation) IsStack() bool { return o.Name == "up" || o.Name == "down" }

// GroupNoun returns "release" for a stack, whose groups are releases, else "group".
func (o Operation) GroupNoun() string {
	if o.IsStack() {
		return "release"
	}
	return "group"
}

// UndoneBy returns the operation that rolls this one back, "uninstall" or "rollback", or "" if
// it cannot be rolled back.
func (o Operation) UndoneBy() string {
	switch {
	case o.Name == "install":
		return "uninstall"
	case o.Name == "upgrade" && o.PreviousRevision > 0, o.Name == "up":
		return "rollback"
	}
	return ""
}

// IsWatch reports whether the operation only watches a release. Its events do not say how long groups took.
func (o Operation) IsWatch() bool { return o.Name == "watch" }

// Unit returns the unit that the event is about.
func (e Event) Unit() Unit { return Unit{e.Phase, e.Group} }

// Writes reports whether the event is about a request that applies or deletes an object, or about its result.
func (e Event) Writes() bool {
	return e.Kind == KindObject && e.Object != nil && (e.Status == Applying || e.Status == Deleting || e.Change != "")
}

// WarningEvent returns the event for a warning.
func WarningEvent(w plan.Warning) Event {
	return Event{Kind: KindWarning, Rule: w.Rule, Object: w.Object, Message: w.Message}
}
