package inspector

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/ui/board/canvas"
)

// changes caches the changes to objects and queries missing ones. An answer is valid until its
// object changes, an edited revision starts, or a rollback starts or ends.
type changes struct {
	ctx context.Context
	// source returns the changes of the operation, or of a release of the stack by its Event.Scope. Nil: not connected.
	source func(scope string) inspect.ChangeSource
	known  map[place]answer
	// planned are the last changes before the run applied the objects.
	planned map[place]inspect.Change
	busy    bool
}

// place is an object with its place in the plan of an operation, or of a release of a stack.
type place struct {
	scope string
	inspect.Item
}

// newChanges returns an empty cache. Its queries end with ctx; source may be nil.
func newChanges(ctx context.Context, source func(scope string) inspect.ChangeSource) *changes {
	return &changes{ctx: ctx, source: source, known: map[place]answer{}, planned: map[place]inspect.Change{}}
}

type answer struct {
	basis       basis
	change      inspect.Change
	unavailable string // why there is no change
}

// basis is the state that an answer depends on.
type basis struct {
	status       event.Status
	since        time.Time         // of the object
	groupStarted time.Time         // a retry restarts the group
	group        *event.GroupState // an edited revision has other ones
	rollingBack  bool
	finished     int // number of finished groups; matters only while the answer is provisional
}

// provisional reports whether the answer may change when another group finishes.
func (a answer) provisional() bool {
	return a.unavailable != "" || a.change.Action == inspect.Later || a.change.Action == inspect.Refuse || a.change.Action == inspect.Create && a.change.Message != ""
}

// isValid reports whether the answer holds in the current state.
func (a answer) isValid(current basis) bool {
	if !a.provisional() {
		current.finished = a.basis.finished
	}
	return a.basis == current
}

// comparison is an object of the diff with the answer about it, if known.
type comparison struct {
	answer
	item    place
	object  *event.ObjectState
	current basis
	known   bool // the answer is still valid
	past    bool // the change has happened
}

// maxCompared is how many objects of a selected group are compared.
const maxCompared = 200

// comparisons returns the objects of a subject with their cached answers.
func (c *changes) comparisons(s Subject) (out []comparison) {
	n := s.Node
	switch {
	case n == nil:
		return nil
	case s.IsRelease():
		return c.ofRelease(s)
	}
	finished := s.finished()
	objects, rollingBack := n.Objects[:min(len(n.Objects), maxCompared)], s.RollingBack()
	if s.Object != nil {
		objects = []*event.ObjectState{s.Object}
	}
	for _, o := range objects {
		x := comparison{item: place{"", s.item(o)}, object: o, current: basis{o.Status, o.Since, n.Started, n.GroupState, rollingBack, finished}}
		x.answer, x.known = c.known[x.item]
		x.known = x.known && x.isValid(x.current)
		if x.known && x.change.Action == inspect.Unchanged {
			x.change.Fields = c.made(x)
		}
		out = append(out, x)
	}
	return out
}

// finished counts the finished groups.
func (s Subject) finished() (n int) {
	for _, other := range s.Graph.Nodes {
		if other.Status.Over() {
			n++
		}
	}
	return n
}

// ofRelease returns the objects of a stack's release. The answer about an object stays once it is applied, since it says what changed: the release is
// compared only once.
func (c *changes) ofRelease(s Subject) (out []comparison) {
	groups, finished := s.ReleaseGroups(s.Node), s.finished()
	for _, g := range groups {
		if g.Status.Over() {
			finished++
		}
	}
	for _, g := range groups {
		kind := s.State.Scopes[s.Node.ID].PhaseKind(g.Phase)
		for _, o := range g.Objects {
			if len(out) == maxCompared {
				return out
			}
			x := comparison{item: place{s.Node.ID, inspect.Item{Unit: g.Unit(), Kind: kind, Object: o.Object}}, object: o, current: basis{status: o.Status, finished: finished}}
			x.answer, x.known = c.known[x.item]
			x.known = x.known && (x.isValid(x.current) || !x.provisional())
			switch {
			case x.basis.status == event.Waiting && applied(o) && x.change.Action != inspect.Hook:
				x.change.Recorded = true
			case x.change.Action == inspect.Unchanged:
				x.change.Fields = c.made(x)
			}
			out = append(out, x)
		}
	}
	return out
}

