// Package screen holds the state that all parts of the board share: the operation, the user's
// selection and view, and the canvas. Regions and modes import it; it imports none of them. Its
// central types are Screen and Spot, the selection.
package screen

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/picture"
)

// The screen has another layout below these sizes.
const (
	listBelow      = 80 // columns
	SmallestWidth  = 40
	SmallestHeight = 10
)

// Screen is the state that the parts of the board share.
type Screen struct {
	picture.Picture
	Canvas *canvas.Canvas
	W, H   int
	look

	Sel       Spot
	Follow    bool // the view follows the run, until the user moves
	Detail    Detail
	Filter    Filter
	Half      bool // only the rollback's groups are on the board, or after it only the others
	Flash     Flash
	Codes     map[event.Unit]string // of groups, while the user jumps to one
	Modes     keys.Stack
	Buttons   []Button // the hints in the last frame
	QuitAtEnd bool     // quit when the operation is over
	Aborts    bool     // the user aborted the run on this screen
	Pauses    bool     // the last pause came from this screen

	// Scoped is called with the events of a stack's releases, Rewound when the state is reset.
	// Both may be nil.
	Scoped  func(event.Event)
	Rewound func()

	Run
	outlook outlook
	sent    map[string]bool // the IDs of the commands that this screen sent and the run has not answered yet
}

// Run is the screen's connection to the run.
type Run struct {
	Attached  bool                // another process runs the operation
	StartedBy string              // who started the run, if another process runs it and that is known
	Replayed  bool                // the run is a record
	Throwaway bool                // quitting deletes the cluster
	Command   func(event.Command) // nil if the screen is read-only
	Abort     func() tea.Cmd      // closes all modes and opens the abort dialog
	Home      string              // what home, which opened the screen, shows after it; "" if it did not
	Leave     Leave
}

// Leave is how the user leaves a run running.
type Leave struct {
	ComeBack string        // the command that attaches to the run; "" if it ends with the screen
	Within   time.Duration // how long a paused or held run waits for somebody to attach
	Do       func()        // called before the screen quits
}

// Spot is the selection: a group, or one of its objects.
type Spot struct {
	event.Unit
	Object plan.Object // zero: the group itself
}

// Detail is how much of each group the board shows.
type Detail int

const (
	Auto    Detail = iota // as much as fits
	Compact               // all groups at once, one line each
	Full                  // all objects of all groups
	Details
)

func New(now func() time.Time, r Run) *Screen {
	if now == nil {
		now = time.Now
	}
	return &Screen{Follow: true, Run: r, sent: map[string]bool{}, Picture: picture.Picture{Now: now, Steers: r.Command != nil, Graph: graph.New(&event.State{})}}
}

// Narrow reports whether the screen draws a list instead of columns.
func (s *Screen) Narrow() bool { return s.W < listBelow }

// TooSmall reports whether there is no room for a board.
func (s *Screen) TooSmall() bool { return s.W < SmallestWidth || s.H < SmallestHeight }

// Group returns the selected group, or nil.
func (s *Screen) Group() *graph.Node { return s.Graph.ByKey[s.Sel.Unit] }

// Object returns the selected object, or nil if a group is selected.
func (s *Screen) Object() *event.ObjectState {
	if n := s.Group(); n != nil && s.Sel.Object != (plan.Object{}) {
		return n.Find(s.Sel.Object)
	}
	return nil
}

func (s *Screen) IsSelected(n *graph.Node) bool { return n.Unit() == s.Sel.Unit }

// HasBreakpoint reports whether a group has an enabled breakpoint and is not over.
func (s *Screen) HasBreakpoint(n *graph.Node) bool {
	return s.State.PausesBefore(n.Unit()) && !n.Status.Over()
}

// BreakpointAhead reports whether a group that has not started has a breakpoint, enabled or not.
func (s *Screen) BreakpointAhead(n *graph.Node) bool {
	return s.State.HasBreakpoint(n.Unit()) && !n.Status.Over() && n.Status != event.Running
}

// PlanOnly reports whether the screen shows a plan without a run.
func (s *Screen) PlanOnly() bool {
	return s.State.Status == "" && s.Over() && len(s.Graph.Nodes) > 0 && s.Stack == nil
}

