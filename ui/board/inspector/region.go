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

// Region is the part of the screen for the inspector, open or closed.
type Region struct {
	*screen.Screen
	*Inspector
	Shown   bool
	Area    canvas.Rect
	Changes *Changes // kept while it is closed
	// Kubectl holds the kubectl flags that select the cluster. Nil: the operation's
	// context.
	Kubectl []string
	// Query is the text to search for in the open tab, Hits the number of matches.
	Query, Hits string
	show        func() // scrolls the selection into view
	Reverts     Reverts
}

// NewRegion returns a closed inspector; answers may be nil. Its queries end with ctx.
func NewRegion(ctx context.Context, s *screen.Screen, answers Answers, show func()) *Region {
	changes := NewChanges(ctx, answers)
	return &Region{Screen: s, Inspector: New(ctx, answers, changes), Changes: changes, show: show}
}

// Wraps reports whether the open tab wraps long lines.
func (r *Region) Wraps() bool {
	return r.Tab == TabLogs || r.Tab == TabManifest || r.Tab == TabEvents
}

func (r *Region) Close() tea.Cmd {
	if r.Shown {
		r.Stop()
		r.Shown = false
		r.show()
	}
	return nil
}

// FirstTab returns the tab that opens first: the diff of a waiting group, else why.
func (r *Region) FirstTab() Tab {
	if r.CanPreview() {
		return TabDiff
	}
	return TabWhy
}

// CanPreview reports whether the selected group has not started and can be compared with
// the cluster.
func (r *Region) CanPreview() bool {
	n := r.Group()
	return n != nil && r.answers != nil && (n.Status == event.Waiting || n.Status == event.Held)
}

// Look opens the inspector on a tab.
func (r *Region) Look(t Tab) tea.Cmd {
	r.open()
	return r.OpenTab(t)
}

func (r *Region) open() {
	r.Follow = false
	if !r.Shown {
		r.Inspector, r.Shown = New(r.ctx, r.answers, r.Changes), true
		r.show()
	}
}

// OpenDiff opens the diff, or refreshes it if it is open.
func (r *Region) OpenDiff() tea.Cmd {
	if r.Shown && r.Tab == TabDiff {
		r.Changes.Forget(r.Selected())
	}
	return r.Look(TabDiff)
}

// OpenManifest opens the manifest as applied, or as it is in the cluster.
func (r *Region) OpenManifest(live bool) tea.Cmd {
	r.open()
	r.Live = live
	return r.reopen(TabManifest)
}

// OpenTab opens a tab. The manifest of an applied object is the one in the cluster.
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

// Selected returns the selection.
func (r *Region) Selected() Subject {
	return Subject{Picture: &r.Picture, Node: r.Group(), Object: r.Object()}
}

// Item returns the subject with its place in the plan.
func (r *Region) Item() (Item, bool) {
	o := r.Subject()
	if o == nil {
		return Item{}, false
	}
	return r.Selected().ItemOf(o), true
}

// Subject returns the object of the tabs: the selected one, or the most urgent of the selected
// group; nil for none.
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

// Turn queries again after the selection moved.
func (r *Region) Turn() tea.Cmd {
	if !r.Shown {
		return nil
	}
	about, ok := r.Item()
	return r.Inspector.Turn(about, ok)
}

// QueryChanges queries missing changes for the visible diff, in the tab or in the pane.
func (r *Region) QueryChanges() tea.Cmd {
	if r.Shown && r.Tab == TabDiff || r.ShowsDiff() {
		return r.Changes.Ask(r.Selected())
	}
	return nil
}

// HasAnswers reports whether the inspector can query the cluster.
func (r *Region) HasAnswers() bool { return r.answers != nil }

// ShowsDiff reports whether the pane shows the diff of the selection: only while the run
// is paused.
func (r *Region) ShowsDiff() bool {
	stands := r.State.Run == event.Paused || r.State.Run == event.Held || r.PlanOnly()
	return stands && !r.Shown && r.CanPreview()
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

// Title returns the full name of the selection.
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

// Update stores answers, and queries again after events changed the state.
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
		r.storeReverts(msg)
	case keys.Changed:
		cmd := r.QueryReverts()
		if r.Replayed && r.Shown {
			cmd = tea.Batch(cmd, r.Again())
		}
		return cmd
	}
	return nil
}
