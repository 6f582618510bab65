package inspector

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
)

// changes caches changes and queries missing ones. An answer is valid until its object
// changes or the run starts or ends a rollback.
type changes struct {
	ctx   context.Context
	ask   func(context.Context, Item) (Change, error) // nil: not connected
	known map[Item]answer
	busy  bool
}

// newChanges returns an empty cache. Its queries end with ctx; answers may be nil.
func newChanges(ctx context.Context, answers Answers) *changes {
	c := &changes{ctx: ctx, known: map[Item]answer{}}
	if answers != nil {
		c.ask = answers.Change
	}
	return c
}

type answer struct {
	at     moment
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

// comparison is an object of the diff and the answer about it, if known.
type comparison struct {
	answer
	item   Item
	object *event.ObjectState
	now    moment
	known  bool
}

// maxCompared is how many objects of a selected group are compared.
const maxCompared = 200

func (c *changes) of(s Subject) (out []comparison) {
	n := s.Node
	if n == nil {
		return nil
	}
	over := 0
	for _, other := range s.Graph.Nodes {
		if other.Status.Over() {
			over++
		}
	}
	objects, back := n.Objects[:min(len(n.Objects), maxCompared)], s.RollingBack()
	if s.Object != nil {
		objects = []*event.ObjectState{s.Object}
	}
	for _, o := range objects {
		x := comparison{item: s.item(o), object: o, now: moment{o.Status, o.Since, n.Started, back, over}}
		x.answer, x.known = c.known[x.item]
		if x.known && !x.passing() {
			x.at.over = over
		}
		x.known = x.known && x.at == x.now
		out = append(out, x)
	}
	return out
}

// item returns the item of an object of the subject's group.
func (s Subject) item(o *event.ObjectState) Item {
	return Item{s.Node.Unit(), s.Node.Kind, o.Object}
}

// forget drops the cached answers about a subject.
func (c *changes) forget(s Subject) {
	for _, x := range c.of(s) {
		delete(c.known, x.item)
	}
}

type changesMsg []comparison

const parallelQueries = 8

// query queries missing answers about a subject, parallelQueries at a time. It is called on every
// update.
func (c *changes) query(s Subject) tea.Cmd {
	if c.busy || c.ask == nil {
		return nil
	}
	var m changesMsg
	for _, x := range c.of(s) {
		if !x.known && !isInFlight(x.object) && len(m) < parallelQueries {
			x.answer = answer{at: x.now}
			m = append(m, x)
		}
	}
	if len(m) == 0 {
		return nil
	}
	c.busy = true
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(c.ctx, queryTimeout)
		defer cancel()
		var all sync.WaitGroup
		for n := range m {
			all.Go(func() { m[n].take(c.ask(ctx, m[n].item)) })
		}
		all.Wait()
		return m
	}
}

// isInFlight reports whether a request for an object is running.
func isInFlight(o *event.ObjectState) bool {
	return o.Status == event.Applying || o.Status == event.Deleting
}

func (a *answer) take(c Change, err error) {
	if err != nil {
		a.none = canvas.Clean(explain("lookup failed", err))
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

func (c *changes) store(m changesMsg) {
	c.busy = false
	for _, x := range m {
		c.known[x.item] = x.answer
	}
}

// QueryChanges queries missing changes for the visible diff, in the tab or in the pane, and for
// the object whose failure holds the run.
func (i *Inspector) QueryChanges() tea.Cmd {
	if i.Shown && i.Tab == TabDiff || i.ShowsDiff() {
		if cmd := i.changes.query(i.Selected()); cmd != nil {
			return cmd
		}
	}
	return i.changes.query(i.failed())
}

// failed returns the object whose failure holds the run; without a node if there is none.
func (i *Inspector) failed() (s Subject) {
	failing := i.Failing()
	if !i.Held() || len(failing) == 0 {
		return s
	}
	first := failing[0] // the others follow after a retry
	if root := i.RootOf(first); root.Object != nil {
		s = Subject{Picture: &i.Picture, Node: first, Object: root.Object}
	}
	return s
}

// reverts names the values in the cluster that a retry of the failed object would replace:
// "image: example/api:2", "replicas: 3 and 2 more".
func (i *Inspector) reverts() string {
	var gone []string
	for _, x := range i.changes.of(i.failed()) {
		if !x.known || x.change.Action != Alter {
			return ""
		}
		for _, f := range x.change.Fields {
			for _, l := range f.Lines {
				if live, ok := strings.CutPrefix(l, "-"); ok {
					gone = append(gone, strings.TrimSpace(live))
					break
				}
			}
		}
	}
	switch len(gone) {
	case 0:
		return ""
	case 1:
		return gone[0]
	}
	return fmt.Sprintf("%s and %d more", gone[0], len(gone)-1)
}

// RetryHint returns the footer's word for R, with the change in the cluster that a retry would
// revert, as far as it fits.
func (i *Inspector) RetryHint() string {
	if !i.Held() {
		return ""
	}
	switch gone := i.reverts(); {
	case gone == "":
		return "retry"
	case i.W < 100:
		return "retry, reverts"
	default:
		return "retry, which reverts " + canvas.FitMiddle(gone, i.W-80, i.Theme.Lines.Ellipsis)
	}
}
