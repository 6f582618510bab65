package inspector

import (
	"context"
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/picture"
	"lockstep/ui/board/screen"
)

// Region is the part of the screen in which the inspector is open, or not.
type Region struct {
	*screen.Screen
	*Inspector
	Shown   bool
	Area    canvas.Rect
	Changes *Changes // what is known of them, also while it is closed
	// Kubectl are kubectl's flags that lead to the cluster. Nil: by the context that
	// the operation names.
	Kubectl []string
	// Query is what is searched for in the open tab, as it was typed, and Hits
	// what of that is in it.
	Query, Hits string
	// Show brings what is selected into view.
	show    func()
	Reverts Reverts
}

// NewRegion is a closed inspector, which answers may be nil for. Questions end with ctx.
func NewRegion(ctx context.Context, s *screen.Screen, answers Answers, show func()) *Region {
	changes := NewChanges(ctx, answers)
	return &Region{Screen: s, Inspector: New(ctx, answers, changes), Changes: changes, show: show}
}

// Wraps reports whether the open tab is text that is broken after its width.
func (r *Region) Wraps() bool {
	return r.Tab == TabLogs || r.Tab == TabManifest || r.Tab == TabEvents
}

// Close closes it.
func (r *Region) Close() tea.Cmd {
	if r.Shown {
		r.Stop()
		r.Shown = false
		r.show()
	}
	return nil
}

// FirstTab is where the inspector opens: what comes next is looked ahead to.
func (r *Region) FirstTab() Tab {
	if r.LooksAhead() {
		return TabDiff
	}
	return TabWhy
}

// LooksAhead reports whether the selected group is still to come, and somebody
// knows what that will do.
func (r *Region) LooksAhead() bool {
	n := r.Group()
	return n != nil && r.answers != nil && (n.Status == event.Waiting || n.Status == event.Held)
}

// Look opens the inspector, if it is not open, and a tab of it.
func (r *Region) Look(t Tab) tea.Cmd {
	r.open()
	return r.OpenTab(t)
}

// open opens the inspector, if it is not open.
func (r *Region) open() {
	r.Follow = false
	if !r.Shown {
		r.Inspector, r.Shown = New(r.ctx, r.answers, r.Changes), true
		r.show()
	}
}

// OpenDiff opens the diff; where it is open, it is looked up again.
func (r *Region) OpenDiff() tea.Cmd {
	if r.Shown && r.Tab == TabDiff {
		r.Changes.Forget(r.Selected())
	}
	return r.Look(TabDiff)
}

// OpenManifest opens the manifest as it is sent, or as it is in the cluster.
func (r *Region) OpenManifest(live bool) tea.Cmd {
	r.open()
	r.Live = live
	return r.reopen(TabManifest)
}

// OpenTab opens a tab; the manifest of what has been applied is that in the
// cluster.
func (r *Region) OpenTab(t Tab) tea.Cmd {
	if t == TabManifest {
		o := r.Subject()
		r.Live = o != nil && Applied(o)
	}
	return r.reopen(t)
}

func (r *Region) reopen(t Tab) tea.Cmd {
	about, ok := r.Item()
	return r.Open(t, about, ok)
}

// Selected is what is selected, as the inspector has it.
func (r *Region) Selected() Subject {
	return Subject{Picture: &r.Picture, Node: r.Group(), Object: r.Object()}
}

// Item is the subject with its place in the plan.
func (r *Region) Item() (Item, bool) {
	o := r.Subject()
	if o == nil {
		return Item{}, false
	}
	return r.Selected().ItemOf(o), true
}

// Subject is the object that the tabs are about: the selected one, or of the
// selected group the one that needs looking at; nil for none.
func (r *Region) Subject() *event.ObjectState {
	if o := r.Object(); o != nil {
		return o
	}
	n := r.Group()
	if n == nil || len(n.Objects) == 0 {
		return nil
	}
	if w := picture.Worst(n); w != nil {
		return w
	}
	for _, o := range n.Objects {
		switch o.Object.Kind {
		case "Deployment", "StatefulSet", "DaemonSet", "Job", "Pod":
			return o
		}
	}
	return n.Objects[0]
}

// Turn asks again after the selection has moved.
func (r *Region) Turn() tea.Cmd {
	if !r.Shown {
		return nil
	}
	about, ok := r.Item()
	return r.Inspector.Turn(about, ok)
}

// AskAhead asks for what the diff that is shown needs and is not known: the tab, or
// the pane below the board.
func (r *Region) AskAhead() tea.Cmd {
	if r.Shown && r.Tab == TabDiff || r.Foresees() {
		return r.Changes.Ask(r.Selected())
	}
	return nil
}

// HasAnswers reports whether somebody can be asked.
func (r *Region) HasAnswers() bool { return r.answers != nil }

// Foresees reports whether the pane says by itself what is going to happen to what is
// selected: while nothing continues that would overtake it.
func (r *Region) Foresees() bool {
	stands := r.State.Run == event.Paused || r.State.Run == event.Held || r.PlanOnly()
	return stands && !r.Shown && r.LooksAhead()
}

// Click opens the tab under the mouse.
func (r *Region) Click(x, y int) tea.Cmd {
	if y != r.Area.Y {
		return nil
	}
	places := r.tabPlaces()
	if k := slices.IndexFunc(places, func(r canvas.Rect) bool { return r.Has(x, y) }); k >= 0 {
		return r.OpenTab(Tab(k))
	}
	return nil
}

// Title names what is selected in full.
func (r *Region) Title() string {
	n := r.Group()
	if n == nil {
		return ""
	}
	title := n.ID
	if o := r.Object(); o != nil && o.Object.String() != n.Name {
		title += " " + r.Theme.Lines.Dot + " " + o.Object.String()
	}
	return title
}

// Wheel scrolls the open tab.
func (r *Region) Wheel(at tea.Mouse) {
	switch at.Button {
	case tea.MouseWheelUp:
		r.Scroll(-3)
	case tea.MouseWheelDown:
		r.Scroll(3)
	}
}

// Update takes answers, and asks again when events have changed the state.
func (r *Region) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case ChangesMsg:
		r.Changes.Take(msg)
	case LoadedMsg:
		r.loaded(msg)
	case LogMsg:
		if r.Shown {
			return r.logged(msg)
		}
	case ShellMsg:
		return r.RunShell(msg)
	case ShellEnded:
		return r.EndShell(msg)
	case revertsMsg:
		r.tookBack(msg)
	case keys.Changed:
		cmd := r.AskReverts()
		if r.Replayed && r.Shown {
			cmd = tea.Batch(cmd, r.Again())
		}
		return cmd
	}
	return nil
}
