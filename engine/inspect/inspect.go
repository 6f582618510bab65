// Package inspect defines what can be looked up about the objects of a run: their changes, pods and
// logs. Its central types are Change and the interface Cluster. Packages of kube and ui import it.
package inspect

import (
	"context"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Cluster looks up objects in the cluster. Its methods run in separate goroutines and must return
// soon after ctx is done. They may return any text: the screen cleans it.
type Cluster interface {
	ChangeSource
	// Events returns the events of the object and of the objects it owns, oldest first. It omits events of an earlier
	// object of the same name.
	Events(ctx context.Context, o plan.Object) ([]event.ClusterEvent, error)
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

// HasPods reports whether an object is of a kind whose pods and logs can be looked up: its own, or those behind a Service.
func HasPods(o plan.Object) bool {
	builtIn := o.Group == "" || o.Group == "apps" || o.Group == "batch"
	return builtIn && slices.Contains([]string{"Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController", "Service"}, o.Kind)
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

// LogLine is a line of a container's log, or a note about the log.
type LogLine struct {
	event.Source
	// Time is when the line was written; for a note, its place in the log. It is zero if unknown.
	Time time.Time
	// Text is not cleaned: it may contain control sequences.
	Text string
	// Note means that the text is from lockstep. An empty note announces the source.
	Note bool
}

// Action is the kind of a change.
type Action string

const (
	Create    Action = "create"
	Modify    Action = "change"
	Replace   Action = "replace" // it cannot be updated, so it is deleted and created again
	Unchanged Action = "unchanged"
	Delete    Action = "delete"
	Absent    Action = "absent" // planned to be deleted, but already gone
	Keep      Action = "keep"   // planned to be deleted, but kept by helm.sh/resource-policy or another release
	Hook      Action = "hook"
	Refuse    Action = "refuse"  // the API server would refuse the change now, or a check refused it
	Drifted   Action = "drifted" // of a watched release: the object in the cluster differs from the record
	Later     Action = "later"   // unknown until earlier groups are applied; not in the plan of a whole operation
)

// Change is the change that a run makes to an object.
type Change struct {
	Phase  string      `json:"phase"`
	Group  string      `json:"group"`
	Object plan.Object `json:"object"`
	Action Action      `json:"action"`
	// Diff is how Modify changes the live object: a unified diff of YAML without file names. Secret
	// values are hidden.
	Diff string `json:"diff,omitempty"`
	// Message is the reason for the action, or what the diff does not show.
	Message string `json:"message,omitempty"`
	// Fields are the changes of Diff by field; for Unchanged, those that a run that has applied the object made; for Create, if a
	// single object was looked up, its manifest.
	Fields []Field `json:"fields,omitempty"`
	// Recorded means that the change comes from a record, not from a comparison with the cluster.
	Recorded bool `json:"recorded,omitempty"`
	// HasRun is set for a Job that is created again because the cluster deleted it after it had finished
	// (ttlSecondsAfterFinished): the deployed revision has run the same Job.
	HasRun bool `json:"-"`
	// Conflict means that it is refused because other managers own fields of the object (--force-conflicts).
	Conflict bool `json:"-"`
}

// Field is a field that differs between two states of an object.
type Field struct {
	// In is the path of the parent, spec.template.spec.containers[web], or, if the field is compared
	// line by line, of the field itself.
	In string `json:"in"`
	// Lines are YAML, each line after a sign: - old, + new, blank for context, @ for the line
	// number in a long text.
	Lines []string `json:"lines"`
}

// Modifies reports whether the change modifies the cluster. Hooks do not count: they run
// with every operation.
func (c Change) Modifies() bool {
	return c.Action == Create || c.Action == Modify || c.Action == Replace || c.Action == Delete
}

// Masked passes all text of the change through hide.
func (c Change) Masked(hide func(string) string) Change {
	c.Diff, c.Message = hide(c.Diff), hide(c.Message)
	fields := make([]Field, len(c.Fields))
	for n, f := range c.Fields {
		fields[n] = Field{hide(f.In), strings.Split(hide(strings.Join(f.Lines, "\n")), "\n")}
	}
	c.Fields = fields
	return c
}

// Editor edits the revision that a run applies (R46). None of its methods changes the cluster.
type Editor interface {
	// Values returns the user's values as YAML, with all also the charts' defaults. They are not
	// masked, because only the user's own editor shows them.
	Values(ctx context.Context, all bool) (string, error)
	// UserValues returns edited values without the charts' defaults, as YAML.
	UserValues(ctx context.Context, values string, all bool) (string, error)
	// Edit renders and plans a revision with edited values. An error means that the edit is
	// invalid.
	Edit(ctx context.Context, values string, all bool) (Edited, error)
	// Reload renders and plans a revision with the current content of the chart's directory.
	Reload(ctx context.Context) (Edited, error)
}

// Edited is a planned revision for review. Its secret values are hidden.
type Edited struct {
	Edit    event.EditID `json:"edit,omitempty"`    // of the command that continues the run with this revision
	Empty   bool         `json:"empty,omitempty"`   // nothing to apply
	Lines   []string     `json:"lines,omitempty"`   // counts, warnings and changes to the plan
	Changes []Change     `json:"changes,omitempty"` // in plan order
}
