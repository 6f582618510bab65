package release

import (
	"slices"
	"strings"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
)

// Timing is how a group fared in the run that made a revision.
type Timing struct {
	Phase   string        `json:"phase"`
	Group   string        `json:"group"`
	Status  event.Status  `json:"status"`
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"` // ns, from its first request until it was over
	// Unchanged means that there was nothing to do: the cluster had all of it.
	Unchanged bool `json:"unchanged,omitempty"`
}

// timings are kept with a revision once its run is over. They name it, since
// Helm's rollback takes the files of a chart over to a new one.
type timings struct {
	Revision int      `json:"revision"`
	Groups   []Timing `json:"groups"`
}

const timingsFile = ".lockstep/run.json.gz"

// TimingsOf returns those of a revision, nil where it has none.
func TimingsOf(rel *rel1.Release) []Timing {
	var t timings
	if !readFile(rel, timingsFile, &t) || t.Revision != rel.Version {
		return nil
	}
	return t.Groups
}

// TimingsIn reads from the events of a run how its groups fared: those of the
// operation itself, or those of its rollback, whose phases have the prefix
// "rollback/".
func TimingsIn(events []event.Event, rollback bool) []Timing {
	var s event.State
	for _, e := range events {
		s.Apply(e)
	}
	var out []Timing
	for _, p := range s.Phases {
		name, back := strings.CutPrefix(p.Name, event.RollbackPrefix)
		if back != rollback {
			continue
		}
		for _, g := range p.Groups {
			if g.Started.IsZero() {
				continue // the run never came to it
			}
			end := g.Ended
			if end.IsZero() {
				end = s.Now
			}
			out = append(out, Timing{Phase: name, Group: g.ID, Status: g.Status, Started: g.Started, Took: end.Sub(g.Started), Unchanged: g.Message == string(event.Unchanged)})
		}
	}
	return out
}

// Usual is how long each unit took in the latest revision that came to be deployed
// and in which the unit had something to do. The timings that Helm's records keep
// are taken for that rather than the records of runs: they are the release's, so
// that whoever deploys it next has them, from whatever machine.
func (r *Revisions) Usual() map[event.Unit]time.Duration {
	usual := map[event.Unit]time.Duration{}
	for _, rel := range slices.Backward(r.All) {
		if !served(rel) {
			continue
		}
		for _, t := range TimingsOf(rel) {
			u := event.Unit{Phase: t.Phase, Group: t.Group}
			if _, known := usual[u]; !known && !t.Unchanged && t.Took >= 0 && (t.Status == event.Ready || t.Status == event.Applied || t.Status == event.Gone) {
				usual[u] = t.Took
			}
		}
	}
	return usual
}
