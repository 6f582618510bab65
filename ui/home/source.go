package home

import (
	"context"
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
)

// Source is where the rows come from.
type Source interface {
	// Follow calls show with the state of a namespace ("" for all) at first and after changes, until ctx is done. It never calls
	// it concurrently.
	Follow(ctx context.Context, namespace string, show func(Snapshot))
	// Need says whose charts and health are wanted: the releases in view; and which one the user looks at, zero for none. It does
	// not wait.
	Need(releases []Key, selected Key)
	// History reads the revisions of a release. It returns an error that is ErrNoRevisions if there are none.
	History(ctx context.Context, release Key) (History, error)
	// PastRuns reads the recorded runs of this machine, and those in a namespace ("" for all) of the cluster that have ended and
	// still have their Jobs, the newest first. With an error, it returns the runs that it could read.
	PastRuns(ctx context.Context, namespace string) ([]PastRun, error)
	// Namespaces lists the namespaces to choose from.
	Namespaces(ctx context.Context) ([]string, error)
}

// ErrNoRevisions means that a release does not exist, or not yet.
var ErrNoRevisions = errors.New("the release has no revisions")

// Key identifies a release.
type Key struct{ Namespace, Name string }

// Snapshot is what is known of a namespace.
type Snapshot struct {
	Runs []LiveRun
	// Releases are those in the namespace, and those of Stacks.
	Releases []Release
	// Stacks are the stacks that were deployed lately, the last one first.
	Stacks []Stack
	// Listed is set once the releases have been listed, and Away says why what is shown may be out of date, "" if it is not.
	Listed bool
	// NoNamespace is set if the namespace does not exist.
	NoNamespace bool
	Away        string
	// LastFailed is the last recorded run in the cluster if it has failed, with the namespace of the failure; nil if it has not.
	LastFailed *PastRun
	// Denied says why an operation is not permitted, by namespace and by the name of the operation.
	Denied map[string]map[string]string
}

// Release is the latest revision of a release.
type Release struct {
	Key
	Revision int
	Status   string // as Helm calls it
	Changed  time.Time
	Record   // zero until it has been read
	Health   Health
	// LastRun is what the last run on this machine said at its end, if it did not succeed and made the latest revision.
	LastRun string
}

// Record is what only the content of a release's record tells.
type Record struct {
	Chart string // name and version: "shop 1.2.3"
	By    string // who made the revision: "ann on box"
}

// Health is the state of the release's objects.
type Health struct {
	// Status is Ready, InProgress, Failed, or "" while it is unknown. Degraded means that waiting will not help.
	Status    event.Status
	Degraded  bool
	Ready, Of int
	// Cause says what is not ready and why, "" if all is ready, and Since since when; zero if that is unknown.
	Cause string
	Since time.Time
}

// LiveRun is a run that has not ended.
type LiveRun struct {
	Key                    // of its release, or of its stack
	Operation string       // "upgrade"
	Status    event.Status // Running, Degraded, Paused, Held or Waiting; if only its lock is known, Locked, or Killed if its process has ended
	Why       string       // why it is paused or held, or how far it is, and what waiting will not make ready
	By        string       // who started it
	Since     time.Time
	// Ends is when a paused or held run ends unless somebody attaches, zero if it does not.
	Ends      time.Time
	Cluster   string // the name of its Job, "" if it is not in the cluster
	Elsewhere string // why it cannot be attached to from here, "" if it can
	Parts     []Part // the releases of a stack
}

// Locked is the status of a run of which only the lock is known: it may be paused. Killed is that of one whose process has ended.
const (
	Locked event.Status = "locked"
	Killed event.Status = "cut-off" // as in a record
)

// PastRun is a recorded run.
type PastRun struct {
	Key              // of its release, or of its stack
	Record    string // the name of its record, "" for a run in the cluster
	Cluster   string // the name of its Job, "" on this machine
	Operation string // "upgrade payments-1.5.0"
	Context   string // of its cluster, "" if there is none
	Started   time.Time
	Took      time.Duration // of a run that has ended
	Live      bool          // it has not ended
	Status    event.Status  // how it ended, or how it stands
	Why       string        // why it failed, or waits for a person
	By        string        // who started it
}

// Stack is the last run of a stack.
type Stack struct {
	Name, Operation string
	Status          event.Status // how it ended
	Ended           time.Time
	By              string
	Record          string // the name of its record
	Members         []Key  // the releases in the order of the stack; those that exist are in Snapshot.Releases
}

// Part is a release of a stack.
type Part struct {
	Name   string
	Status event.Status
	Why    string
}

// History is the revisions of a release.
type History interface {
	// Revisions returns them, the newest first.
	Revisions() []Revision
	// Changes returns how one revision differs from an earlier one. Its secret values are hidden.
	Changes(from, to int) ([]inspect.Change, error)
}

// Revision is a revision of a release.
type Revision struct {
	Number  int
	Status  string
	Changed time.Time
	Record
	// Description is Helm's.
	Description string
	What        string // what it changed: "values, objects: 1 added, 3 changed"
	// RollbackTo is the revision that it restored, 0 if it is no rollback.
	RollbackTo int
	Run        string // the name of the record of its run on this machine, "" if there is none
}
