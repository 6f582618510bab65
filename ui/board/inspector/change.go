package inspector

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
)

// Action is what becomes of an object.
type Action string

const (
	Create    Action = "create"
	Alter     Action = "change"
	Unchanged Action = "unchanged"
	Delete    Action = "delete"
	Absent    Action = "absent" // to be deleted, and gone already
	Keep      Action = "keep"   // to be deleted, but kept
	Hook      Action = "hook"
	Refuse    Action = "refuse"
	Later     Action = "later" // it cannot be told yet
)

// Change is what a run does to an object.
type Change struct {
	Action Action `json:"action"`
	// Message says why, in a sentence; it may be empty.
	Message string `json:"message,omitempty"`
	// Fields are those that an Alter changes, where they are known.
	Fields []Field `json:"fields,omitempty"`
	// Recorded means that it says what a run has done, and nothing of how the cluster
	// is now.
	Recorded bool `json:"recorded,omitempty"`
}

// Field is a field that changes.
type Field struct {
	// In is the way to what holds it.
	In string `json:"in"`
	// Lines begin with what they are: - was, + will be, a blank for what stands
	// around, @ for where in a long text that is.
	Lines []string `json:"lines"`
}

// Changes is what is known of changes, and asks for what is not: each answer counts
// until something happens to its object, or the run takes another turn.
type Changes struct {
	ctx   context.Context
	ask   func(context.Context, Item) (Change, error) // nil: nobody can be asked
	known map[Item]answer
	busy  bool
}

// NewChanges knows nothing yet. Its questions end with ctx; answers may be nil.
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

// moment is what an answer depends on.
type moment struct {
	status event.Status
	since  time.Time // of the object
	begun  time.Time // of its group: a retry begins it again
	back   bool      // the run is being undone
	// over counts the groups that are over, for an answer that what comes first may
	// change.
	over int
}

// passing reports whether an answer may change as other groups continue.
func (a answer) passing() bool {
	return a.none != "" || a.change.Action == Later || a.change.Action == Refuse || a.change.Action == Create && a.change.Message != ""
}

// mostCompared is how many objects of a group are compared unless one of them is
// selected.
const mostCompared = 200

// items are the objects that the diff is about, with the moments that answers
// about them belong to.
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
	objects := n.Objects[:min(len(n.Objects), mostCompared)]
	if s.Object != nil {
		objects = []*event.ObjectState{s.Object}
	}
	for _, o := range objects {
		items = append(items, s.ItemOf(o))
		moments = append(moments, moment{o.Status, o.Since, n.Started, s.RollingBack(), over})
	}
	return items, moments
}

// ItemOf is an object of the subject's group with its place.
func (s Subject) ItemOf(o *event.ObjectState) Item {
	return Item{s.Node.Unit(), s.Graph.Cols[s.Node.Col].Phase.Kind, o.Object}
}

// of is what is known of an item at a moment.
func (c *Changes) of(it Item, now moment) (answer, bool) {
	a, known := c.known[it]
	if known && !a.passing() {
		now.over = a.moment.over
	}
	return a, known && a.moment == now
}

// Forget makes the next look at a subject ask again.
func (c *Changes) Forget(s Subject) {
	items, _ := s.items()
	for _, it := range items {
		delete(c.known, it)
	}
}

// ChangesMsg brings answers about changes.
type ChangesMsg struct {
	items   []Item
	answers []answer
}

// atOnce is how many objects are asked about side by side.
const atOnce = 8

// Ask asks for what is not known of a subject, some objects at a time. It is called
// whenever something may have changed.
func (c *Changes) Ask(s Subject) tea.Cmd {
	if c.busy || c.ask == nil {
		return nil
	}
	var m ChangesMsg
	items, moments := s.items()
	for n, it := range items {
		if _, known := c.of(it, moments[n]); known || onItsWay(moments[n].status) || len(m.items) == atOnce {
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
		ctx, cancel := context.WithTimeout(c.ctx, askTimeout)
		defer cancel()
		var all sync.WaitGroup
		for n, it := range m.items {
			all.Go(func() { m.answers[n].take(c.ask(ctx, it)) })
		}
		all.Wait()
		return m
	}
}

// onItsWay reports whether a request for an object is running.
func onItsWay(s event.Status) bool { return s == event.Applying || s == event.Deleting }

// take takes an answer, clean.
func (a *answer) take(c Change, err error) {
	if err != nil {
		a.none = canvas.Clean(whyNone(err))
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

// Take takes answers.
func (c *Changes) Take(m ChangesMsg) {
	c.busy = false
	for n, it := range m.items {
		c.known[it] = m.answers[n]
	}
}
