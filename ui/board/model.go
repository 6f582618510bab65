package board

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// model is the program's state: the operation's, and where the user is.
type model struct {
	ctx  context.Context
	opts Options
	now  func() time.Time
	th   theme.Theme
	pens *canvas.Pens

	w, h   int
	canvas *canvas.Canvas
	frame  string // the last frame, while nothing has changed
	stale  bool   // the frame is out of date

	state  event.State
	graph  graph.Graph
	tally  tally
	undo   map[plan.Object]*event.ObjectState // what a rollback has done to objects
	ended  bool                               // the source has ended
	went   bool                               // a step was taken since the run paused
	next   *event.GroupState                  // what a step lets go, while paused
	polled time.Time                          // when the last batch came
	ticks  bool                               // a tick is on its way

	sel    spot
	follow bool // the view follows the action, until the user moves
	first  int  // first column in view
	top    int  // first row of the board in view
	lay    layout

	flash  flash
	dialog dialog
	pager  *pager // help or warnings
	insp   *inspection
	filter filter
	typing bool // keys go to the filter
	queued []tea.Cmd
}

// spot is what is selected: a group, or an object of it.
type spot struct {
	event.Unit
	object plan.Object // zero: the group itself
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{ctx: ctx, opts: o, now: o.Now, follow: true, stale: true, graph: graph.New(&event.State{})}
	if m.now == nil {
		m.now = time.Now
	}
	m.filter = newFilter()
	m.setTheme(o.Theme)
	return m
}

func (m *model) setTheme(o theme.Options) {
	m.th = theme.New(o)
	m.pens = canvas.NewPens(m.th)
	m.stale = true
}

// Init asks for the first events and, where that is not known, for the
// terminal's background.
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.poll()}
	if m.th.Background == theme.Detect && m.th.Depth != theme.None {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	return tea.Batch(cmds...)
}

// readOnly reports whether there is no run to steer.
func (m *model) readOnly() bool { return m.opts.Command == nil }

// over reports whether nothing more happens.
func (m *model) over() bool {
	switch m.state.Status {
	case event.Succeeded, event.Failed, event.Aborted:
		return true
	}
	return m.ended
}

// steerable reports whether commands can be given.
func (m *model) steerable() bool { return !m.readOnly() && !m.over() }

// rollingBack reports whether the operation is being undone, or was.
func (m *model) rollingBack() bool {
	for _, p := range m.state.Phases {
		if strings.HasPrefix(p.Name, event.RollbackPrefix) {
			return true
		}
	}
	return m.state.Status == event.RollingBack
}

// tally counts what the header shows, once per batch.
type tally struct {
	total, done, applied, active, failed, waiting int
	requests                                      int // on their way
	groups                                        int // under way
}

// count adds up the objects of the phases that matter now: those of the
// rollback once there is one.
func (m *model) count() {
	m.tally, m.next = tally{}, nil
	if paused(m) {
		m.next = m.state.Next()
	}
	back := m.rollingBack()
	for _, n := range m.graph.Nodes {
		if strings.HasPrefix(n.Phase, event.RollbackPrefix) == back {
			m.tally.add(n.GroupState)
		}
	}
}

func (t *tally) add(g *event.GroupState) {
	t.total += len(g.Objects)
	if g.Status == event.Running {
		t.groups++
	}
	if g.Status == event.Waiting || g.Done == len(g.Objects) {
		t.done += g.Done
		t.waiting += len(g.Objects) - g.Done
		return
	}
	for _, o := range g.Objects {
		switch {
		case o.Done():
			t.done++
			continue
		case o.Status == event.Failed, g.Status == event.Failed && urgency(o) == 1:
			t.failed++
			continue
		case g.Status == event.Aborted && urgency(o) == 1:
			continue // nobody looks any more
		}
		switch o.Status {
		case event.Waiting:
			t.waiting++
		case event.Applying, event.Deleting:
			t.requests++
			t.active++
		case event.Applied:
			if g.Status.Over() {
				t.applied++
				continue
			}
			t.active++
		default:
			t.active++
		}
	}
}

// lively reports whether times on the screen go on.
func (m *model) lively() bool {
	if m.over() || m.state.Started.IsZero() {
		return false
	}
	return m.tally.groups > 0 || m.state.Run == event.Running || m.state.Run == event.Aborting
}

// flash is a short message in the state line.
type flash struct {
	text string
	role theme.Role
	n    int // counts messages, so that a late timer does not take a new one away
}

// group returns the selected group, or nil.
func (m *model) group() *graph.Node { return m.graph.ByKey[m.sel.Unit] }

// object returns the selected object, or nil where a group is selected.
func (m *model) object() *event.ObjectState {
	n := m.group()
	if n == nil || m.sel.object == (plan.Object{}) {
		return nil
	}
	return n.Find(m.sel.object)
}
