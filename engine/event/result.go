package event

import (
	"cmp"
	"fmt"
)

// NewerRevision is the newest revision of a release, if another writer created it.
type NewerRevision struct {
	// Revision is 0 if the release does not exist any more.
	Revision int `json:"revision,omitempty"`
	// Status is its status in Helm's record, or NoRelease.
	Status string `json:"status,omitempty"`
	// Author is who created it: "helm", the user and host of a run of lockstep, or "" if unknown.
	Author string `json:"author,omitempty"`
}

// String describes the revision: "revision 3 by helm".
func (n NewerRevision) String() string {
	if n.Revision == 0 {
		return "no revision: it was uninstalled by " + cmp.Or(n.Author, "somebody else")
	}
	return fmt.Sprintf("revision %d by %s", n.Revision, cmp.Or(n.Author, "somebody else"))
}

// Result is the result of a run for a release of a stack.
type Result string

// The results of releases. Each is about the release's record at the end, not about the error of its operation.
const (
	Deployed        Result = "deployed"          // by this run
	RolledBack      Result = "rolled back"       // to its previous revision, by this run
	Uninstalled     Result = "uninstalled"       // by this run, also by a rollback of a first install
	PassedUnchanged Result = "unchanged"         // and ready (S4)
	NotReady        Result = "not ready"         // unchanged or deployed by this run, and not ready when it was looked at again (R21, S4)
	NotDeployed     Result = "failed"            // its record says failed, or nothing was written
	Unfinished      Result = "unfinished"        // its record is pending or uninstalling
	ChangedByOthers Result = "changed by others" // its newest revision, or an object of an unchanged one, is not this run's
	UnknownResult   Result = "unknown"           // its record could not be read, see ReleaseResult.Status
	NotInstalled    Result = "not installed"     // and must not be
	NotStarted      Result = "not started"
)

// ReleaseResult is the result of a release of a stack.
type ReleaseResult struct {
	// Release is [context/]namespace/name.
	Release string `json:"release"`
	Result  Result `json:"result"`
	// Revision and Status are those of its newest record, 0 and NoRelease if there is none. If the result is unknown,
	// Status is the one that the record may have.
	Revision int    `json:"revision,omitempty"`
	Status   string `json:"status,omitempty"`
	// Changed is set if this run has deployed a revision of the release or removed one.
	Changed bool `json:"changed,omitempty"`
	// Newer is the newest revision if another writer created it (R51b).
	Newer *NewerRevision `json:"newer,omitempty"`
	// Reason is why the release was not rolled back, or what the last check of an unchanged release found.
	Reason string `json:"reason,omitempty"`
}
