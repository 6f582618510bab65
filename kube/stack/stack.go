// Package stack runs many releases as one: it plans an operation for each release of a
// helmfile, in the order of their needs, and runs them by a run.Engine of its own, whose
// units are the releases. The machine that schedules groups schedules releases, too; its
// requests are whole operations. The central types are Options and Stack. Only package kube
// imports it.
package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/operation"
)

// Connection is a connection to a cluster.
type Connection = connect.Client

// Options say what to run, and how.
type Options struct {
	File *helmfile.File
	// Down uninstalls all releases, in reverse.
	Down bool
	// Connect returns the connection for a context, "" for the current one. It is called
	// once for each.
	Connect func(context string) (*Connection, error)
	// Render loads the chart of a release, with the options that its file has.
	Render func(context.Context, helmfile.Release) (operation.Rendering, error)
	// Common are the options of all operations. Their release, namespace and timeout are
	// those of each release.
	Common operation.Common
	// Name labels the release records of the stack, so that Prune finds them later; "" for no
	// label.
	Name string
	// Prune removes the releases with the label of Name that the file no longer defines.
	Prune bool
	// Concurrency is how many releases are deployed at the same time; 0 for all that can.
	Concurrency int
}

// Stack is an operation on the releases of a helmfile. It was checked and planned; Run
// writes.
type Stack struct {
	opts    Options
	info    event.Operation
	members []*member // in the order of the file
	byID    map[string]*member
	watches []*cluster.Watches
	feed    event.Feed

	mu     sync.Mutex // guards the fields below
	engine *run.Engine
	queued []event.Command
	state  event.State // of the stack's own events
	active []*member   // whose operations run, in the order in which they started
	// step is set while the next group of a release that starts may go although the run is
	// paused. holder is the release that the whole run was paused for.
	step   bool
	holder *member
	// rollingBack is set once the rollback has begun.
	rollingBack bool
}

// member is a release of the stack with its operation.
type member struct {
	helmfile.Release
	id     string
	remove bool
	needs  []*member
	client *connect.Client
	// watches are shared by all releases of a context; nil for a plan only.
	watches *cluster.Watches
	planned
	// prepared is closed once planned is filled in.
	prepared chan struct{}

	report  func(run.Observation) // tells the stack's engine of its progress
	state   event.State           // of its operation, guarded by Stack.mu
	breakOn []string              // its groups that --break-on names together with it
	// breakpoints are those on groups of it, by their ids, until it starts.
	breakpoints map[string]bool
	skipped     bool // it was unchanged when its turn came
	rolledBack  bool
	result      error
	ran         bool
}

// planned is the plan of a release.
type planned struct {
	op        *operation.Operation // nil for a release to remove that does not exist
	provides  *operation.Provided
	unchanged bool
	err       error
}

// Release is what a stack would do to a release.
type Release struct {
	ID string
	// Operation is nil if there is nothing to do.
	Operation *operation.Operation
	Needs     []string
	Remove    bool
	// Unchanged releases are passed (S4).
	Unchanged bool
}

// Phase names of a stack.
const (
	phaseReleases = "releases"
	phaseRemove   = "remove"
	phaseRollback = event.RollbackPrefix + "releases"
)

// Feed is the record of the operation. It ends when Run returns.
func (s *Stack) Feed() *event.Feed { return &s.feed }

// Info names the operation and the file.
func (s *Stack) Info() event.Operation { return s.info }

// Text hides the secret values of all releases in a text.
func (s *Stack) Text(text string) string {
	for _, m := range s.members {
		if m.op != nil {
			text = m.op.Mask().Text(text)
		}
	}
	return text
}

// Releases are what the stack would do, in the order of the file.
func (s *Stack) Releases() (out []Release) {
	for _, m := range s.members {
		r := Release{ID: m.id, Operation: m.op, Remove: m.remove, Unchanged: m.unchanged}
		for _, n := range m.needs {
			r.Needs = append(r.Needs, n.id)
		}
		out = append(out, r)
	}
	return out
}

// Phases are the releases as groups, in layers: first those to deploy, then those to
// remove.
func (s *Stack) Phases() (phases []event.Phase) {
	apply := event.Phase{Name: phaseReleases, Kind: event.PhaseApply, Groups: makeGroups(s.members, func(m *member) bool { return !m.remove }, false)}
	remove := event.Phase{Name: phaseRemove, Kind: event.PhaseRemove, Groups: makeGroups(s.members, func(m *member) bool { return m.remove }, true)}
	for _, p := range []event.Phase{apply, remove} {
		if len(p.Groups) > 0 {
			phases = append(phases, p)
		}
	}
	return phases
}

// Rule S9: in reverse, a release comes after those that need it.
//
// groups are some members as groups: each after those that it needs or, in reverse, after
// those that need it.
func makeGroups(members []*member, include func(*member) bool, reverse bool) []*plan.Group {
	byID := map[string]*plan.Group{}
	var all []*plan.Group
	for _, m := range members {
		if include(m) {
			g := &plan.Group{ID: m.id, Chart: m.id, Name: m.Name, After: []string{}, Objects: []plan.Object{m.object()}, Waves: []plan.Wave{{Count: 1}}}
			byID[m.id], all = g, append(all, g)
		}
	}
	for _, m := range members {
		for _, n := range m.needs {
			from, to := byID[m.id], byID[n.id]
			if reverse {
				from, to = to, from
			}
			if from != nil && to != nil && !slices.Contains(from.After, to.ID) {
				from.After = append(from.After, to.ID)
			}
		}
	}
	for range all { // as often as the longest path is long
		for _, g := range all {
			for _, id := range g.After {
				g.Layer = max(g.Layer, byID[id].Layer+1)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *plan.Group) int { return a.Layer - b.Layer })
	for _, g := range all {
		slices.Sort(g.After)
	}
	return all
}

// object is the release as the object of its group.
func (m *member) object() plan.Object {
	return plan.Object{Group: "helm.sh", Kind: "Release", Namespace: m.Namespace, Name: m.Name}
}

// Warnings are those of all releases.
func (s *Stack) Warnings() (all []plan.Warning) {
	for _, m := range s.members {
		if m.op == nil {
			continue
		}
		for _, w := range m.op.Warnings() {
			w.Message = m.id + ": " + w.Message
			all = append(all, w)
		}
	}
	return all
}

// Close ends the watches of a stack that is over, or will not run.
func (s *Stack) Close() {
	for _, w := range s.watches {
		w.Close()
	}
}

// cycle names releases that need each other, "" if there are none.
func cycle(members []*member) string {
	state := map[*member]int{} // 1 while it is visited, 2 afterwards
	var path []string
	var visit func(m *member) bool
	visit = func(m *member) bool {
		switch state[m] {
		case 1:
			path = append(path, m.id)
			return true
		case 2:
			return false
		}
		state[m] = 1
		path = append(path, m.id)
		if slices.ContainsFunc(m.needs, visit) {
			return true
		}
		path, state[m] = path[:len(path)-1], 2
		return false
	}
	for _, m := range members {
		if visit(m) {
			first := slices.Index(path, path[len(path)-1])
			return fmt.Sprint(path[first:])
		}
	}
	return ""
}

// errNoReleases means that a helmfile has no release to deploy or remove.
var errNoReleases = errors.New("no releases")