// HasReport reports whether an operation has ended.
func (s *Screen) HasReport() bool {
	return s.Over() && !s.State.Ended.IsZero() && !s.State.Operation.IsWatch()
}

// CanQuit reports whether quitting does not end a run.
func (s *Screen) CanQuit() bool { return s.Over() || s.ReadOnly() || s.Attached }

// LeaveRunning quits the screen, not the run, which Leave allows.
func (s *Screen) LeaveRunning() tea.Cmd {
	s.Leave.Do()
	return tea.Quit
}

// Failing returns the failed groups of the current phases, the selected one first and the vaguest last.
func (s *Screen) Failing() []*graph.Node {
	out := s.Graph.Select(func(n *graph.Node) bool { return n.Status == event.Failed && s.IsCurrent(n) })
	order := func(n *graph.Node) int {
		if s.IsSelected(n) {
			return -1
		}
		return n.Vagueness()
	}
	slices.SortStableFunc(out, func(a, b *graph.Node) int { return order(a) - order(b) })
	return out
}

// RootOf returns the root cause of a group's failure.
func (s *Screen) RootOf(n *graph.Node) event.Root {
	for _, r := range s.State.Roots() {
		if r.Group == n.GroupState {
			return r
		}
	}
	return event.Root{Group: n.GroupState, Cause: n.Message}
}

// FailedCommand returns a command for the selected group if it failed, else for all failed groups. In a
// stack it goes to all held releases; a failed release is over.
func (s *Screen) FailedCommand(name event.CommandName) event.Command {
	c := event.Command{Name: name}
	if n := s.Group(); n != nil && n.Status == event.Failed && s.IsCurrent(n) && (n.Step != nil || !s.State.Operation.IsStack()) {
		c.Phase, c.Group = n.Phase, n.ID
	}
	return c
}

// Send sends a command to the run, which replies with an event. A message about an earlier refusal may be
// false then, so Send clears it.
func (s *Screen) Send(c event.Command) tea.Cmd {
	if s.Over() {
		return s.Say(theme.Quiet, "the run is over")
	}
	if s.Flash.Role == theme.Bad {
		s.Flash = Flash{N: s.Flash.N + 1}
	}
	c.ID = rand.Text()
	s.sent[c.ID] = true
	s.Aborts = s.Aborts || c.Name == event.Abort || c.Name == event.Rollback || c.Name == event.Stop
	s.Command(c)
	return nil
}

// ShareCommands makes the stack's screen show the refusals of commands that are sent on the screen of a release.
func (s *Screen) ShareCommands(stack *Screen) { s.sent = stack.sent }

// cannotDo says that a command is refused.
var cannotDo = map[event.CommandName]string{
	event.Pause: "cannot pause", event.Resume: "cannot resume", event.Step: "cannot step", event.RunTo: "cannot run to that group",
	event.Break: "cannot set a breakpoint", event.Disable: "cannot disable the breakpoint", event.Edit: "cannot edit",
	event.Accept: "cannot re-check", event.Retry: "cannot retry", event.GiveUp: "cannot stop here", event.Abort: "cannot abort",
	event.Rollback: "cannot roll back", event.Stop: "cannot stop",
}

// screenNames are the names of commands that the screen calls otherwise than lockstep ctl does.
var screenNames = map[event.CommandName]string{event.Accept: "re-check", event.GiveUp: "stop here"}

// answered notes the answer to a command, and returns the message about a refused one. It returns "" if another
// terminal sent the command (R45). A command without an ID comes from a signal to this process.
func (s *Screen) answered(e event.Event) string {
	signal := e.Answers == "" && !s.Attached && !s.Replayed
	own := s.sent[e.Answers] || signal
	delete(s.sent, e.Answers)
	if e.Command == event.Pause && e.Status == event.Accepted {
		s.Pauses = own
	}
	if !own || e.Status != event.Refused {
		return ""
	}
	why := e.Message
	if e.Hold != nil {
		why = phrase.Hold(*e.Hold, screenNames)
	}
	return cannotDo[e.Command] + ": " + s.Graph.Shorten(why)
}

