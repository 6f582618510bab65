package inspector

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
)

// Action is the kind of a change.
type Action string

const (
	Create    Action = "create"
	Alter     Action = "change"
	Unchanged Action = "unchanged"
	Delete    Action = "delete"
	Absent    Action = "absent" // to be deleted, but already gone
	Keep      Action = "keep"   // removed from the release, but kept in the cluster
	Hook      Action = "hook"
	Refuse    Action = "refuse"
	Later     Action = "later" // not known yet
)

// Change is the change that a run makes to an object.
type Change struct {
	Action Action `json:"action"`
	// Message says why, in a sentence; it may be empty.
	Message string `json:"message,omitempty"`
	// Fields are the fields that an Alter changes, if known.
	Fields []Field `json:"fields,omitempty"`
	// Recorded means that the change comes from a record, not from a comparison with
	// the cluster.
	Recorded bool `json:"recorded,omitempty"`
}

// Field is a field that changes.
type Field struct {
	// In is the path of its parent.
	In string `json:"in"`
	// Lines start with - (old), + (new), a blank (context) or @ (place in a long text).
	Lines []string `json:"lines"`
}

// Changes caches changes and queries missing ones. An answer is valid until its object
// changes or the run starts or ends a rollback.
type Changes struct {
	ctx   context.Context
	ask   func(context.Context, Item) (Change, error) // nil: not connected
	known map[Item]answer
	busy  bool
}

// NewChanges returns an empty cache. Its queries end with ctx; answers may be nil.
func NewChanges(ctx context.Context, answers Answers) *Changes {
	c := &Changes{ctx: ctx, known: map[Item]answer{}}
	if answers != nil {
		c.ask = answers.Change
	}
	return c
}

type answer struct {
	moment moment
	change Change
	none   string // why there is no answer
}

// moment is the state that an answer depends on.
type moment struct {
	status event.Status
	since  time.Time // of the object
	begun  time.Time // of its group: a retry restarts it
	back   bool      // rolling back
	over   int       // number of finished groups, which can change a passing answer
}

// passing reports whether other groups may change the answer.
func (a answer) passing() bool {
	return a.none != "" || a.change.Action == Later || a.change.Action == Refuse || a.change.Action == Create && a.change.Message != ""
}

// maxCompared is how many objects of a selected group are compared.
const maxCompared = 200

// items returns the objects of the diff, with their current moments.
func (s Subject) items() (items []Item, moments []moment) {
	n := s.Node
	if n == nil {
		return nil, nil
	}
	over := 0
	for _, other := range s.Graph.Nodes {
		if other.Status.Over() {
			over++
		}
	}
	objects := n.Objects[:min(len(n.Objects), maxCompared)]
	if s.Object != nil {
		objects = []*event.ObjectState{s.Object}
	}
	for _, o := range objects {
		items = append(items, s.ItemOf(o))
		moments = append(moments, moment{o.Status, o.Since, n.Started, s.RollingBack(), over})
	}
	return items, moments
}

// ItemOf returns the item of an object of the subject's group.
func (s Subject) ItemOf(o *event.ObjectState) Item {
	return Item{s.Node.Unit(), s.Graph.Cols[s.Node.Col].Phase.Kind, o.Object}
}

// cached returns the cached answer for an item at a moment.
func (c *Changes) cached(it Item, now moment) (answer, bool) {
	a, known := c.known[it]
	if known && !a.passing() {
		now.over = a.moment.over
	}
	return a, known && a.moment == now
}

// Forget drops the cached answers about a subject.
func (c *Changes) Forget(s Subject) {
	items, _ := s.items()
	for _, it := range items {
		delete(c.known, it)
	}
}

// ChangesMsg holds answers about changes.
type ChangesMsg struct {
	items   []Item
	answers []answer
}

// parallelQueries is the number of parallel queries.
const parallelQueries = 8

// Ask queries missing answers about a subject, parallelQueries at a time. It is called on every
// update.
func (c *Changes) Ask(s Subject) tea.Cmd {
	if c.busy || c.ask == nil {
		return nil
	}
	var m ChangesMsg
	items, moments := s.items()
	for n, it := range items {
		if _, known := c.cached(it, moments[n]); known || inFlightStatus(moments[n].status) || len(m.items) == parallelQueries {
			continue
		}
		m.items = append(m.items, it)
		m.answers = append(m.answers, answer{moment: moments[n]})
	}
	if len(m.items) == 0 {
		return nil
	}
	c.busy = true
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(c.ctx, queryTimeout)
		defer cancel()
		var all sync.WaitGroup
		for n, it := range m.items {
			all.Go(func() { m.answers[n].take(c.ask(ctx, it)) })
		}
		all.Wait()
		return m
	}
}

// inFlightStatus reports whether a request for an object is running.
func inFlightStatus(s event.Status) bool { return s == event.Applying || s == event.Deleting }

// take stores a cleaned answer.
func (a *answer) take(c Change, err error) {
	if err != nil {
		a.none = canvas.Clean(noAnswerText(err))
		return
	}
	c.Message = canvas.Clean(c.Message)
	fields := make([]Field, len(c.Fields))
	for n, f := range c.Fields {
		fields[n] = Field{canvas.Clean(f.In), cleanLines(f.Lines)}
	}
	c.Fields = fields
	a.change = c
}

// Take stores answers.
func (c *Changes) Take(m ChangesMsg) {
	c.busy = false
	for n, it := range m.items {
		c.known[it] = m.answers[n]
	}
}
