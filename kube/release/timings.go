package release

import (
	"slices"
	"strings"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
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
	// Unsent are the objects that the run has not applied, because it failed or was ended before.
	Unsent []plan.Object `json:"unsent,omitempty"`
}

// Course is what the record of a revision keeps of the run that created it.
type Course struct {
	Groups    []Timing         `json:"groups"`
	Approvals []event.Approval `json:"approvals,omitempty"` // (R42a)
	NoReturn  []string         `json:"noReturn,omitempty"`  // the reasons of the points of no return that were passed (R33a)
}

// course is the file that is stored with a revision at the end of its run. It has the revision
// because Helm's rollback copies the file.
type course struct {
	Revision int `json:"revision"`
	Course
}

const courseFile = ".lockstep/run.json.gz"

// CourseOf returns the course of the run that created a revision, the zero value if its record has none.
func CourseOf(rel *rel1.Release) Course {
	var c course
	if !readFile(rel, courseFile, &c) || c.Revision != rel.Version {
		return Course{}
	}
	return c.Course
}

// CourseIn returns the course of a run from its events: the timings of the operation or, if rollback is set, of its rollback,
// and what was approved since the run last started or was edited.
func CourseIn(events []event.Event, rollback bool) Course {
	var s event.State
	for _, e := range events {
		s.Apply(e)
	}
	out := Course{Approvals: s.Approvals}
	written := writtenIn(events)
	for _, e := range events {
		if e.Kind == event.KindNoReturn && e.Group != "" && !rollback { // not of an earlier run or another release
			out.NoReturn = append(out.NoReturn, e.Message)
		}
	}
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
			t := Timing{
				Phase: name, Group: g.ID, Status: g.Status,
				Started: g.Started, Took: end.Sub(g.Started),
				Unchanged: len(g.Objects) > 0 && !slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return o.Change != event.Unchanged }),
			}
			if p.Kind == event.PhaseApply {
				t.Unsent = unsent(g, written[p.Name])
			}
			out.Groups = append(out.Groups, t)
		}
	}
	return out
}

// writtenIn returns the objects that a run has applied or deleted, by phase. An edit runs phases of the same names again.
func writtenIn(events []event.Event) map[string]map[plan.Object]bool {
	all := map[string]map[plan.Object]bool{}
	for _, e := range events {
		if !e.Writes() {
			continue
		}
		if all[e.Phase] == nil {
			all[e.Phase] = map[plan.Object]bool{}
		}
		all[e.Phase][*e.Object] = true
	}
	return all
}

// unsent returns the objects of a group that are not in written.
func unsent(g *event.GroupState, written map[plan.Object]bool) (objects []plan.Object) {
	for _, o := range g.Objects {
		if !written[o.Object] {
			objects = append(objects, o.Object)
		}
	}
	return objects
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
		for _, t := range CourseOf(rel).Groups {
			u := event.Unit{Phase: t.Phase, Group: t.Group}
			succeeded := t.Status == event.Ready || t.Status == event.Applied || t.Status == event.Gone
			if _, known := usual[u]; !known && succeeded && !t.Unchanged && t.Took >= 0 {
				usual[u] = t.Took
			}
		}
	}
	return usual
}