// made returns the fields of an unchanged object that this run has changed: as it was compared before, or else as its manifest
// differs from the one before.
func (c *changes) made(x comparison) []inspect.Field {
	before := c.planned[x.item].Fields
	switch {
	case len(before) > 0 && applied(x.object):
		return before
	case x.object.NetChange() == event.Configured:
		return x.change.Fields
	}
	return nil
}

// item returns an object of the subject's group with its place in the plan.
func (s Subject) item(o *event.ObjectState) inspect.Item {
	return inspect.Item{Unit: s.Node.Unit(), Kind: s.Node.Kind, Object: o.Object}
}

// forget drops the cached answers about a subject.
func (c *changes) forget(s Subject) {
	for _, x := range c.comparisons(s) {
		delete(c.known, x.item)
	}
}

type changesMsg []comparison

const parallelQueries = 8

// query starts queries for missing answers about a subject, up to parallelQueries at a time. It is
// called on every update.
func (c *changes) query(s Subject) tea.Cmd {
	if c.busy || c.source == nil {
		return nil
	}
	var m changesMsg
	for _, x := range c.comparisons(s) {
		if !x.known && !isInFlight(x.object) && len(m) < parallelQueries {
			x.answer = answer{basis: x.current}
			m = append(m, x)
		}
	}
	if len(m) == 0 {
		return nil
	}
	c.busy = true
	source := c.source(m[0].item.scope)
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(c.ctx, queryTimeout)
		defer cancel()
		var queries sync.WaitGroup
		for n := range m {
			queries.Go(func() { m[n].set(source.Change(ctx, m[n].item.Item)) })
		}
		queries.Wait()
		return m
	}
}

// isInFlight reports whether a request for an object is in flight.
func isInFlight(o *event.ObjectState) bool {
	return o.Status == event.Applying || o.Status == event.Deleting
}

// set stores the result of a query, cleaned.
func (a *answer) set(c inspect.Change, err error) {
	if err != nil {
		a.unavailable = canvas.Clean(explain("lookup failed", err))
		return
	}
	c.Message = canvas.Clean(c.Message)
	fields := make([]inspect.Field, len(c.Fields))
	for n, f := range c.Fields {
		fields[n] = inspect.Field{In: canvas.Clean(f.In), Lines: cleanLines(f.Lines)}
	}
	c.Fields = fields
	a.change = c
}

func (c *changes) store(m changesMsg) {
	c.busy = false
	for _, x := range m {
		c.known[x.item] = x.answer
		if x.basis.status == event.Waiting && len(x.change.Fields) > 0 {
			c.planned[x.item] = x.change
		}
	}
}

// QueryChanges queries missing changes for the visible diff, in the tab or the pane, and for the
// object whose failure holds the run.
func (i *Inspector) QueryChanges() tea.Cmd {
	if i.Shown && i.Tab == TabDiff || i.ShowsDiff() {
		if cmd := i.changes.query(i.Subject()); cmd != nil {
			return cmd
		}
	}
	return i.changes.query(i.failed())
}

// failed returns the object whose failure holds the run; its Node is nil if there is none.
func (i *Inspector) failed() (s Subject) {
	failing := i.Failing()
	if !i.Held() || len(failing) == 0 {
		return s
	}
	first := failing[0]
	if root := i.RootOf(first); root.Object != nil {
		s = Subject{Picture: &i.Picture, Node: first, Object: root.Object}
	}
	return s
}

// reverts names the values in the cluster that a retry of the failed object would replace:
// "image: example/api:2", "replicas: 3 and 2 more".
func (i *Inspector) reverts() string {
	var lost []string
	for _, x := range i.changes.comparisons(i.failed()) {
		if !x.known || x.change.Action != inspect.Modify {
			return ""
		}
		for _, f := range x.change.Fields {
			for _, l := range f.Lines {
				if len(l) > 0 && l[0] == '-' {
					lost = append(lost, strings.TrimSpace(l[1:]))
					break
				}
			}
		}
	}
	switch len(lost) {
	case 0:
		return ""
	case 1:
		return lost[0]
	}
	return fmt.Sprintf("%s and %d more", lost[0], len(lost)-1)
}

// Reverted says if a retry would revert changes in the cluster, with as much detail as fits: "" or " (reverts image: api:2)".
func (i *Inspector) Reverted() string {
	switch lost := i.reverts(); {
	case lost == "":
		return ""
	case i.W < 100:
		return " (reverts)"
	default:
		return " (reverts " + canvas.FitMiddle(lost, i.W-80, i.Theme.Lines.Ellipsis) + ")"
	}
}
