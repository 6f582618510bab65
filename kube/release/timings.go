package release

import (
	"slices"
	"strings"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
)

// Timing is the status and duration of a group in the run that created a revision.
type Timing struct {
	Phase   string        `json:"phase"`
	Group   string        `json:"group"`
	Status  event.Status  `json:"status"`
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"` // in ns, from the first request to the final status
	// Unchanged is set if all objects were up to date.
	Unchanged bool `json:"unchanged,omitempty"`
}

// timings is the file that is stored with a revision at the end of its run. It has the revision
// because Helm's rollback copies the file.
type timings struct {
	Revision  int              `json:"revision"`
	Groups    []Timing         `json:"groups"`
	Approvals []event.Approval `json:"approvals,omitempty"`
}

const timingsFile = ".lockstep/run.json.gz"

// TimingsOf returns the timings of a revision, nil if it has none.
func TimingsOf(rel *rel1.Release) []Timing {
	var t timings
	if !readFile(rel, timingsFile, &t) || t.Revision != rel.Version {
		return nil
	}
	return t.Groups
}

// ApprovalsOf returns what was approved in the run that created a revision, nil for nothing (R42a).
func ApprovalsOf(rel *rel1.Release) []event.Approval {
	var t timings
	if !readFile(rel, timingsFile, &t) || t.Revision != rel.Version {
		return nil
	}
	return t.Approvals
}

// ApprovalsIn returns what was approved in a run's events, since it last started or was edited.
func ApprovalsIn(events []event.Event) []event.Approval {
	var s event.State
	for _, e := range events {
		s.Apply(e)
	}
	return s.Approvals
}

// TimingsIn returns the timings of the groups in a run's events: those of the operation or, if
// rollback is set, those of its rollback.
func TimingsIn(events []event.Event, rollback bool) []Timing {
	var s event.State
	for _, e := range events {
		s.Apply(e)
	}
	var out []Timing
	for _, p := range s.Phases {
		name, ofRollback := strings.CutPrefix(p.Name, event.RollbackPrefix)
		if ofRollback != rollback {
			continue
		}
		for _, g := range p.Groups {
			if g.Started.IsZero() {
				continue // never started
			}
			end := g.Ended
			if end.IsZero() {
				end = s.Now
			}
			out = append(out, Timing{
				Phase: name, Group: g.ID, Status: g.Status,
				Started: g.Started, Took: end.Sub(g.Started),
				Unchanged: len(g.Objects) > 0 && !slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return o.Change != event.Unchanged }),
			})
		}
	}
	return out
}

// Usual returns the duration of each unit in the latest deployed revision that changed it. It reads the
// release records because they are in the cluster, where all users and machines find them. The records
// of runs are local files.
func (r *Revisions) Usual() map[event.Unit]time.Duration {
	usual := map[event.Unit]time.Duration{}
	for _, rel := range slices.Backward(r.All) {
		if !WasDeployed(rel) {
			continue
		}
		for _, t := range TimingsOf(rel) {
			u := event.Unit{Phase: t.Phase, Group: t.Group}
			succeeded := t.Status == event.Ready || t.Status == event.Applied || t.Status == event.Gone
			if _, known := usual[u]; !known && succeeded && !t.Unchanged && t.Took >= 0 {
				usual[u] = t.Took
			}
		}
	}
	return usual
}