// done says what an accepted command did.
var done = map[event.CommandName]string{
	event.Pause: "paused", event.Resume: "resumed", event.Step: "stepped", event.RunTo: "run to a group", event.Break: "breakpoint changed",
	event.Disable: "breakpoint disabled", event.Edit: "edited", event.Accept: "re-checked", event.Retry: "retried", event.GiveUp: "stopped here",
	event.Abort: "aborted", event.Rollback: "aborted, rolling back", event.Stop: "stopped",
}

// byOthers says what a command of somebody else on another screen has just done: "paused by ada@laptop". It returns "" for an old
// command, for one of this screen or of the run itself, and for a release of a stack, whose screen says it.
func (s *Screen) byOthers(e event.Event) string {
	if s.Stack != nil || e.Status != event.Accepted || e.Answers == "" || e.Answers == event.InternalID || s.sent[e.Answers] || s.Replayed || s.Now().Sub(e.Time) > flashFor {
		return ""
	}
	what := done[e.Command]
	if what == "" {
		return ""
	}
	return what + " by " + canvas.Clean(cmp.Or(e.By, s.StartedBy, "the user who started the run"))
}

// Absorb applies events to the picture.
func (s *Screen) Absorb(events []event.Event) (cmds []tea.Cmd) {
	announced := false
	for _, e := range events {
		s.State.Apply(e)
		if e.Kind == event.KindCommand {
			others := s.byOthers(e) // before answered forgets the screen's own command
			if refusal := s.answered(e); refusal != "" {
				cmds = append(cmds, s.Say(theme.Bad, refusal))
			} else if others != "" {
				cmds = append(cmds, s.Say(theme.Accent, others))
			}
		}
		switch {
		case e.Scope != "":
			if s.Scoped != nil {
				s.Scoped(e)
			}
		case e.Kind == event.KindOperation && e.Status == event.RollingBack:
			s.Follow = true
		case e.Kind == event.KindPlan:
			announced = true
		case e.Kind == event.KindCommand && e.Command == event.Edit && e.Status == event.Accepted:
			s.Follow = true // the plan changed
		}
	}
	if announced {
		s.Graph = graph.New(&s.State)
	}
	return cmds
}

// Rewind resets the state to before the first event.
func (s *Screen) Rewind() {
	s.State, s.Graph, s.outlook = event.State{}, graph.New(&event.State{}), outlook{}
	if s.Rewound != nil {
		s.Rewound()
	}
}

// Button is a hint on the screen; a click on it presses its key.
type Button struct {
	Rect canvas.Rect
	Key  string
}

// PutHint draws a hint and makes it a button. It returns the x after it.
func (s *Screen) PutHint(x, y int, h keys.Hint, role theme.Role) int {
	key := theme.Key
	if h.Dim {
		key, role = theme.Faint, theme.Faint
	}
	end := s.Canvas.Put(s.Canvas.Put(x, y, key, h.Key)+1, y, role, h.Word)
	s.Buttons = append(s.Buttons, Button{canvas.Rect{X: x, Y: y, W: end - x, H: 1}, h.Press})
	return end
}

// Flash is a short message above the keys.
type Flash struct {
	Text string
	Role theme.Role
	N    int // number of the message, so that an old timer does not clear a new one
}

// FlashOver is sent when the time of the message with this number is over.
type FlashOver int

const flashFor = 5 * time.Second

// Say shows a short message above the keys, where it does not cover the state.
func (s *Screen) Say(role theme.Role, text string) tea.Cmd { return s.SayFor(flashFor, role, text) }

// SayFor shows a message above the keys for a while, or until the next message.
func (s *Screen) SayFor(d time.Duration, role theme.Role, text string) tea.Cmd {
	s.Flash = Flash{Text: text, Role: role, N: s.Flash.N + 1}
	n := s.Flash.N
	return tea.Tick(d, func(time.Time) tea.Msg { return FlashOver(n) })
}

// Explain says why a key does not work now. A long reason stays longer.
func (s *Screen) Explain(why string) tea.Cmd {
	return s.SayFor(flashFor+time.Duration(len(why)/20)*time.Second, theme.Quiet, why)
}

func (s *Screen) HasGroup() bool { return s.Group() != nil }

// BatchEvery is how long events are collected before they are drawn.
const BatchEvery = 40 * time.Millisecond

// Sleep waits. It reports false if ctx is done first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
