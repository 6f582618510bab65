package board

import (
	"context"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/picture"
)

// model is the program's state: the operation's, and where the user is.
type model struct {
	ctx  context.Context
	opts Options
	pens *canvas.Pens

	w, h   int
	canvas *canvas.Canvas
	frame  string // the last frame, while nothing has changed
	stale  bool   // the frame is out of date

	picture.Picture
	went   bool      // a step was taken since the run paused
	polled time.Time // when the last batch came
	ticks  bool      // a tick is on its way

	sel    spot
	follow bool // the view follows the action, until the user moves
	first  int  // first column in view
	top    int  // first row of the board in view
	wish   wish // of how much cards show
	lay    layout

	outlook outlook

	player *Player // what is played again, nil where something happens now
	armed  int     // counts the waits for its next event, so that an old one means nothing

	flash  flash
	dialog dialog
	// asked tells that a rollback was under way when the dialog was opened,
	// leaving that the screen is left once all is over.
	asked, leaving bool
	pager          *pager // help or warnings
	breaks         *breakList
	edit           *editing
	drift          drift
	insp           *inspector.Inspector
	changes        *inspector.Changes // what is known of them, also while it is closed
	filter         filter
	typing         bool // keys go to the filter
	query          textinput.Model
	seeking        bool   // keys go to the query
	found          string // what of the query is in the tab that is drawn
	palette        *palette
	queued         []tea.Cmd
}

// spot is what is selected: a group, or an object of it.
type spot struct {
	event.Unit
	object plan.Object // zero: the group itself
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{ctx: ctx, opts: o, player: o.player, follow: true, stale: true, changes: inspector.NewChanges(ctx, o.Inspector), Picture: picture.Picture{Now: o.Now, Steers: o.Command != nil, Graph: graph.New(&event.State{})}}
	if m.Now == nil {
		m.Now = time.Now
	}
	m.filter, m.query = newFilter(), newInput()
	m.setTheme(o.Theme)
	return m
}

func (m *model) setTheme(o theme.Options) {
	m.Theme = theme.New(o)
	m.pens = canvas.NewPens(m.Theme)
	m.stale = true
}

// Init asks for the first events and, where that is not known, for the
// terminal's background.
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.begin()}
	if m.Theme.Background == theme.Detect && m.Theme.Depth != theme.None {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	return tea.Batch(cmds...)
}

// begin is where the first events come from.
func (m *model) begin() tea.Cmd {
	if m.player == nil {
		return m.poll()
	}
	return tea.Batch(m.goFrom(0, m.player.At()), m.playOn())
}

// flash is a short message in the state line.
type flash struct {
	text string
	role theme.Role
	n    int // counts messages, so that a late timer does not take a new one away
}

// group returns the selected group, or nil.
func (m *model) group() *graph.Node { return m.Graph.ByKey[m.sel.Unit] }

// object returns the selected object, or nil where a group is selected.
func (m *model) object() *event.ObjectState {
	n := m.group()
	if n == nil || m.sel.object == (plan.Object{}) {
		return nil
	}
	return n.Find(m.sel.object)
}
